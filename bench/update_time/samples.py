"""What a process computed, from samples of Linux ``perf``: by kind of work, in milliseconds."""

import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

HERTZ = 997
"""Samples for each second of computing; no multiple of anything that a program does regularly."""

HASHING, COPYING, NUMBERS, PYTHON, CLIENT, KERNEL = "hashing", "copying", "numbers", "Python", "Kafka client", "kernel"
COMPILER, JVM = "JVM's compiler", "JVM"
KINDS = (HASHING, COPYING, NUMBERS, PYTHON, CLIENT, JVM, COMPILER, KERNEL)

_LINE = re.compile(r"^\s*(?P<thread>.+?)\s+(?P<place>[0-9a-f]+) (?P<symbol>.*) \((?P<library>.*)\)$")
_LIBRARIES = {"libcrypto": HASHING, "_multiarray_umath": NUMBERS, "librdkafka": CLIENT, "cimpl": CLIENT}


def kind_of(thread: str, symbol: str, library: str, *, is_jvm: bool) -> str:
    """Say what a sample was taken in the middle of."""
    if library.startswith("[kernel") or (library == "[unknown]" and symbol.startswith("[k]")):
        return KERNEL
    if is_jvm:
        return COMPILER if "Compiler" in thread else JVM
    if "memmove" in symbol or "memcpy" in symbol:
        return COPYING
    return next((kind for name, kind in _LIBRARIES.items() if name in library), PYTHON)


def counted(lines: Iterable[str], *, is_jvm: bool) -> Mapping[str, float]:
    """Return milliseconds of computing by kind, of the lines that ``perf script`` prints."""
    found: Counter[str] = Counter()
    for line in lines:
        match = _LINE.match(line)
        if match is not None:
            found[kind_of(match["thread"], match["symbol"], match["library"], is_jvm=is_jvm)] += 1
    return {kind: 1000 * found[kind] / HERTZ for kind in KINDS if found[kind]}


@contextmanager
def sampling(folder: Path, processes: Mapping[str, int]) -> Iterator[dict[str, Mapping[str, float]]]:
    """Sample processes, by name; the mapping that is yielded is filled at the end. The name of a JVM is ``broker``.

    Raises:
        FileNotFoundError: there is no ``perf`` here.
    """
    perf = shutil.which("perf")
    if perf is None:
        raise FileNotFoundError("perf is not installed: this measurement needs Linux and its package linux-perf")
    found: dict[str, Mapping[str, float]] = {}
    command = [perf, "record", "--event", "cpu-clock", "--freq", str(HERTZ), "--output"]
    recorders = {
        name: subprocess.Popen([*command, str(folder / name), "--pid", str(pid)], stderr=subprocess.DEVNULL)
        for name, pid in processes.items()
    }
    try:
        yield found
    finally:
        for recorder in recorders.values():
            recorder.send_signal(signal.SIGINT)
            recorder.wait(60.0)
    for name in processes:
        script = [perf, "script", "--fields", "comm,ip,sym,dso", "--input", str(folder / name)]
        shown = subprocess.run(script, capture_output=True, check=True, text=True, timeout=120)
        found[name] = counted(shown.stdout.splitlines(), is_jvm=name == "broker")

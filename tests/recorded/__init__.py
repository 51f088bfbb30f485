"""Logs of runs as releases wrote them, bit for bit.

A release that can no longer fold one of them has broken its users' logs: mend the release, never the recording. Before
a release `python -m tests.recorded VERSION` records runs of its own; files of earlier releases stay as they are.
"""

import base64
import gzip
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from driftline.broker.topics import Stream
from driftline.ledger.run_state import RunState
from tests.support.verifiable import Log

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What folding a recorded log must give.

    Attributes:
        about: what happens in the run.
        version: the last one.
        head: of the ledger at its end, hex.
        states: digest of the whole state at every publish point, by version, hex.
        counts: what a proof of the log counts.
    """

    about: str
    version: int
    head: str
    states: dict[str, str]
    counts: dict[str, int]


def recordings() -> list[Path]:
    """Return the files of every recorded run, of every release."""
    return sorted(FOLDER.glob("*.jsonl.gz"))


def write(path: Path, expected: Expected, log: Log) -> None:
    """Write a log: first what is expected of it, then a line a record, in the order of partitions and offsets."""
    lines = [json.dumps(asdict(expected), sort_keys=True)]
    lines += [json.dumps(line) for line in _lines(log)]
    path.write_bytes(gzip.compress("\n".join(lines).encode("ascii"), mtime=0))


def _lines(log: Log) -> Iterator[tuple[str, int, str | None]]:
    for (stream, partition), values in log.values.items():
        for value in values:
            yield stream.value, partition, None if value is None else base64.b64encode(value).decode("ascii")


def read(path: Path) -> tuple[Expected, Log]:
    """Return what is expected of a recorded log, and the log."""
    first, *lines = gzip.decompress(path.read_bytes()).decode("ascii").splitlines()
    log = Log({})
    for line in lines:
        stream, partition, value = json.loads(line)
        values = log.values.setdefault((Stream(stream), partition), [])
        values.append(None if value is None else base64.b64decode(value))
    return Expected(**json.loads(first)), log


def fold(log: Log) -> RunState:
    """Return what the ledger of a log adds up to."""
    state = RunState()
    for offset, value in enumerate(log.ledger):
        state.read(offset, value)
    return state

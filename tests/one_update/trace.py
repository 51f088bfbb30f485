"""Which functions run during a few updates of a script, on the script's thread and on the server's."""

import sys
import threading
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

import driftline
from tests.support import ROOT
from tests.support.scripts import house, line, step

PACKAGE = Path(driftline.__file__).parent
FIRST, STEPS = 20, 3


def traced() -> dict[str, set[str]]:
    """Return the qualified names of the functions that run, by the path of their module from the root."""
    seen: dict[str, set[str]] = defaultdict(set)
    on = threading.Event()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and on.is_set():
            seen[frame.f_code.co_filename].add(frame.f_code.co_qualname)

    threading.setprofile(note)  # of the server's thread, too
    sys.setprofile(note)
    try:
        _train(on)
    finally:
        threading.setprofile(None)
        sys.setprofile(None)
    return {path: names for file, names in seen.items() if (path := _path(file))}


def _train(on: threading.Event) -> None:
    with house() as one:
        model = line()
        opt = one.optimizer(model, steps=400)
        for _ in range(FIRST):
            step(model, opt)
        on.set()
        for _ in range(STEPS):
            step(model, opt)
        on.clear()
        opt.close()


def _path(file: str) -> str:
    """Return the path of a module of the package, from the root of the repository; empty for another file."""
    path = Path(file)
    if not path.is_relative_to(PACKAGE):
        return ""
    return path.resolve().relative_to(ROOT).as_posix()

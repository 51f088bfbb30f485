"""Signals for commands that unwind: SIGTERM, and a closed terminal, are treated like Ctrl-C."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def terminated_is_interrupted() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into `KeyboardInterrupt`, so that whoever is unwound ends its own processes."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

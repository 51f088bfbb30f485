"""Keys of a terminal, one at a time and without an echo, for screens that change by themselves."""

import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Pressed = Callable[[float], str]
"""Waits up to so many seconds for a key, and returns it; empty if none was pressed."""


@contextmanager
def keys() -> Iterator[Pressed]:
    """Give a way to wait for keys; Ctrl-C stays what it is. Where standard input is no terminal, no key ever comes."""
    if not sys.stdin.isatty():
        yield _nothing
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield _pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _pressed(timeout_s: float) -> str:
    ready, _, _ = select.select([sys.stdin], [], [], timeout_s)
    return sys.stdin.read(1) if ready else ""


def _nothing(timeout_s: float) -> str:
    time.sleep(timeout_s)
    return ""

"""Where the command begins: ``driftline``, and ``python -m driftline``.

A service manager may send SIGTERM, a person Ctrl-C, and a terminal SIGHUP, while Python still imports what the command
needs. So signals are the first thing that is taken care of; everything else is imported behind that.
"""

import os
import signal
import sys
from types import FrameType

STOPPED = {"server": 0, "worker": 0}
"""Exit code after SIGTERM or SIGHUP of commands that run until they are stopped; of all others it is 130."""

INTERRUPTED = 130


WITH_VALUE = "--log-format"
"""The option before the command that takes a value, perhaps as a word of its own."""


def _command() -> str:
    """Return the command that was typed."""
    words = sys.argv[1:]
    pairs = zip(words, ["", *words], strict=False)
    return next((word for word, before in pairs if not word.startswith("-") and before != WITH_VALUE), "")


def _end(number: int, _frame: FrameType | None) -> None:
    code = INTERRUPTED if number == signal.SIGINT else STOPPED.get(_command(), INTERRUPTED)
    os.write(2, b"driftline: stopped\n")
    os._exit(code)


def main() -> None:
    """Run the command."""
    taken = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, _end) for number in taken if signal.getsignal(number) != signal.SIG_IGN}
    from driftline.cli import main as command  # noqa: PLC0415 - see the top of this module

    if _command() not in STOPPED:  # a role puts handlers of its own in the place of these
        for number, handler in before.items():
            signal.signal(number, handler)
    command(prog_name="driftline")


if __name__ == "__main__":
    main()

"""SIGTERM ends a script in an orderly way: what it has under way is flushed, and the run hears a goodbye.

Python's own way is to end at once, which leaves the run waiting for the worker until it has been silent for too long.
So a script that has no handler of its own gets one while it is a member of a run: it raises `SystemExit` where the
script is, as Ctrl-C raises KeyboardInterrupt, and sees to it that the process ends in time whatever holds it up.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

log = logging.getLogger(__name__)

EXIT_CODE = 128 + signal.SIGTERM
"""What shells and service managers take for "ended by SIGTERM"."""

END_WITHIN_S = 8.0
"""After so long the process is ended, whatever it waits for."""


class Termination:
    """A handler of SIGTERM for as long as somebody needs it.

    Args:
        end: ends the process at once, with an exit code.
        within_s: seconds that the script may take to end.
    """

    def __init__(self, end: Callable[[int], object] = os._exit, within_s: float = END_WITHIN_S) -> None:
        self._end = end
        self._within_s = within_s
        self._users = 0
        self._is_asked = False

    @property
    def is_asked(self) -> bool:
        """Whether SIGTERM has come."""
        return self._is_asked

    def hold(self) -> None:
        """Handle SIGTERM from now on, unless the script does so itself, or this is not its main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._on_signal)
        self._users += 1

    def release(self) -> None:
        """Leave SIGTERM to Python again once nobody needs this any more; a handler of somebody else stays."""
        self._users = max(0, self._users - 1)
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and not self._users and signal.getsignal(signal.SIGTERM) == self._on_signal:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_asked:
            self._end(EXIT_CODE)
        self._is_asked = True
        log.warning("SIGTERM: the script ends here, and leaves its run")
        timer = threading.Timer(self._within_s, self._give_up)
        timer.daemon = True
        timer.start()
        raise SystemExit(EXIT_CODE)

    def _give_up(self) -> None:
        os.write(2, f"driftline: not ended {self._within_s:g} s after SIGTERM, ending at once\n".encode())
        self._end(EXIT_CODE)


TERMINATION = Termination()
"""Of this process."""

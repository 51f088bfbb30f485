"""One piece of work on a thread of its own, with its result or its error."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Starts at once; ``done`` is set when there is a result or an error. It never keeps the process alive."""

    def __init__(self, work: Callable[[], T], name: str) -> None:
        self.done = threading.Event()
        self._work = work
        self._result: list[T] = []
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def result(self) -> T:
        """Wait for the result.

        Raises:
            BaseException: what the work raised.
        """
        # In slices, so that Ctrl-C gets through everywhere.
        while not self.done.wait(0.5):
            pass
        if self._error is not None:
            raise self._error
        return self._result[0]

    def check(self) -> None:
        """Raise what the work raised, if it is over by now."""
        if self.done.is_set():
            self.result()

    def _run(self) -> None:
        try:
            self._result.append(self._work())
        except BaseException as error:  # noqa: BLE001 - it is raised on the thread that waits for us
            self._error = error
        finally:
            self.done.set()

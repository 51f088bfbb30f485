"""What every client checks before it does anything: that it is open, and in the process that made it."""

import os

from driftline.errors import BrokerError


class ClientGuard:
    """Knows which process made a client and whether it was closed.

    A fork copies a client's memory but none of its threads: a copied producer would take records and send none.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._pid = os.getpid()
        self._closed = False

    def check(self) -> None:
        """Return if the client may be used.

        Raises:
            BrokerError: it was closed, or made in another process.
        """
        if self._pid != os.getpid():
            raise BrokerError(
                f"this {self._what} was made in process {self._pid} and cannot be used in process {os.getpid()}: "
                f"create clients after the fork, in the process that uses them"
            )
        if self._closed:
            raise BrokerError(f"this {self._what} is closed")

    def close(self) -> bool:
        """Mark as closed; True if there is something to release, so only the first time and never in a forked copy."""
        first = not self._closed and self._pid == os.getpid()
        self._closed = True
        return first

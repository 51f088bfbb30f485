"""Names of a worker's starts: sixteen bytes each, never the same twice.

Those of a process that somebody looks after begin with a mark of eight bytes, which whoever started the process has
made up: so it knows the process by what stands in the ledger, whatever namesakes there are.
"""

import os
from typing import Final

from driftline.errors import UsageError

INCARNATION_BYTES: Final = 16
MARK_BYTES: Final = 8


def new_mark() -> bytes:
    """Return a mark that no process bears."""
    return os.urandom(MARK_BYTES)


def new_incarnation(mark: bytes = b"") -> bytes:
    """Return an incarnation that nobody has, 16 bytes; it begins with ``mark``."""
    return mark + os.urandom(INCARNATION_BYTES - len(mark))


def read_mark(text: str) -> bytes:
    """Read a mark as a command line holds it; empty text is no mark.

    Raises:
        UsageError: it is none.
    """
    try:
        mark = bytes.fromhex(text)
    except ValueError:
        mark = b"?"
    if len(mark) not in (0, MARK_BYTES):
        raise UsageError(
            f"--mark: {text[:40]!r} is no mark; it has {2 * MARK_BYTES} hexadecimal digits, or leave it out"
        )
    return mark

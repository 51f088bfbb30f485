"""How the C library keeps memory, tuned to what passes through a server: records of 1 MB, fetched 16 MB at a time.

GNU's library gives each thread a pool of its own and never takes back what lies between two pieces in use. Records pass
from thread to thread (librdkafka receives, a pump copies, the loop holds, librdkafka sends), so the most that each pool
ever held is kept, once for each; and fetched blocks leave holes that the next block does not fit in, because records
that stay longer have moved in. Of a large model that is half as much again as the server needs.
"""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""GNU's numbers for them, in <malloc.h>."""

TRIM_S = 1.0
"""Seconds between two times that free memory is given back: an update of a large model takes longer, and to ask for it
again is next to nothing for a small one."""

_SETTINGS = {
    _ARENA_MAX: 1,
    # Above a record and below a fetched block: blocks go back to the system when they are done with. Records do not,
    # because new memory costs as much as hashing it.
    _MMAP_THRESHOLD: 2 << 20,
    # As soon as one of these is given, what else the library would adapt by itself must be said too.
    _TRIM_THRESHOLD: 32 << 20,
}


def tune_allocator() -> bool:
    """Apply the settings to the whole process; False where the C library is not GNU's, and nothing was changed.

    To be called before clients are made: threads that are there keep their pools.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(bool(mallopt(name, value)) for name, value in _SETTINGS.items())


@contextmanager
def trimming() -> Iterator[None]:
    """Give free memory back to the system now and then, also what lies between pieces in use, on a thread of its own.

    Does nothing where the C library is not GNU's.
    """
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    over = threading.Event()

    def trim() -> None:
        while malloc_trim is not None and not over.wait(TRIM_S):
            malloc_trim(ctypes.c_size_t(0))

    thread = threading.Thread(target=trim, name="trim", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

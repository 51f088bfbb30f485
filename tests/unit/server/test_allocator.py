"""What a server asks of the C library's memory management."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import ctypes, sys, threading
from driftline.consumers.server.allocator import tune_allocator

if sys.argv[1] == "tuned":
    assert tune_allocator()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
libc.free.argtypes = libc.fclose.argtypes = [ctypes.c_void_p]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
together = threading.Barrier(4)

def work():
    libc.free(libc.malloc(64 << 10))
    together.wait()  # no thread gets the pool of one that has ended

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
report = libc.fopen(sys.argv[2].encode(), b"w")
libc.malloc_info(0, report)
libc.fclose(report)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only GNU's C library gives each thread a pool")
def test_threads_share_one_pool_of_memory(tmp_path: Path) -> None:
    """And without the call they do not, so it is the call that does it."""
    pools = {}
    for how in ("tuned", "plain"):
        report = tmp_path / how
        subprocess.run([sys.executable, "-c", PROGRAM, how, str(report)], check=True, timeout=60)
        pools[how] = report.read_text(encoding="ascii").count("<heap nr=")
    assert pools["tuned"] == 1
    assert pools["plain"] > 1


HOLES = """
import time
from driftline.consumers.server.allocator import trimming, tune_allocator

def resident_mb():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

assert tune_allocator()
pieces = [bytes(b"x" * 1_000_000) for _ in range(128)]
del pieces[::2]  # every hole lies between two pieces in use
before_mb = resident_mb()
with trimming():
    deadline_s = time.monotonic() + 30.0
    while resident_mb() > before_mb - 50.0:
        assert time.monotonic() < deadline_s, (before_mb, resident_mb())
        time.sleep(0.1)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only GNU's C library keeps what is free")
def test_holes_between_records_go_back_to_the_system() -> None:
    """The 64 MB that were let go, although nothing at the end of the memory is free."""
    subprocess.run([sys.executable, "-c", HOLES], check=True, timeout=60)

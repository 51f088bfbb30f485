"""The idx format of MNIST and its kin, gzipped: a table of whole numbers from 0 to 255, read strictly.

Layout: two zero bytes, a type (8 for unsigned bytes), the number of dimensions, each dimension as a big-endian unsigned
32-bit number, then the values in C order.
"""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from driftline.errors import UsageError

UNSIGNED_BYTES = 8
_START_BYTES = 4
_DIMENSION_BYTES = 4


def read_idx(file: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """Read a gzipped idx file of so many dimensions, uint8, read-only.

    Raises:
        UsageError: it cannot be read, or is not exactly such a table; names the file and what is wrong with it.
    """
    try:
        content = gzip.decompress(file.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{file} cannot be read as gzip ({error}); {_FETCH_AGAIN}") from error
    problem = _start_problem(content, dimensions)
    if problem:
        raise UsageError(f"{file} {problem}; {_FETCH_AGAIN}")
    begin = _START_BYTES + _DIMENSION_BYTES * dimensions
    shape = struct.unpack_from(f">{dimensions}I", content, _START_BYTES)
    values = len(content) - begin
    if math.prod(shape) != values:
        sides = " x ".join(map(str, shape))
        raise UsageError(f"{file} says {sides} values and holds {values:,} bytes of them; {_FETCH_AGAIN}")
    return np.frombuffer(content, np.uint8, offset=begin).reshape(shape)


_FETCH_AGAIN = "fetch the file again"


def _start_problem(content: bytes, dimensions: int) -> str:
    """Say what is wrong with the first bytes; empty when they are those of such a table."""
    wanted = bytes((0, 0, UNSIGNED_BYTES, dimensions))
    found = content[:_START_BYTES]
    if found != wanted:
        return f"begins with the bytes {found.hex()!r} and not with {wanted.hex()!r}, idx of bytes in {dimensions} D"
    if len(content) < _START_BYTES + _DIMENSION_BYTES * dimensions:
        return f"ends after {len(content)} bytes, within its dimensions"
    return ""

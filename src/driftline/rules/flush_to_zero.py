"""Denormal numbers must not be flushed to zero: the bits of a model depend on it.

Processors have a mode, a setting of each thread, that replaces denormal results (flush to zero) or operands (denormals
are zero) by 0. Some libraries switch it on when they are loaded, and a new thread inherits it. The C library's
``fesetenv(FE_DFL_ENV)`` is the one portable way to switch it off again; it also sets rounding to nearest.
"""

import ctypes
import ctypes.util
import sys

import numpy as np
import numpy.typing as npt

from driftline.errors import RunRefused

# Long enough for every vector width and unrolled loop, and odd, so that the scalar loop at the end runs as well.
_LENGTH = 4096 + 7

_SMALLEST_NORMAL = 0x0080_0000
_HALF_OF_IT = 0x0040_0000
_SMALLEST = 0x0000_0001
_ONE = 0x3F80_0000
_HALF_AN_ULP_OF_ONE = 0x3380_0000
_ROOT_OF_HALF_OF_IT = 0x1FB5_04F3  # √(2⁻¹²⁷)


def require_denormals() -> None:
    """Make the calling thread keep denormals and round to nearest, and prove it. Each thread calls this for itself.

    Raises:
        RunRefused: the thread still flushes denormals or rounds another way; its results would have other bits.
    """
    clear_flush_to_zero()
    problems = probe()
    if problems:
        raise RunRefused(
            f"this processor does not compute by IEEE 754 here ({', '.join(problems)}), so this process would compute "
            "another model than the rest. A library loaded into this process may have switched that on (built with "
            "-ffast-math, or torch.set_flush_denormal); run the server without it, or on another machine"
        )


def clear_flush_to_zero() -> None:
    """Reset the calling thread's floating-point mode, where the C library can; `probe` says whether it did."""
    library = ctypes.CDLL(ctypes.util.find_library("m") or None)
    if sys.platform == "darwin":
        # The macro stands for the address of an exported object.
        default = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, "_FE_DFL_ENV")))
    else:
        default = ctypes.c_void_p(-1)  # ((const fenv_t *) -1), in glibc and musl
    library.fesetenv.argtypes = [ctypes.c_void_p]
    library.fesetenv(default)


def probe() -> list[str]:
    """Return what the calling thread computes otherwise than IEEE 754 with rounding to nearest; empty if nothing."""
    half = np.float32(0.5)
    normal, denormal, smallest = _fill(_SMALLEST_NORMAL), _fill(_HALF_OF_IT), _fill(_SMALLEST)
    return [
        name
        for name, result, expected in (
            ("a denormal product becomes zero", np.multiply(normal, half), _HALF_OF_IT),
            ("a denormal difference becomes zero", np.subtract(normal, denormal), _HALF_OF_IT),
            ("a denormal quotient becomes zero", np.divide(normal, np.float32(2.0)), _HALF_OF_IT),
            ("a denormal factor counts as zero", np.multiply(denormal, np.float32(2.0)), _SMALLEST_NORMAL),
            ("a denormal term counts as zero", np.add(denormal, smallest), _HALF_OF_IT + 1),
            ("the root of a denormal is zero", np.sqrt(denormal), _ROOT_OF_HALF_OF_IT),
            ("sums are not rounded to nearest", np.add(_fill(_ONE), _fill(_HALF_AN_ULP_OF_ONE)), _ONE),
        )
        if not np.array_equal(result.view(np.uint32), np.full(_LENGTH, expected, np.uint32))
    ]


def _fill(bits: int) -> npt.NDArray[np.float32]:
    # By its bits, since computing a denormal is what may not work here.
    return np.full(_LENGTH, bits, np.uint32).view(np.float32)

"""What a segment can be, and the dtypes that its tensor can have, by torch's names without ``torch.``."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PARAMETER: Final = "parameter"
FROZEN: Final = "frozen"
BUFFER: Final = "buffer"
KINDS: Final = (PARAMETER, FROZEN, BUFFER)

PARAMETER_DTYPES: Final = ("float32", "bfloat16", "float16")
"""Of parameters: those of which float32 holds every value."""

WORD_BYTES: Final = 4
"""Bytes of one element of the flat vector."""

BUFFER_BYTES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "bool": 1,
        "int8": 1,
        "uint8": 1,
        "int16": 2,
        "uint16": 2,
        "int32": 4,
        "uint32": 4,
        "int64": 8,
        "uint64": 8,
        "float16": 2,
        "bfloat16": 2,
        "float32": 4,
        "float64": 8,
        "complex64": 8,
        "complex128": 16,
    }
)
"""Bytes of one element of a buffer's tensor."""

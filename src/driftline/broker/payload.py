"""What may be the value of a record, checked alike by every implementation of the seam."""

import numpy as np

from driftline.broker.port import MAX_RECORD_BYTES, Payload
from driftline.errors import BrokerError


def check_payload(topic: str, partition: int, key: bytes | None, value: Payload | None) -> int:
    """Return the size of a record's key and value, in bytes.

    Raises:
        TypeError: the value is neither bytes nor a C-contiguous array of uint8.
        BrokerError: the record is larger than ``MAX_RECORD_BYTES``; names both.
    """
    size_bytes = _size_bytes(value) + (len(key) if key is not None else 0)
    if size_bytes > MAX_RECORD_BYTES:
        raise BrokerError(
            f"a record for {topic}[{partition}] has {size_bytes} bytes of key and value, the limit is "
            f"{MAX_RECORD_BYTES}: it must be cut into smaller records (smaller shards)"
        )
    return size_bytes


def _size_bytes(value: Payload | None) -> int:
    if value is None:
        return 0
    if isinstance(value, np.ndarray):
        if value.dtype != np.uint8 or not value.flags.c_contiguous:
            raise TypeError(f"a payload must be C-contiguous uint8, not {value.dtype} with strides {value.strides}")
        return value.nbytes
    if not isinstance(value, bytes):
        raise TypeError(f"a payload must be bytes or an array of uint8, not {type(value).__name__}")
    return len(value)

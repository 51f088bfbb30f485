"""SHA-256 over records, contributions, shards, states and the ledger.

All digests are 32 bytes and are compared as bytes: NaN and -0.0 differ from other values exactly when their bits do.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from driftline.schemas.codec import MARKER, PREFIX_BYTES, encode
from driftline.schemas.model.tensors import encode_fp32
from driftline.schemas.records import NO_HASH, PayloadRecord

Encoded: TypeAlias = bytes | memoryview | npt.NDArray[np.uint8]

HASH_BYTES: Final = 32
UUID_BYTES: Final = 16
_AFTER_DIGEST: Final = PREFIX_BYTES + HASH_BYTES


def record_digest(run_uuid: bytes, encoded: Encoded) -> bytes:
    """Return the digest of an encoded payload record: over run UUID ‖ schema fingerprint ‖ all bytes after its digest.

    The digest is the record's first field, so that everything else, header and payload, is one run of bytes.

    Raises:
        ValueError: the UUID is not 16 bytes, or ``encoded`` is too short for a payload record.
    """
    if len(run_uuid) != UUID_BYTES:
        raise ValueError(f"a run UUID has {UUID_BYTES} bytes, not {len(run_uuid)}")
    view = _view(encoded)
    if len(view) < _AFTER_DIGEST:
        raise ValueError(f"{len(view)} bytes are no payload record")
    digest = hashlib.sha256(run_uuid)
    digest.update(view[len(MARKER) : PREFIX_BYTES])
    digest.update(view[_AFTER_DIGEST:])
    return digest.digest()


def seal(run_uuid: bytes, record: PayloadRecord) -> tuple[npt.NDArray[np.uint8], bytes]:
    """Encode a payload record with its digest in place, whatever ``record.digest`` holds; the payload is copied once.

    Returns:
        The encoded record, and its digest.

    Raises:
        NotEncodable: a value breaks the schema.
    """
    buffer = encode(record)
    digest = record_digest(run_uuid, buffer)
    buffer[PREFIX_BYTES:_AFTER_DIGEST] = np.frombuffer(digest, np.uint8)
    return buffer, digest


def verify_digest(run_uuid: bytes, value: Encoded, record: PayloadRecord) -> bool:
    """Say whether the digest of ``record``, decoded from ``value``, is right; a missing one (all zero) is not."""
    return record.digest != NO_HASH and record.digest == record_digest(run_uuid, value)


def contribution_root(digests: Iterable[bytes]) -> bytes:
    """Return the root of a contribution: over the digests of its deltas, in shard order."""
    return _joined(digests).digest()


def next_head(head: bytes, record_bytes: bytes) -> bytes:
    """Return the ledger's head behind a valid record: SHA-256(head ‖ record bytes)."""
    return hashlib.sha256(head + record_bytes).digest()


def shard_digest(
    master: npt.NDArray[np.float32], moments: Mapping[str, npt.NDArray[np.float32]]
) -> tuple[bytes, bytes]:
    """Return the digests of a shard: of its state, and of its master weights alone.

    The state is the masters, then the moments ordered by name, each as little-endian fp32 bytes. The master weights
    are hashed once for both.

    Raises:
        TypeError: an array is not float32.
    """
    digest = hashlib.sha256(_fp32_bytes("master", master))
    masters = digest.digest()
    for name in sorted(moments):
        digest.update(_fp32_bytes(name, moments[name]))
    return digest.digest(), masters


def model_digest(shard_digests: Iterable[bytes]) -> bytes:
    """Return the digest of a whole state: over its shard digests in shard order."""
    return _joined(shard_digests).digest()


def _joined(digests: Iterable[bytes]) -> "hashlib._Hash":
    joined = hashlib.sha256()
    for digest in digests:
        if len(digest) != HASH_BYTES:
            raise ValueError(f"a digest has {HASH_BYTES} bytes, not {len(digest)}")
        joined.update(digest)
    return joined


def _view(encoded: Encoded) -> memoryview:
    return encoded.data if isinstance(encoded, np.ndarray) else memoryview(encoded)


def _fp32_bytes(name: str, array: npt.NDArray[Any]) -> memoryview:
    if array.dtype.newbyteorder("=") != np.float32:
        raise TypeError(f"{name}: {array.dtype}, not float32; another type would have another digest")
    return encode_fp32(array).data

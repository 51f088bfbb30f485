"""What a snapshot must be before anybody starts from it, and how the state of a shard becomes snapshots."""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from driftline.consumers.server.shard import Shard
from driftline.rules import STEPS, FloatArray
from driftline.schemas.digests import seal, verify_digest
from driftline.schemas.model.layout import Layout
from driftline.schemas.model.tensors import decode_fp32, encode_fp32
from driftline.schemas.records import NO_HASH, RunStart, Snapshot
from driftline.schemas.records.payload import snapshot_key


def names_version_0(start: RunStart, snapshot: Snapshot) -> bool:
    """Whether a snapshot says that it is the version 0 that the run started from, in its shard."""
    known = 0 <= snapshot.shard < len(start.shards)
    return known and snapshot.version == 0 and start.shards[snapshot.shard] == snapshot.digest


def sound_tensor(start: RunStart, layout: Layout, snapshot: Snapshot, value: bytes) -> FloatArray | None:
    """Return the numbers of a snapshot whose digest is known to be wanted, if its bytes have that digest.

    Args:
        start: of the run.
        layout: of the run.
        snapshot: as decoded from ``value``.
        value: the record's bytes; the result is a view over them.

    Returns:
        float32; shape (elements of the shard,), but for the step counts, which are float64 values as their bytes.

    Raises:
        Undecodable: the payload has another size than the record says.
    """
    if not verify_digest(start.run, value, snapshot):
        return None
    tensor = decode_fp32(snapshot.payload, snapshot.elements)
    begin, stop = layout.shard_range(snapshot.shard)
    return tensor if snapshot.tensor == STEPS or snapshot.elements == stop - begin else None


def snapshots_of(
    start: RunStart, shard: Shard, index: int, head: bytes
) -> Iterator[tuple[Snapshot, bytes, npt.NDArray[np.uint8]]]:
    """Yield the snapshots of a shard's state, one after the other: record, key and bytes; each copies one tensor."""
    for name, tensor in _tensors(shard).items():
        record = Snapshot(
            digest=NO_HASH,
            version=shard.version,
            head=head,
            shard=index,
            tensor=name,
            codec="fp32",
            elements=tensor.size,
            payload=encode_fp32(tensor),
        )
        value, digest = seal(start.run, record)
        yield record, snapshot_key(index, shard.version, name, digest), value


def digest_in_key(key: bytes) -> bytes:
    """Return the digest that the key of a snapshot names."""
    return bytes.fromhex(key.rpartition(b"/")[2].decode("ascii"))


def _tensors(shard: Shard) -> Mapping[str, FloatArray]:
    return {**shard.views(), STEPS: shard.packed_steps()}

"""What a delta must be before a server gives a receipt for it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftline.errors import Undecodable
from driftline.schemas.digests import verify_digest
from driftline.schemas.model.dtypes import BUFFER
from driftline.schemas.model.layout import Layout
from driftline.schemas.model.tensors import decode_fp32, is_finite, unpack_presence
from driftline.schemas.records import Delta


@dataclass(frozen=True, slots=True)
class CheckedDelta:
    """The payload of a sound delta: gradients, and the values of buffers; views over the record's bytes."""

    gradient: npt.NDArray[np.float32]
    presence: tuple[bool, ...]


def check_delta(run: bytes, layout: Layout, partition: int, delta: Delta, value: bytes) -> CheckedDelta:
    """Check digest, place and shape of a delta.

    Raises:
        Undecodable: says what is wrong; the record is not what a worker of this run would write.
    """
    if not 0 <= delta.shard < layout.shard_count or layout.partition_of(delta.shard) != partition:
        raise Undecodable(f"shard {delta.shard} does not live in partition {partition}")
    start, stop = layout.shard_range(delta.shard)
    if delta.elements != stop - start:
        raise Undecodable(f"shard {delta.shard} has {stop - start} elements, the delta says {delta.elements}")
    if not verify_digest(run, value, delta):
        raise Undecodable("the delta is not what its digest says")
    presence = unpack_presence(delta.presence, len(layout.pieces(delta.shard)))
    return CheckedDelta(decode_fp32(delta.payload, delta.elements), tuple(bool(flag) for flag in presence))


def not_finite(layout: Layout, delta: Delta, checked: CheckedDelta) -> str:
    """Name the first tensor of a delta whose gradient holds a NaN or an infinity, or return nothing.

    Buffers may hold anything: a mask of -inf, or bytes that are no numbers at all.
    """
    if is_finite(checked.gradient):
        return ""
    for piece in layout.pieces(delta.shard):
        segment = layout.segments[piece.segment_index]
        if segment.kind != BUFFER and not is_finite(checked.gradient[piece.start : piece.stop]):
            return f"not finite: {segment.name} in shard {delta.shard}"
    return ""

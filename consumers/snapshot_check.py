"""What a snapshot must be before anybody starts from it."""

import numpy as np
import numpy.typing as npt

from driftline.schemas.digests import verify_digest
from driftline.schemas.layout import Layout
from driftline.schemas.records import RunStart, Snapshot
from driftline.schemas.tensors import decode_fp32


def names_version_0(start: RunStart, snapshot: Snapshot) -> bool:
    """Whether a snapshot says that it is the version 0 that the run started from, in its shard."""
    known = 0 <= snapshot.shard < len(start.shards)
    return known and snapshot.version == 0 and start.shards[snapshot.shard] == snapshot.digest


def version_0(start: RunStart, layout: Layout, snapshot: Snapshot, value: bytes) -> npt.NDArray[np.float32] | None:
    """Return the master weights of a snapshot if it is, bit by bit, the version 0 that the run started from.

    Args:
        start: of the run.
        layout: of the run.
        snapshot: as decoded from ``value``.
        value: the record's bytes; the weights are a view over them.

    Raises:
        Undecodable: the payload has another size than the record says.
    """
    if not names_version_0(start, snapshot) or not verify_digest(start.run, value, snapshot):
        return None
    begin, stop = layout.shard_range(snapshot.shard)
    return decode_fp32(snapshot.payload, snapshot.elements) if snapshot.elements == stop - begin else None

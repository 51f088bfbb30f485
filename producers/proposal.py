"""A worker's offer to start a run: version 0 as snapshots, and the proposal that names them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftline.broker.topics import Stream
from driftline.schemas.codec import encode
from driftline.schemas.digests import seal
from driftline.schemas.effects import Send
from driftline.schemas.model.layout import Layout
from driftline.schemas.model.tensors import encode_fp32
from driftline.schemas.records import NO_HASH, Proposal, Snapshot
from driftline.schemas.records.payload import snapshot_key
from driftline.schemas.run.config import RunConfig
from driftline.schemas.run.config_json import run_config_to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Everything that a run is made of before it starts; ``masters`` is version 0, float32[elements]."""

    config: RunConfig
    layout: Layout
    masters: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Proposed:
    """A proposal as sent: its snapshots, the event, and the keys to clear if another one is chosen."""

    record: Proposal
    snapshots: tuple[Send, ...]
    event: Send

    @property
    def run(self) -> bytes:
        """UUID that the run has if this proposal is chosen."""
        return self.record.run

    def tombstones(self) -> list[Send]:
        """Return the records that let compaction drop the snapshots."""
        return [Send(send.stream, send.partition, None, send.key) for send in self.snapshots]


def propose(offer: Offer, run: bytes, worker: str, incarnation: bytes) -> Proposed:
    """Build a proposal under a fresh run UUID (16 bytes)."""
    sends: list[Send] = []
    digests: list[bytes] = []
    for shard in range(offer.layout.shard_count):
        value, digest, key = _snapshot(offer, run, shard)
        sends.append(Send(Stream.SNAPSHOTS, offer.layout.partition_of(shard), value, key))
        digests.append(digest)
    proposal = Proposal(
        run=run,
        worker=worker,
        incarnation=incarnation,
        config=run_config_to_json(offer.config),
        layout=offer.layout.to_json(),
        shards=tuple(digests),
    )
    return Proposed(proposal, tuple(sends), Send(Stream.EVENTS, 0, encode(proposal)))


def _snapshot(offer: Offer, run: bytes, shard: int) -> tuple[npt.NDArray[np.uint8], bytes, bytes]:
    start, stop = offer.layout.shard_range(shard)
    record = Snapshot(
        digest=NO_HASH,
        version=0,
        head=NO_HASH,
        shard=shard,
        tensor="master",
        codec="fp32",
        elements=stop - start,
        payload=encode_fp32(offer.masters[start:stop]),
    )
    value, digest = seal(run, record)
    return value, digest, snapshot_key(shard, 0, record.tensor, digest)

"""A gradient as records: one delta a shard, and the contribution that announces them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftline.broker.topics import Stream
from driftline.schemas.digests import contribution_root, seal
from driftline.schemas.effects import Send
from driftline.schemas.model.layout import Layout
from driftline.schemas.model.tensors import encode_fp32, pack_presence
from driftline.schemas.records import NO_HASH, Contribution, Delta, GroupId
from driftline.schemas.records.sample_range import Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """What a worker computed in one clock.

    Attributes:
        flat: gradient of every parameter of the layout, float32; zeros where a segment is absent. Of a buffer its value
            after the clock, as bytes.
        presence: a flag a segment: whether it had a gradient at all; of a buffer, whether its value is there.
        weight: the loss denominator, usually the number of samples; finite and not negative.
        loss: mean loss over the batch.
        cursor: how many batches or steps the process has read or made, those of this clock included.
        samples: the leased samples that it is made of.
        learning_rates: of the step, one a parameter group; empty unless the run takes its rates from scripts.
    """

    flat: npt.NDArray[np.float32]
    presence: Sequence[bool]
    weight: float
    loss: float
    cursor: int
    learning_rates: tuple[float, ...] = ()
    samples: Samples = ()


@dataclass(frozen=True, slots=True)
class NoGradient:
    """Why a worker spends a clock without a gradient.

    Attributes:
        reason: stands in the log.
        samples: that were read for it; they are discarded.
        cursor: as of a `Gradient`.
    """

    reason: str
    samples: Samples = ()
    cursor: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What a contribution builds on: the group that makes it, its clock, and the version of the model."""

    run: bytes
    group: GroupId
    clock: int
    version: int
    head: bytes


class DeltaEncoder:
    """Turns a gradient into deltas, one a shard, and into the contribution that names them.

    Args:
        layout: of the run.
        base: what the contribution builds on.
        gradient: must not change before all deltas are taken.

    Raises:
        ValueError: the gradient has another shape than the layout.
    """

    def __init__(self, layout: Layout, base: Base, gradient: Gradient) -> None:
        if gradient.flat.shape != (layout.elements,) or gradient.flat.dtype != np.float32:
            raise ValueError(
                f"the layout has {layout.elements} float32 elements, the gradient is {gradient.flat.dtype}"
                f"{list(gradient.flat.shape)}"
            )
        self._layout = layout
        self._base = base
        self._gradient = gradient
        self._digests: list[bytes] = []

    def sends(self) -> Iterator[Send]:
        """Yield one sealed delta after the other, in shard order: each can be on its way while the next is hashed."""
        for shard in range(self._layout.shard_count):
            value, digest = seal(self._base.run, _delta(self._layout, self._base, self._gradient, shard))
            self._digests.append(digest)
            yield Send(Stream.DELTAS, self._layout.partition_of(shard), value)

    def contribution(self) -> Contribution:
        """Return the event that announces the deltas. It is sent after them, when all of them have been taken."""
        if len(self._digests) != self._layout.shard_count:
            raise AssertionError("contribution() follows the last delta")
        return _contribution(self._layout, self._base, self._gradient, contribution_root(self._digests))


def _delta(layout: Layout, base: Base, gradient: Gradient, shard: int) -> Delta:
    start, stop = layout.shard_range(shard)
    return Delta(
        digest=NO_HASH,
        group=base.group,
        clock=base.clock,
        shard=shard,
        base_version=base.version,
        codec="fp32",
        elements=stop - start,
        presence=pack_presence([gradient.presence[piece.segment_index] for piece in layout.pieces(shard)]),
        payload=encode_fp32(gradient.flat[start:stop]),
    )


def _contribution(layout: Layout, base: Base, gradient: Gradient, root: bytes) -> Contribution:
    return Contribution(
        run=base.run,
        group=base.group,
        clock=base.clock,
        base_version=base.version,
        base_head=base.head,
        weight=gradient.weight,
        loss=gradient.loss,
        cursor=gradient.cursor,
        shards=layout.shard_count,
        root=root,
        learning_rates=gradient.learning_rates,
        samples=gradient.samples,
    )

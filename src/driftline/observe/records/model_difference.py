"""What changed between two versions of a model, tensor by tensor. Pure: parameter records in, numbers out."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftline.errors import Undecodable
from driftline.ledger.run_state import RunState
from driftline.schemas.codec import decode
from driftline.schemas.digests import verify_digest
from driftline.schemas.model.dtypes import BUFFER
from driftline.schemas.model.layout import Layout, Segment
from driftline.schemas.model.tensors import decode_fp32
from driftline.schemas.records import Parameters

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentDifference:
    """How one tensor changed.

    Attributes:
        norm: 2-norm of the change; None for a buffer, whose bits need not be float32.
        relative: that, over the 2-norm before; None if that is 0.
        largest: of the absolute changes of elements; None for a buffer.
        changed: elements whose bits differ; of a buffer, words of four bytes.
        same_bits: whether none do.
    """

    name: str
    shape: tuple[int, ...]
    elements: int
    norm: float | None
    relative: float | None
    largest: float | None
    changed: int
    same_bits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDifference:
    """How a model changed from ``first`` to ``second``; the numbers as of a segment, over all of them but buffers."""

    run: str
    first: int
    second: int
    elements: int
    norm: float
    largest: float
    changed: int
    same_bits: bool
    segments: tuple[SegmentDifference, ...]


class PublishedModels:
    """Collects the parameters of some versions from the records of the parameters stream, in any order.

    Args:
        state: fold of the ledger.
        versions: which.
    """

    def __init__(self, state: RunState, versions: Iterable[int]) -> None:
        self._state = state
        self._layout = state.layout
        self._run = state.start.run
        self.models = {version: np.empty(self._layout.elements, np.float32) for version in versions}
        self._missing = {version: set(range(self._layout.shard_count)) for version in self.models}

    def take(self, value: bytes | None) -> None:
        """Take a record if it is sound and of a version that is wanted."""
        try:
            record = decode(value)
        except Undecodable:
            return
        if isinstance(record, Parameters) and value is not None and self._is_wanted(record, value):
            start, stop = self._layout.shard_range(record.shard)
            self.models[record.version][start:stop] = decode_fp32(record.payload, record.elements)
            self._missing[record.version].discard(record.shard)

    def _is_wanted(self, record: Parameters, value: bytes) -> bool:
        if record.shard not in self._missing.get(record.version, ()):
            return False
        if record.head != self._state.heads.get(record.version):
            return False
        start, stop = self._layout.shard_range(record.shard)
        fits = record.elements == stop - start and len(record.payload) == 4 * record.elements
        return fits and verify_digest(self._run, value, record)

    def has_partition(self, partition: int) -> bool:
        """Whether nothing more is wanted of a partition."""
        shards = set(self._layout.shards_of(partition))
        return not any(shards & missing for missing in self._missing.values())

    def incomplete(self) -> list[int]:
        """Return the versions of which shards are missing."""
        return sorted(version for version, missing in self._missing.items() if missing)


def compare_models(
    run: str, layout: Layout, first: tuple[int, FloatArray], second: tuple[int, FloatArray]
) -> ModelDifference:
    """Compare two versions.

    Args:
        run: its name.
        layout: of the model.
        first: number of a version and its parameters, float32, shape (elements,).
        second: likewise.
    """
    segments = tuple(_segment(one, first[1], second[1]) for one in layout.segments)
    changed = sum(one.changed for one in segments)
    return ModelDifference(
        run=run,
        first=first[0],
        second=second[0],
        elements=layout.elements,
        norm=math.sqrt(sum(one.norm**2 for one in segments if one.norm is not None)),
        largest=max((one.largest for one in segments if one.largest is not None), default=0.0),
        changed=changed,
        same_bits=changed == 0,
        segments=segments,
    )


def _segment(segment: Segment, before: FloatArray, after: FloatArray) -> SegmentDifference:
    old, new = before[segment.offset : segment.stop], after[segment.offset : segment.stop]
    changed = int(np.count_nonzero(old.view(np.uint32) != new.view(np.uint32)))
    norm = relative = largest = None
    if segment.kind != BUFFER:
        wide = old.astype(np.float64)
        change = new.astype(np.float64) - wide
        norm, size = _norm(change), _norm(wide)
        relative = norm / size if size > 0 else None
        largest = float(np.abs(change).max()) if change.size else 0.0
    return SegmentDifference(
        name=segment.name,
        shape=segment.shape,
        elements=segment.elements,
        norm=norm,
        relative=relative,
        largest=largest,
        changed=changed,
        same_bits=changed == 0,
    )


def _norm(values: npt.NDArray[np.float64]) -> float:
    return float(np.sqrt(np.sum(np.square(values))))

"""What changed between two versions of a model, tensor by tensor. Pure: two vectors in, numbers out."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftline.schemas.model.dtypes import BUFFER
from driftline.schemas.model.layout import Layout, Segment

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentDifference:
    """How one tensor changed.

    Attributes:
        norm: 2-norm of the change; None for a buffer, whose bits need not be float32.
        relative: ``norm`` over the 2-norm before the change; None if that is 0.
        largest: largest absolute change of an element; None for a buffer.
        changed: elements whose bits differ; of a buffer, words of four bytes.
        same_bits: whether no bits differ.
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
    """How a model changed from version ``first`` to ``second``; numbers are over all segments but buffers."""

    run: str
    first: int
    second: int
    elements: int
    norm: float
    largest: float
    changed: int
    same_bits: bool
    segments: tuple[SegmentDifference, ...]


def compare_models(
    run: str, layout: Layout, first: tuple[int, FloatArray], second: tuple[int, FloatArray]
) -> ModelDifference:
    """Compare two versions.

    Args:
        run: its name.
        layout: of the model.
        first: number of a version and its parameters, float32, shape (elements,).
        second: the same of the later version.
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

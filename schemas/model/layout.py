"""Where every parameter and buffer lies in one flat float32 vector, and how that vector is cut into shards.

Segments follow each other without gaps, in the order of the model. The vector is cut into shards of equal size (the
last may be shorter); shard *s* lives in partition *s* mod *P*. A cut takes no notice of segments, so a shard holds
pieces of one or more of them. Worker and server compare layouts by fingerprint, and explain a difference by name.

Parameters are numbers in the vector, whatever the worker holds them in. A buffer lies there as its bytes, whole and in
its own dtype, four to an element: an int64 counter is two elements that mean nothing as numbers. Buffers are copied and
never computed with, and so keep every bit.
"""

import hashlib
import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Final

from driftline.errors import ConfigError
from driftline.schemas.codec import canonical_json
from driftline.schemas.model import layout_problems
from driftline.schemas.model.dtypes import BUFFER, BUFFER_BYTES, WORD_BYTES

MAX_SHARD_ELEMENTS: Final = 240 * 1024
"""960 KiB of fp32: with its header a record stays below the default size limits of Kafka and librdkafka, 1 MB."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One parameter or buffer in the flat vector.

    Attributes:
        name: as in the ``state_dict()`` of the plain model.
        aliases: other names of the same tensor (tied weights), normalised.
        shape: of the tensor; () of a scalar, (0, 4) of an empty one: kept as they are.
        dtype: of the tensor in the worker. Of a parameter the vector holds the float32 that its values are rounded
            from; of a buffer its bytes, little-endian, in C order, filled up with zeros to whole elements.
        kind: ``parameter`` is stepped by the update rule; ``frozen`` stays as in version 0; ``buffer`` is taken over
            from one contribution of each version.
        group: index of its parameter group; -1 of a buffer, and if it is frozen and in none.
        offset: of its first element in the vector.
    """

    name: str
    aliases: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    kind: str
    group: int
    offset: int

    @property
    def elements(self) -> int:
        """Number of elements of the tensor: 1 of shape (), 0 of an empty one."""
        return math.prod(self.shape)

    @property
    def words(self) -> int:
        """Number of elements of the vector that it takes: those of the tensor, or as many as a buffer's bytes need."""
        if self.kind != BUFFER:
            return self.elements
        return -(-self.elements * BUFFER_BYTES[self.dtype] // WORD_BYTES)

    @property
    def stop(self) -> int:
        """Offset behind its last element in the vector."""
        return self.offset + self.words


@dataclass(frozen=True, slots=True)
class Piece:
    """A slice of a shard that belongs to one segment: elements start to stop **of the shard**."""

    segment_index: int
    start: int
    stop: int


@dataclass(frozen=True)
class Layout:
    """Segments and the number of partitions P; everything else follows from these.

    Raises:
        ConfigError: a segment is not usable, or they overlap, leave gaps or hold no element; lists every problem.
    """

    segments: tuple[Segment, ...]
    partitions: int

    def __post_init__(self) -> None:
        problems = layout_problems.of_layout(self)
        if problems:
            raise ConfigError(problems)

    @cached_property
    def elements(self) -> int:
        """Number of elements of the vector."""
        return self.segments[-1].stop

    @cached_property
    def has_buffers(self) -> bool:
        """Whether a version has buffers to take over from a contribution."""
        return any(segment.kind == BUFFER and segment.words for segment in self.segments)

    @cached_property
    def shard_elements(self) -> int:
        """Number of elements of every shard but the last, which may have fewer."""
        return min(MAX_SHARD_ELEMENTS, -(-self.elements // self.partitions))

    @cached_property
    def shard_count(self) -> int:
        """Number of shards; may be less than P for a tiny model."""
        return -(-self.elements // self.shard_elements)

    def shard_range(self, shard: int) -> tuple[int, int]:
        """Return where a shard begins and ends in the vector.

        Raises:
            IndexError: there is no such shard.
        """
        if not 0 <= shard < self.shard_count:
            raise IndexError(f"shard {shard} of {self.shard_count}")
        start = shard * self.shard_elements
        return start, min(start + self.shard_elements, self.elements)

    def partition_of(self, shard: int) -> int:
        """Return the partition that holds a shard."""
        return shard % self.partitions

    def shards_of(self, partition: int) -> tuple[int, ...]:
        """Return the shards in a partition, ascending; none if the model is tiny or there is no such partition."""
        if not 0 <= partition < self.partitions:
            return ()
        return tuple(range(partition, self.shard_count, self.partitions))

    def pieces(self, shard: int) -> tuple[Piece, ...]:
        """Return a shard's slices of segments, in order; they cover it exactly. Empty segments have none.

        Raises:
            IndexError: there is no such shard.
        """
        self.shard_range(shard)
        return self._pieces[shard]

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no spaces, ASCII; equal layouts give equal bytes."""
        return canonical_json.write(asdict(self))

    def fingerprint(self) -> bytes:
        """SHA-256 of the canonical JSON, 32 bytes."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> bytes:
        return hashlib.sha256(self.to_json().encode("ascii")).digest()

    @cached_property
    def _pieces(self) -> tuple[tuple[Piece, ...], ...]:
        return tuple(tuple(self._cut(*self.shard_range(shard))) for shard in range(self.shard_count))

    def _cut(self, start: int, stop: int) -> Iterator[Piece]:
        # Of segments with one offset the last is the one with elements, if any: no segment before it reaches here.
        for index in range(bisect_right(self._offsets, start) - 1, len(self.segments)):
            segment = self.segments[index]
            if segment.offset >= stop:
                break
            if segment.words:
                yield Piece(index, max(segment.offset, start) - start, min(segment.stop, stop) - start)

    @cached_property
    def _offsets(self) -> list[int]:
        return [segment.offset for segment in self.segments]


@lru_cache(maxsize=4)
def layout_from_json(text: str) -> Layout:
    """Parse and check the JSON of a layout; every worker proposes the same one, and the run's start repeats it.

    Raises:
        ConfigError: lists every problem found.
    """
    raw = layout_problems.parsed(text)
    segments = tuple(
        Segment(**{**segment, "aliases": tuple(segment["aliases"]), "shape": tuple(segment["shape"])})
        for segment in raw["segments"]
    )
    return Layout(segments, raw["partitions"])


def layout_differences(ours: Layout, theirs: Layout) -> list[str]:
    """Return what keeps a model with layout ``ours`` from a run with layout ``theirs``, in words; empty when equal."""
    mine = {segment.name: segment for segment in ours.segments}
    run = {segment.name: segment for segment in theirs.segments}
    lines = [f"{name}: in this model, not in the run" for name in mine if name not in run]
    lines += [f"{name}: in the run, not in this model" for name in run if name not in mine]
    for name, segment in mine.items():
        if name in run:
            lines += _segment_differences(segment, run[name])
    if not lines:
        lines += _order_difference(ours, theirs)
    if ours.partitions != theirs.partitions:
        lines.append(f"partitions: {ours.partitions} here, {theirs.partitions} in the run")
    return lines


def _segment_differences(ours: Segment, theirs: Segment) -> list[str]:
    pairs = (
        ("shape", ours.shape, theirs.shape),
        ("dtype", ours.dtype, theirs.dtype),
        ("kind", ours.kind, theirs.kind),
        ("parameter group", ours.group, theirs.group),
        ("tied names", ours.aliases, theirs.aliases),
    )
    return [f"{ours.name}: {word} {left} here, {right} in the run" for word, left, right in pairs if left != right]


def _order_difference(ours: Layout, theirs: Layout) -> list[str]:
    names = zip((segment.name for segment in ours.segments), (segment.name for segment in theirs.segments), strict=True)
    for place, (left, right) in enumerate(names):
        if left != right:
            return [f"order of parameters: number {place} is {left} here, {right} in the run"]
    return []

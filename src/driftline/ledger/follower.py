"""Following a run: the ledger from where it was entered, and parameters as whole models or not at all.

Parameters of this run may arrive before the ledger record that explains them; they wait, bounded, until the fold has
seen their version, and are dropped if the hash is another one. None are read before the fold has `RunStart`.

Workers, evaluators, `load` and `status` all stand on `ModelReader`.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from driftline.broker.port import Tail
from driftline.broker.topics import Stream
from driftline.errors import Undecodable
from driftline.ledger.run_state import Folded, RunState
from driftline.schemas.codec import decode
from driftline.schemas.digests import verify_digest
from driftline.schemas.effects import CaughtUp, Effect, Read, Received
from driftline.schemas.model.layout import Layout
from driftline.schemas.model.tensors import FP32_BYTES, decode_fp32
from driftline.schemas.records import Parameters

MAX_OPEN = 4
"""Incomplete versions that are kept at a time; the oldest gives way."""

SPARE_RECORDS = 8
"""Read this many more than one version's parameters a partition, for doubles that a fail-over may have left."""


@dataclass(slots=True)
class _Open:
    flat: npt.NDArray[np.float32]
    missing: set[int]


@dataclass(frozen=True, slots=True)
class Model:
    """A complete version: all parameters of the layout in one vector of float32, which belongs to the caller."""

    version: int
    flat: npt.NDArray[np.float32] = field(repr=False)


class Follower:
    """Assembles versions newer than the newest complete one.

    Args:
        state: fold of the ledger, shared with the owner of this follower.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._open: dict[int, _Open] = {}
        self._early: dict[int, dict[tuple[int, bytes], Parameters]] = {}
        self.newest: Model | None = None
        self.counters: Counter[str] = Counter()

    def on_parameters(self, value: bytes | None) -> bool:
        """Take one record; return whether a new version became complete."""
        try:
            record = decode(value)
        except Undecodable:
            record = None
        if not isinstance(record, Parameters) or value is None:
            self.counters["undecodable"] += 1
            return False
        if self._is_old(record):
            return False
        if not self._is_sound(record, value):
            self.counters["parameters_refused"] += 1
            return False
        if record.version > self._state.version:
            self._keep_early(record)
            return False
        return self._take(record)

    def on_ledger(self) -> bool:
        """The fold has moved; return whether a new version became complete."""
        ready = [version for version in self._early if version <= self._state.version]
        records = [one for version in sorted(ready) for one in self._early.pop(version).values()]
        completed = [self._take(record) for record in records]
        return any(completed)

    def _keep_early(self, record: Parameters) -> None:
        self._early.setdefault(record.version, {})[record.shard, record.head] = record
        while len(self._early) > MAX_OPEN:
            del self._early[min(self._early)]
            self.counters["early_versions_dropped"] += 1

    def _take(self, record: Parameters) -> bool:
        if self._is_old(record):
            return False
        if record.head != self._state.heads.get(record.version):
            self.counters["parameters_refused"] += 1
            return False
        return self._place(record)

    def _is_old(self, record: Parameters) -> bool:
        return record.version <= (-1 if self.newest is None else self.newest.version)

    def _is_sound(self, record: Parameters, value: bytes) -> bool:
        """Whether a server of this run wrote the record; what another run left behind must not crowd it out."""
        if not self._state.has_begun or not 0 <= record.shard < self._state.layout.shard_count:
            return False
        layout = self._state.layout
        begin, end = layout.shard_range(record.shard)
        fits = record.elements == end - begin and len(record.payload) == FP32_BYTES * record.elements
        return fits and verify_digest(self._state.start.run, value, record)

    def _place(self, record: Parameters) -> bool:
        layout = self._state.layout
        opened = self._open.get(record.version)
        if opened is None:
            opened = _Open(np.empty(layout.elements, np.float32), set(range(layout.shard_count)))
            self._open[record.version] = opened
        begin, end = layout.shard_range(record.shard)
        opened.flat[begin:end] = decode_fp32(record.payload, record.elements)
        opened.missing.discard(record.shard)
        if opened.missing:
            self._evict()
            return False
        self.newest = Model(record.version, opened.flat)
        self._open = {version: one for version, one in self._open.items() if version > record.version}
        return True

    def _evict(self) -> None:
        while len(self._open) > MAX_OPEN:
            del self._open[min(self._open)]
            self.counters["incomplete_versions_dropped"] += 1


class ModelReader:
    """Fold of the ledger plus the newest complete model.

    Args:
        state: the fold to go on with; None begins with the ledger.
        with_parameters: False reads the ledger alone.
    """

    def __init__(self, state: RunState | None = None, *, with_parameters: bool = True) -> None:
        self.state = RunState() if state is None else state
        self.follower = Follower(self.state)
        self.is_caught_up = False
        self._with_parameters = with_parameters
        self._tail = 0
        self._ends: dict[int, int] = {}

    def begin(self) -> list[Effect]:
        """Return the first effects."""
        return [Read(Stream.LEDGER, 0, self.state.next_offset)]

    def on_ledger(self, event: Received) -> tuple[Folded, list[Effect]]:
        """Fold a ledger record; parameters that waited for it are taken."""
        folded = self.state.read(event.offset, event.value)
        self.follower.on_ledger()
        return folded, self._open_parameters()

    def on_parameters(self, event: Received) -> bool:
        """Take a parameters record; return whether a new version became complete."""
        return self.follower.on_parameters(event.value)

    def on_caught_up(self, event: CaughtUp) -> list[Effect]:
        """The end of a partition was reached."""
        if event.stream is Stream.LEDGER:
            self.is_caught_up = True
            return self._open_parameters()
        if event.stream is Stream.PARAMETERS:
            return self._look_further_back(event)
        return []

    def _open_parameters(self) -> list[Effect]:
        if not self._with_parameters or self._tail or not self.is_caught_up or not self.state.has_begun:
            return []
        layout = self.state.layout
        shards = max(len(layout.shards_of(partition)) for partition in range(layout.partitions))
        self._tail = 2 * shards + SPARE_RECORDS
        return self._read_tails(layout)

    def _look_further_back(self, event: CaughtUp) -> list[Effect]:
        """Double the tail until it holds a complete version or the whole partition."""
        layout = self.state.layout
        self._ends[event.partition] = event.offset
        if self.follower.newest is not None or len(self._ends) < layout.partitions:
            return []
        if self._tail >= max(self._ends.values()):
            return []
        self._tail *= 2
        return self._read_tails(layout)

    def _read_tails(self, layout: Layout) -> list[Effect]:
        self._ends.clear()
        return [Read(Stream.PARAMETERS, partition, Tail(self._tail)) for partition in range(layout.partitions)]

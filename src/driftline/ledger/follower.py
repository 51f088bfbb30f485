"""A follower turns parameter records into whole models: one version, one head hash, all shards, or nothing.

Parameters of this run may arrive before the ledger record that explains them; they wait, bounded, until the fold has
seen their version, and are dropped if the hash is another one. Nobody reads parameters before the fold has `RunStart`.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from driftline.errors import Undecodable
from driftline.ledger.run_state import RunState
from driftline.schemas.codec import decode
from driftline.schemas.digests import verify_digest
from driftline.schemas.model.tensors import FP32_BYTES, decode_fp32
from driftline.schemas.records import Parameters

MAX_OPEN = 4
"""Incomplete versions that are kept at a time; the oldest gives way."""


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

"""The model as one plain vector: what the servers' shards are compared with.

Written apart from ``driftline.consumers.server.shard``, with no shards, blocks or pieces: sum the listed deltas in
order, then step each segment that has a gradient. SGD stands here once more; of other rules only the kernel is shared.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from driftline.rules import RULES, StepState
from driftline.schemas.model.layout import Segment
from tests.simulation.run.quadratic import Problem

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Term:
    """One delta of a sum: coefficient, whole gradient with values of buffers, and which segments have one."""

    coefficient: np.float32
    flat: FloatArray
    presence: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Digests:
    """Digests of one version: a shard's state and masters, in shard order, and those of the whole model."""

    states: tuple[bytes, ...]
    masters: tuple[bytes, ...]
    model: bytes
    parameters: bytes


def mean_rate(asked: Sequence[tuple[float, float]]) -> float:
    """Return the learning rate of one parameter group, given weight and rate of every contribution that counts."""
    if not asked:
        return 0.0
    rates = [rate for _, rate in asked]
    weights, excess = 0.0, 0.0
    for weight, rate in asked:
        weights = weights + weight
        excess = excess + weight * (rate - rates[0])
    mean = rates[0] + excess / weights
    return sorted((min(rates), mean, max(rates)))[1]


class PlainModel:
    """Masters, buffers among them, and moments of all elements, at one version."""

    def __init__(self, one: Problem) -> None:
        self._layout = one.layout
        self._rule = RULES[one.config.rule.name]
        self._groups = tuple(self._rule.complete(group) for group in one.config.rule.groups)
        self.masters = one.masters.copy()
        self.moments = {name: np.zeros_like(self.masters) for name in self._rule.moments(self._groups)}
        self._steps: list[StepState] = [self._rule.start() for _ in one.layout.segments]

    def apply(self, terms: Sequence[Term], rates: Sequence[float], rho: float, buffers_of: Term | None = None) -> None:
        """Make the next version, with one learning rate a parameter group, and the buffers of one term."""
        for place, segment in enumerate(self._layout.segments):
            part = slice(segment.offset, segment.stop)
            if segment.kind == "buffer":
                if buffers_of is not None and buffers_of.presence[place]:
                    self.masters[part] = buffers_of.flat[part]
            elif any(term.presence[place] for term in terms):
                self._step(place, segment, self._sum(terms, place, part), rates[segment.group], rho)

    @staticmethod
    def _sum(terms: Sequence[Term], place: int, part: slice) -> FloatArray:
        parts = [
            term.coefficient * term.flat[part] if term.presence[place] else np.zeros_like(term.flat[part])
            for term in terms
        ]
        total = parts[0]
        for other in parts[1:]:
            total = total + other
        return total

    def _step(self, place: int, segment: Segment, update: FloatArray, rate: float, rho: float) -> None:
        settings, part = self._groups[segment.group], slice(segment.offset, segment.stop)
        if self._rule.name == "sgd":
            self._sgd(place, part, update, rate)
            return
        self._steps[place], kernel = self._rule.step(settings, self._steps[place], rate, rho)
        moments = [values[part] for values in self.moments.values()]
        kernel(self.masters[part], moments, update, np.empty_like(update))

    def _sgd(self, place: int, part: slice, update: FloatArray, rate: float) -> None:
        settings = self._groups[self._layout.segments[place].group]
        first = self._steps[place].steps == 0
        self._steps[place] = StepState(self._steps[place].steps + 1)
        if settings["momentum"]:
            buffer = self.moments["momentum_buffer"]
            buffer[part] = update if first else buffer[part] * np.float32(settings["momentum"]) + update
            update = buffer[part]
        self.masters[part] = self.masters[part] - update * np.float32(rate)

    def digests(self) -> Digests:
        """Hash this version, shard by shard."""
        ranges = [slice(*self._layout.shard_range(shard)) for shard in range(self._layout.shard_count)]
        masters = [self.masters[part].astype("<f4").tobytes() for part in ranges]
        moments = [
            b"".join(self.moments[name][part].astype("<f4").tobytes() for name in sorted(self.moments))
            for part in ranges
        ]
        whole = tuple(_sha(one + other) for one, other in zip(masters, moments, strict=True))
        alone = tuple(_sha(one) for one in masters)
        return Digests(whole, alone, _sha(b"".join(whole)), _sha(b"".join(alone)))


def _sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()

"""The model folded once more from the log alone, and the first sound copy of every delta in it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from driftline.schemas.digests import contribution_root, verify_digest
from driftline.schemas.model.tensors import decode_fp32, unpack_presence
from driftline.schemas.records import Contribution, Delta, GroupId, Use, Version
from driftline.schemas.run.consistency import Consistency
from tests.simulation.promises.plain_rules import Digests, FloatArray, PlainModel, Term, mean_rate
from tests.simulation.promises.reference_ledger import require
from tests.simulation.run.log import Landed
from tests.simulation.run.quadratic import Problem

Clock = tuple[GroupId, int]


@dataclass(frozen=True, slots=True)
class Copy:
    """The first sound copy of a delta."""

    partition: int
    offset: int
    digest: bytes
    gradient: FloatArray
    presence: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class State:
    """The model at one version."""

    masters: FloatArray
    moments: Mapping[str, FloatArray]
    digests: Digests


class ReferenceModel:
    """States of all versions so far, and the deltas that versions may name."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._layout = problem.layout
        self._model = PlainModel(problem)
        self.states: list[State] = []
        self._keep()
        self.copies: dict[Clock, dict[int, Copy]] = {}
        self.not_finite: set[Clock] = set()
        self.rates: dict[Clock, tuple[float, ...]] = {}

    def saw_delta(self, run: bytes, delta: Delta, landed: Landed) -> None:
        """A record of the deltas stream is in the log."""
        layout, shard = self._layout, delta.shard
        if not 0 <= shard < layout.shard_count or layout.partition_of(shard) != landed.partition:
            return
        start, stop = layout.shard_range(shard)
        if delta.elements != stop - start or not verify_digest(run, landed.value or b"", delta):
            return
        gradient = decode_fp32(delta.payload, delta.elements)
        numbers = [piece for piece in layout.pieces(shard) if layout.segments[piece.segment_index].kind != "buffer"]
        if not all(np.isfinite(gradient[piece.start : piece.stop]).all() for piece in numbers):
            self.not_finite.add((delta.group, delta.clock))
            return
        presence = unpack_presence(delta.presence, len(layout.pieces(shard)))
        copy = Copy(landed.partition, landed.offset, delta.digest, gradient, presence)
        self.copies.setdefault((delta.group, delta.clock), {}).setdefault(shard, copy)

    def heard(self, contribution: Contribution) -> None:
        """A contribution is in the log."""
        self.rates.setdefault((contribution.group, contribution.clock), contribution.learning_rates)

    def is_whole(self, group: GroupId, clock: int) -> bool:
        """Whether every delta of a clock is in the log, sound."""
        return len(self.copies.get((group, clock), {})) == self._layout.shard_count

    def apply(self, record: Version) -> None:
        """Make the next version as the ledger says.

        Raises:
            Violation: it names something that is not in the log, or not what it hashes to.
        """
        used = [use for use in record.uses if use.kind == "delta"]
        self._coefficients(record, used)
        self._rates(record, used)
        for use in record.uses:
            require(use.kind == "delta" or use.coefficient == 0.0, "a skip has a coefficient")
        self._whose_buffers(record)
        buffers_of = None if record.buffers_of < 0 else self._term(record.uses[record.buffers_of])
        self._model.apply([self._term(use) for use in used], record.learning_rates, record.rho, buffers_of)
        self._positions(record)
        self._keep()

    def _keep(self) -> None:
        moments = {name: values.copy() for name, values in self._model.moments.items()}
        self.states.append(State(self._model.masters.copy(), moments, self._model.digests()))

    def _coefficients(self, record: Version, used: list[Use]) -> None:
        """Hold coefficients and damping to the formulas, written down once more."""
        bounds, plain = self._problem.config.consistency, self._problem.config.rule.name == "sgd"
        damped = [_factor(use.staleness, bounds) * use.weight for use in used]
        total, share = sum(use.weight for use in used), sum(damped)
        for use, one in zip(used, damped, strict=True):
            right = float(np.float32(one / (total if plain else share)))
            require(use.coefficient == right, f"coefficient {use.coefficient}, not {right}")
        rho = share / total if used else 1.0
        require(record.rho == rho, f"rho {record.rho}, not {rho}")

    def _rates(self, record: Version, used: list[Use]) -> None:
        """Hold learning rates to the run's schedule, or to what the contributions in the log ask for."""
        config = self._problem.config
        if config.schedule.is_scripts:
            asked = [(use.weight, self.rates[use.group, use.clock]) for use in used]
            right = [mean_rate([(weight, rates[group]) for weight, rates in asked]) for group in range(self._groups)]
        else:
            factor = config.schedule.factor(record.version, config.horizon)
            right = [factor * group["lr"] for group in config.rule.groups]
        require(list(record.learning_rates) == right, f"learning rates {record.learning_rates}, not {right}")
        for use in record.uses:
            said = self.rates[use.group, use.clock] if use.kind == "delta" else ()
            require(use.learning_rates == said, f"clock {use.clock} of {use.group} asks for {said}")

    @property
    def _groups(self) -> int:
        return len(self._problem.config.rule.groups)

    def _whose_buffers(self, record: Version) -> None:
        """A version names the least stale contribution that counts, the first of equals; without buffers none."""
        chosen = -1
        for index, use in enumerate(record.uses):
            counts = use.kind == "delta" and use.weight > 0 and use.coefficient != 0.0
            if counts and (chosen < 0 or use.staleness < record.uses[chosen].staleness):
                chosen = index
        if all(segment.kind != "buffer" for segment in self._layout.segments):
            chosen = -1
        require(record.buffers_of == chosen, f"buffers of contribution {record.buffers_of}, not {chosen}")

    def _term(self, use: Use) -> Term:
        copies = self.copies.get((use.group, use.clock), {})
        shards = range(self._layout.shard_count)
        require(
            self.is_whole(use.group, use.clock), f"clock {use.clock} of {use.group} is used, but not whole in the log"
        )
        root = contribution_root([copies[shard].digest for shard in shards])
        require(root == use.root, f"clock {use.clock} of {use.group}: its deltas do not hash to its root")
        presence = [False] * len(self._layout.segments)
        for shard in shards:
            for piece, present in zip(self._layout.pieces(shard), copies[shard].presence, strict=True):
                presence[piece.segment_index] |= present
        flat = np.concatenate([copies[shard].gradient for shard in shards])
        return Term(np.float32(use.coefficient), flat, tuple(presence))

    def _positions(self, record: Version) -> None:
        expected = [-1] * self._layout.partitions
        for use in record.uses:
            if use.kind == "delta":
                for copy in self.copies[use.group, use.clock].values():
                    expected[copy.partition] = max(expected[copy.partition], copy.offset + 1)
        low_enough = all(one <= got for one, got in zip(expected, record.positions, strict=True))
        require(low_enough, f"version {record.version} uses deltas behind its positions")


def _factor(staleness: int, bounds: Consistency) -> float:
    tolerated = bounds.tolerated
    if bounds.weighting == "polynomial":
        return float((1.0 + staleness) ** -bounds.exponent)
    inverse = bounds.weighting == "inverse" or (tolerated is not None and staleness > tolerated)
    return 1.0 / (1.0 + staleness) if inverse else 1.0

"""One shard: masters, optimizer moments and step counts of a slice of the model, and how a version changes them.

The masters are the master weights, and among them the buffers, which no rule steps: a version takes them over, bit by
bit, from one contribution that its record names.

Its state after version v depends on the initial masters, the run's configuration and the ledger up to v, and on nothing
else: not on who owns it, when, in how many threads, or how the model is cut into shards.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from driftline.errors import NonFiniteState
from driftline.rules import RULES, Engine, FloatArray, Kernel, StepState, choose_engine, combine
from driftline.schemas.digests import shard_digest
from driftline.schemas.model.dtypes import BUFFER, PARAMETER
from driftline.schemas.model.layout import Layout, Piece
from driftline.schemas.model.tensors import surely_finite
from driftline.schemas.run.config import RuleConfig

MASTER = "master"

STEPS = "steps"
"""Name under which the step counts and running products of a shard's pieces stand beside its tensors."""

BLOCK = 24 * 1024
"""Elements updated at a time: the block's operands stay in the second-level cache between the rule's operations."""

ShardDelta: TypeAlias = tuple[np.float32, FloatArray, Sequence[bool]]
"""Coefficient; gradient of the whole shard, float32, may be read-only; whether each piece of it has a gradient."""

ShardBuffers: TypeAlias = tuple[FloatArray, Sequence[bool]]
"""Payload of the whole shard, float32, of which buffers are read; whether it has a value for each piece."""


class Shard:
    """The state of one shard at one version. Starts at version 0.

    One thread at a time may use it; different shards share nothing.
    """

    def __init__(
        self, layout: Layout, rule_config: RuleConfig, index: int, masters: FloatArray, engine: Engine | None = None
    ) -> None:
        """Build the state of version 0.

        Args:
            layout: of the run.
            rule_config: of the run, without problems (see `driftline.rules.check_rule`).
            index: of the shard.
            masters: its initial master weights, float32, shape (elements of the shard,); copied.
            engine: what computes; None: the process's own (see `driftline.rules.choose_engine`). The bits do
                not depend on it.

        Raises:
            ValueError: ``masters`` has another shape or dtype than the layout says, or a parameter is in a group that
                the configuration does not have.
        """
        self._pieces = tuple(layout.pieces(index))
        self._segments = tuple(layout.segments[piece.segment_index] for piece in self._pieces)
        start, stop = layout.shard_range(index)
        elements = stop - start
        _require_float32("masters", masters, elements)
        self._index = index
        self._version = 0
        self._rule = RULES[rule_config.name]
        self._engine = choose_engine() if engine is None else engine
        self._groups = tuple(self._rule.complete(group) for group in rule_config.groups)
        for segment in self._segments:
            if segment.kind == PARAMETER and not 0 <= segment.group < len(self._groups):
                raise ValueError(f"{segment.name!r} is in group {segment.group} of {len(self._groups)}")
        self._masters = np.array(masters, dtype=np.float32, order="C")
        self._moments = {name: self._initial(name) for name in self._rule.moments(self._groups)}
        unseen = [values for name, values in self._moments.items() if name not in self._rule.witnessed]
        self._looked_at = [self._masters, *unseen]
        self._steps = [self._rule.start() for _ in self._pieces]
        self._scratch = np.empty((2, min(BLOCK, elements)), np.float32)
        self._failure: NonFiniteState | None = None

    @classmethod
    def restored(
        cls, layout: Layout, rule_config: RuleConfig, index: int, version: int, tensors: Mapping[str, FloatArray]
    ) -> "Shard":
        """Build the state of a version from what `views` and `packed_steps` gave.

        Args:
            layout: of the run.
            rule_config: of the run.
            index: of the shard.
            version: whose state it is.
            tensors: ``master``, every moment of the rule, and ``steps``; copied.

        Raises:
            ValueError: a tensor is missing, or has another shape or dtype than layout and rule say.
        """
        shard = cls(layout, rule_config, index, tensors[MASTER])
        wanted = {MASTER, STEPS, *shard._moments}
        if set(tensors) != wanted:
            raise ValueError(f"shard {index} of version {version}: tensors {sorted(tensors)}, not {sorted(wanted)}")
        for name, values in shard._moments.items():
            _require_float32(name, tensors[name], values.size)
            values[:] = tensors[name]
        shard._steps = _unpacked(tensors[STEPS], shard._steps)
        shard._version = version
        return shard

    @property
    def version(self) -> int:
        """The version that this is the state of."""
        return self._version

    @property
    def masters(self) -> FloatArray:
        """A read-only view of the master weights, float32, shape (elements,). It changes with the next version."""
        view = self._masters.view()
        view.flags.writeable = False
        return view

    @property
    def steps(self) -> tuple[StepState, ...]:
        """Step count and running products of each piece, in the order of the layout's pieces."""
        return tuple(self._steps)

    def tensors(self) -> Mapping[str, FloatArray]:
        """Copy the tensors of this version: ``master`` first, then each moment by name."""
        self._refuse_failed()
        return {MASTER: self._masters.copy(), **{name: self._moments[name].copy() for name in sorted(self._moments)}}

    def views(self) -> Mapping[str, FloatArray]:
        """Return the tensors of this version, not copied: ``master`` first, then each moment by name."""
        self._refuse_failed()
        return {MASTER: self._masters, **{name: self._moments[name] for name in sorted(self._moments)}}

    def packed_steps(self) -> FloatArray:
        """Return step count and running products of each piece: float64 values, row by row, as the bytes of float32."""
        rows = [[float(state.steps), *state.products] for state in self._steps]
        return np.array(rows, "<f8").reshape(-1).view("<f4")

    def digests(self) -> tuple[bytes, bytes]:
        """Return the SHA-256 of masters and moments, and of masters alone."""
        self._refuse_failed()
        return shard_digest(self._masters, self._moments)

    def apply(
        self,
        version: int,
        deltas: Sequence[ShardDelta],
        learning_rates: Sequence[float],
        rho: float,
        buffers: ShardBuffers | None = None,
    ) -> None:
        """Make the next version.

        Args:
            version: must be the next one.
            deltas: the contributions used, in canonical order; what is settled without a delta is not among them. None
                at all is a recorded no-op: only the version advances.
            learning_rates: one a parameter group.
            rho: damping of the rates, 0 < rho ≤ 1.
            buffers: what the buffers become; None leaves them as they are.

        Raises:
            ValueError: another version is next, or an argument does not fit the layout; nothing has changed.
            NonFiniteState: the update leaves the finite numbers. The shard is lost: it refuses everything from now on.
        """
        self._refuse_failed()
        self._check(version, deltas, learning_rates, rho, buffers)
        # Overflow and division by zero show in the result, which is checked; a warning would say less.
        with np.errstate(all="ignore"):
            for place, (piece, segment) in enumerate(zip(self._pieces, self._segments, strict=True)):
                if segment.kind == PARAMETER and any(presence[place] for _, _, presence in deltas):
                    group = segment.group
                    self._steps[place], kernel = self._rule.step(
                        self._groups[group], self._steps[place], learning_rates[group], rho
                    )
                    terms = _terms(deltas, place)
                    self._update(version, piece, segment.name, terms, self._engine.bind(kernel))
        if buffers is not None:
            self._take_over(*buffers)
        self._version = version

    def _take_over(self, payload: FloatArray, presence: Sequence[bool]) -> None:
        for piece, segment, present in zip(self._pieces, self._segments, presence, strict=True):
            if segment.kind == BUFFER and present:
                # Between arrays of one dtype numpy copies bytes, so whatever these are survives.
                self._masters[piece.start : piece.stop] = payload[piece.start : piece.stop]

    def _initial(self, moment: str) -> FloatArray:
        values = np.zeros(self._masters.size, np.float32)
        for piece, segment in zip(self._pieces, self._segments, strict=True):
            if segment.kind == PARAMETER:
                values[piece.start : piece.stop] = self._rule.initial(moment, self._groups[segment.group])
        return values

    def _update(
        self,
        version: int,
        piece: Piece,
        name: str,
        terms: Sequence[tuple[np.float32, FloatArray | None]],
        kernel: Kernel,
    ) -> None:
        alone = _alone(terms, kernel)
        for start in range(piece.start, piece.stop, BLOCK):
            block = slice(start, min(start + BLOCK, piece.stop))
            update, scratch = self._scratch[:, : block.stop - block.start]
            if alone is None:
                combine([(a, None if gradient is None else gradient[block]) for a, gradient in terms], update, scratch)
            else:
                update = alone[block]
            kernel(self._masters[block], [values[block] for values in self._moments.values()], update, scratch)
            if not surely_finite([values[block] for values in self._looked_at]):
                self._require_finite(version, name, block)

    def _require_finite(self, version: int, segment: str, block: slice) -> None:
        for tensor, values in {MASTER: self._masters, **self._moments}.items():
            if not np.isfinite(values[block]).all():
                self._fail(version, segment, tensor)

    def _fail(self, version: int, segment: str, tensor: str) -> None:
        self._failure = NonFiniteState(
            f"version {version} makes {tensor} of {segment!r} (shard {self._index}) infinite or NaN. Version "
            f"{self._version} is the last good one; lower the learning rate or clip the gradients, and go on from it"
        )
        raise self._failure

    def _refuse_failed(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _check(
        self,
        version: int,
        deltas: Sequence[ShardDelta],
        learning_rates: Sequence[float],
        rho: float,
        buffers: ShardBuffers | None,
    ) -> None:
        if version != self._version + 1:
            raise ValueError(f"shard {self._index} is at version {self._version}; {version} is not the next")
        if buffers is not None:
            self._check_payload("buffers", *buffers)
        if not deltas:
            return
        if len(learning_rates) != len(self._groups):
            raise ValueError(f"{len(learning_rates)} learning rates for {len(self._groups)} parameter groups")
        if not 0.0 < rho <= 1.0:
            raise ValueError(f"rho is {rho!r}, not above 0 and at most 1")
        for _, gradient, presence in deltas:
            self._check_payload("a gradient", gradient, presence)

    def _check_payload(self, what: str, payload: FloatArray, presence: Sequence[bool]) -> None:
        _require_float32(what, payload, self._masters.size)
        if len(presence) != len(self._pieces):
            raise ValueError(f"{len(presence)} presence flags for {len(self._pieces)} pieces")


def _unpacked(packed: FloatArray, fresh: Sequence[StepState]) -> list[StepState]:
    """Return the step states that `Shard.packed_steps` packed; ``fresh`` ones say how many products each has."""
    width = 1 + len(fresh[0].products) if fresh else 1
    if packed.size != 2 * width * len(fresh):
        raise ValueError(f"steps: {packed.size // 2} values, not {width} for each of {len(fresh)} pieces")
    rows = np.ascontiguousarray(packed).view("<f8").reshape(len(fresh), width)
    return [StepState(int(row[0]), tuple(float(one) for one in row[1:])) for row in rows]


def _terms(deltas: Sequence[ShardDelta], place: int) -> list[tuple[np.float32, FloatArray | None]]:
    return [(np.float32(a), gradient if presence[place] else None) for a, gradient, presence in deltas]


def _alone(terms: Sequence[tuple[np.float32, FloatArray | None]], kernel: Kernel) -> FloatArray | None:
    """Return the gradient that is the sum itself, if the kernel takes it so: 1.0 times a number changes no bit."""
    coefficient, gradient = terms[0]
    if len(terms) > 1 or gradient is None or coefficient != 1 or not kernel.takes(gradient):
        return None
    return gradient


def _require_float32(what: str, array: FloatArray, elements: int) -> None:
    if array.dtype != np.float32 or array.shape != (elements,):
        raise ValueError(f"{what} is {array.dtype} of shape {array.shape}, not float32 of shape ({elements},)")

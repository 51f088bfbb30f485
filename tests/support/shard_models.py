"""Whole models cut into shards, and numbers to train them with, for the tests of rules and shards."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from driftline.consumers.server.shard import Shard, ShardDelta
from driftline.rules import Engine, FloatArray
from driftline.schemas.model.layout import Layout, Segment
from driftline.schemas.run.config import RuleConfig


def numbers(seed: str, elements: int) -> FloatArray:
    """Return float32 in [-1, 1), the same on every machine and with every version of numpy."""
    bits = np.frombuffer(hashlib.shake_128(seed.encode()).digest(4 * elements), "<u4")
    return (bits >> 8).astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)


def cut(segments: Iterable[tuple[str, int, int]], partitions: int = 1) -> Layout:
    """Return the layout of segments (name, elements, group; group -1: frozen) in at least so many shards."""
    made: list[Segment] = []
    for name, elements, group in segments:
        kind = "frozen" if group < 0 else "parameter"
        made.append(Segment(name, (), (elements,), "float32", kind, group, made[-1].stop if made else 0))
    return Layout(tuple(made), partitions)


@dataclass(frozen=True)
class Contribution:
    """A gradient of the whole model; ``absent`` names the segments that have none."""

    coefficient: float
    gradient: FloatArray
    absent: frozenset[str] = frozenset()


class Model:
    """All shards of one model."""

    def __init__(self, layout: Layout, rule: RuleConfig, masters: FloatArray, engine: Engine | None = None) -> None:
        self.layout = layout
        ranges = [layout.shard_range(index) for index in range(layout.shard_count)]
        self.shards = [Shard(layout, rule, index, masters[slice(*ends)], engine) for index, ends in enumerate(ranges)]

    def apply(
        self,
        contributions: Sequence[Contribution],
        learning_rates: Sequence[float],
        rho: float = 1.0,
        each: Callable[[Callable[[int], None], Iterable[int]], Iterable[None]] = map,
    ) -> None:
        """Make the next version of every shard; ``each`` maps a function over shard numbers."""

        def apply(index: int) -> None:
            shard = self.shards[index]
            deltas = [self._delta(index, contribution) for contribution in contributions]
            shard.apply(shard.version + 1, deltas, learning_rates, rho)

        list(each(apply, range(len(self.shards))))

    def tensors(self) -> Mapping[str, FloatArray]:
        """Return masters and moments of the whole model."""
        of_shards = [shard.tensors() for shard in self.shards]
        return {name: np.concatenate([tensors[name] for tensors in of_shards]) for name in of_shards[0]}

    def _delta(self, index: int, contribution: Contribution) -> ShardDelta:
        names = [self.layout.segments[piece.segment_index].name for piece in self.layout.pieces(index)]
        presence = [name not in contribution.absent for name in names]
        gradient = contribution.gradient[slice(*self.layout.shard_range(index))]
        return np.float32(contribution.coefficient), gradient, presence


SEGMENTS = (("embedding", 5003, 0), ("bias", 3, 1), ("mask", 64, -1), ("head", 4001, 1), ("scale", 1, 0))
ELEMENTS = sum(elements for _, elements, _ in SEGMENTS)
RULES_UNDER_TEST = {
    "sgd": RuleConfig(name="sgd", groups=({}, {"weight_decay": 0.01})),
    "momentum": RuleConfig(
        name="sgd", groups=({"momentum": 0.9, "dampening": 0.1}, {"momentum": 0.8, "nesterov": 1, "weight_decay": 0.1})
    ),
    "adam": RuleConfig(name="adam", groups=({"weight_decay": 0.05}, {"beta1": 0.0, "beta2": 0.9})),
    "adamw": RuleConfig(name="adamw", groups=({}, {"beta1": 0.8, "eps": 1e-6, "weight_decay": 0.0})),
    "adagrad": RuleConfig(
        name="adagrad", groups=({"lr_decay": 0.1, "initial_accumulator_value": 0.5}, {"weight_decay": 0.05})
    ),
}


def story(versions: int = 4) -> list[tuple[list[Contribution], list[float], float]]:
    """Return contributions, learning rates and rho of some versions of `SEGMENTS`, some gradients absent."""
    coefficients = (0.5, 0.3, 0.2)
    told = []
    for version in range(1, versions + 1):
        gradients = [numbers(f"gradient {version} {worker}", ELEMENTS) for worker in range(3)]
        gradients[0][::97] = -0.0
        gradients[1][::89] = 1e-41  # a denormal
        absent = [frozenset({"bias"}), frozenset({"bias", "head"}), frozenset({"bias"} if version < 3 else ())]
        contributions = [Contribution(*item) for item in zip(coefficients, gradients, absent, strict=True)]
        told.append((contributions, [0.01 / version, 0.02], 1.0 if version % 2 else 0.625))
    return told


def digest_of(tensors: Mapping[str, FloatArray]) -> str:
    """Return a digest of the bytes of a model's tensors."""
    digest = hashlib.sha256()
    for name, values in sorted(tensors.items()):
        digest.update(name.encode() + values.tobytes())
    return digest.hexdigest()


def digest_of_story(rule: str, partitions: int = 1, engine: Engine | None = None, threads: int = 1) -> str:
    """Train `SEGMENTS` through the `story` and return the digest of what comes out."""
    model = Model(cut(SEGMENTS, partitions), RULES_UNDER_TEST[rule], numbers("masters", ELEMENTS), engine)
    with ThreadPoolExecutor(threads) as pool:
        for contributions, learning_rates, rho in story():
            model.apply(contributions, learning_rates, rho, each=pool.map)
    return digest_of(model.tensors())

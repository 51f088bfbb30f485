"""What the simulated workers train: a tiny quadratic whose gradient depends on seed, worker, batch and model alone.

With buffers, each worker's are its own function of the version that it builds on, and few of their bytes are numbers.
"""

import zlib
from dataclasses import astuple, dataclass

import numpy as np
import numpy.typing as npt

from driftline.producers.deltas import Gradient
from driftline.producers.proposal import Offer
from driftline.schemas.model.layout import Layout, Segment
from driftline.schemas.records.sample_range import SampleRange, Samples, joined
from driftline.schemas.run.config import RunConfig
from driftline.training.task.data import take_batch

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Problem:
    """One quadratic: settings, layout and version 0 follow from the configuration and the model's size."""

    config: RunConfig
    layout: Layout
    masters: FloatArray

    @property
    def offer(self) -> Offer:
        """What every worker would start the run with."""
        return Offer(config=self.config, layout=self.layout, masters=self.masters)

    def gradient(self, worker: str, pace: int, samples: Samples, flat: FloatArray) -> Gradient:
        """Return the gradient of a worker's clock at ``flat``; some segments are absent now and then.

        It depends on the samples alone, in whatever ranges they come, and without any on worker and pace.
        """
        rng, trained = self._rng(worker, pace, samples), self.layout.segments[: len(SEGMENTS)]
        pull = flat.copy()
        parameters = pull[: trained[-1].stop]
        np.subtract(parameters, rng.standard_normal(parameters.size, dtype=np.float32), out=parameters)
        presence = [bool(rng.random() < 0.85) for _ in trained]
        for segment, present in zip(trained, presence, strict=True):
            if not present:
                pull[segment.offset : segment.stop] = 0.0
        weight = float(rng.integers(0, 9))  # sometimes none at all
        loss = float(rng.random())
        self._change_buffers(pull[parameters.size :], rng)
        presence += [True] * (len(self.layout.segments) - len(trained))
        return Gradient(
            flat=pull,
            presence=presence,
            weight=weight,
            loss=loss,
            cursor=pace,
            learning_rates=self._rates(worker, pace),
            samples=samples,
        )

    def _rates(self, worker: str, pace: int) -> tuple[float, ...]:
        """Return what a worker's own schedule says, in a run that leaves the rates to them: often the usual ones."""
        if not self.config.schedule.is_scripts:
            return ()
        rng = np.random.default_rng([self.config.seed, zlib.crc32(worker.encode()), pace, 1])
        return tuple(group["lr"] * float(rng.choice((1.0, 1.0, rng.random()))) for group in self.config.rule.groups)

    @staticmethod
    def _change_buffers(words: FloatArray, rng: np.random.Generator) -> None:
        """Count the batches, as BatchNorm does, and put random bits into everything else."""
        if words.size:
            words[:2].view("<i8")[:] += 1
            words[2:].view("<u4")[:] = rng.integers(0, 2**32, words.size - 2, dtype=np.uint32)

    def _rng(self, worker: str, pace: int, samples: Samples) -> np.random.Generator:
        if samples:
            return np.random.default_rng([self.config.seed, *(number for one in samples for number in astuple(one))])
        return np.random.default_rng([self.config.seed, zlib.crc32(worker.encode()), pace])


SEGMENTS = "abc"

BUFFERS = (("count", "int64", ()), ("mean", "float32", (3,)), ("mask", "uint8", (2, 4)))
"""Name, dtype and shape of each."""


def problem(config: RunConfig, elements: int, *, buffers: bool = False) -> Problem:
    """Cut ``elements`` parameters into three segments, the last one in a parameter group of its own if there is one.

    Args:
        config: of the run.
        elements: of the parameters.
        buffers: whether `BUFFERS` follow them.
    """
    cuts = [0, elements // 2, elements - elements // 4, elements]
    last_group = len(config.rule.groups) - 1
    segments = [
        Segment(name, (), (stop - start,), "float32", "parameter", last_group if name == "c" else 0, start)
        for name, start, stop in zip(SEGMENTS, cuts[:-1], cuts[1:], strict=True)
    ]
    for name, dtype, shape in BUFFERS if buffers else ():
        segments.append(Segment(name, (), shape, dtype, "buffer", -1, segments[-1].stop))
    layout = Layout(tuple(segments), config.partitions)
    masters = np.zeros(layout.elements, np.float32)
    masters[:elements] = np.random.default_rng(config.seed).standard_normal(elements, dtype=np.float32)
    return Problem(config, layout, masters)


def take_clock(config: RunConfig, leased: Samples) -> Samples:
    """Return which of the samples that a worker may read its next clock is made of."""
    left, found = list(leased), list[SampleRange]()
    for _ in range(config.local.steps):
        found += take_batch(left, config.data.batch_size or 1)
    return joined(found)

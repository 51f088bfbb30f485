"""What came of a run, from its log: its published versions, measured on held-out data."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from bench.convergence.results import Point
from bench.convergence.trials import GRID_S, MARKED_SAMPLES, MARKED_VERSIONS, SECONDS, Trial
from driftline.broker.port import Broker, Record, Start
from driftline.broker.reading import until_end
from driftline.broker.topics import Stream, topic_name
from driftline.ledger.run_state import RunState
from driftline.schemas.codec import decode
from driftline.schemas.digests import verify_digest
from driftline.schemas.model.layout import Layout
from driftline.schemas.model.tensors import decode_fp32
from driftline.schemas.records import Membership, Parameters, Version
from driftline.training.model.layout import load_parameters
from driftline.training.task import Task, read_batch
from driftline.training.task.loading import load_task
from driftline.training.task.parts import build_model
from driftline.training.task.randomness import set_torch_defaults


@dataclass(frozen=True, slots=True)
class Published:
    """A version that was published: when, and of how many samples it is made."""

    version: int
    samples: int
    seconds: float
    flat: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the ledger says about the time that counts.

    Attributes:
        began_ms: when the workers had joined, by the broker's clock.
        samples: version → samples in all up to it.
        staleness: versions → contributions used that late.
        clocks: worker → contributions used; 0 for who made none.
        rejected: contributions that were not used.
    """

    state: RunState
    began_ms: int
    samples: Mapping[int, int]
    staleness: Mapping[int, int]
    clocks: Counter[str]
    rejected: int


def read_ledger(broker: Broker, run: str) -> Ledger:
    """Fold the ledger, and count what happened in the first ``SECONDS`` of training."""
    state = RunState()
    began_ms = 0
    samples: dict[int, int] = {0: 0}
    staleness: Counter[int] = Counter()
    clocks: Counter[str] = Counter()
    rejected = 0
    for record in records(broker, run, Stream.LEDGER):
        names = {group.id: group.worker for group in state.groups.values()}
        before = sum(state.totals.rejections.values())
        found = state.read(record.offset, record.value).record
        if isinstance(found, Membership) and not began_ms:
            began_ms = record.timestamp_ms
        if began_ms and record.timestamp_ms - began_ms > 1000 * SECONDS:
            continue
        rejected += sum(state.totals.rejections.values()) - before
        if isinstance(found, Version):
            used = [use for use in found.uses if use.coefficient]
            samples[found.version] = samples[found.version - 1] + round(sum(use.weight for use in used))
            staleness.update(use.staleness for use in used)
            clocks.update(names[use.group] for use in used)
    return Ledger(state, began_ms, samples, staleness, clocks, rejected)


def read_published(broker: Broker, run: str, ledger: Ledger) -> list[Published]:
    """Return the complete versions that were published in time, in order."""
    if not ledger.state.has_begun:
        raise RuntimeError(f"run {run!r} never started")
    start, layout = ledger.state.start, ledger.state.layout
    found: dict[int, dict[int, npt.NDArray[np.float32]]] = {}
    published = []
    for record in records(broker, run, Stream.PARAMETERS, layout.partitions):
        one = decode(record.value)
        seconds = max(0.0, (record.timestamp_ms - ledger.began_ms) / 1000)
        if not isinstance(one, Parameters) or one.version not in ledger.samples or seconds > SECONDS:
            continue
        if one.head != ledger.state.heads[one.version] or not verify_digest(start.run, record.value or b"", one):
            raise RuntimeError(f"{record.topic}[{record.partition}]@{record.offset} is not version {one.version}")
        shards = found.setdefault(one.version, {})
        shards[one.shard] = decode_fp32(one.payload, one.elements)
        if len(shards) == layout.shard_count:
            flat = np.concatenate([shards[shard] for shard in range(layout.shard_count)])
            published.append(Published(one.version, ledger.samples[one.version], seconds, flat))
            del found[one.version]
    return sorted(published, key=lambda one: one.version)


def records(broker: Broker, run: str, stream: Stream, partitions: int = 1) -> Iterator[Record]:
    """Yield the records of a stream up to its present end."""
    for partition in range(partitions):
        yield from until_end(broker, topic_name(run, stream), partition, Start.BEGINNING)


def chosen(published: Sequence[Published]) -> list[Published]:
    """Return those that are measured: the newest at each mark, of time, of versions and of samples, and the last."""
    times = [GRID_S * number for number in range(1, round(SECONDS / GRID_S) + 1)]
    kept = {
        *(_newest([one for one in published if one.seconds <= mark]) for mark in times),
        *(_newest([one for one in published if one.version <= mark]) for mark in MARKED_VERSIONS),
        *(_newest([one for one in published if one.samples <= mark]) for mark in MARKED_SAMPLES),
        published[-1].version,
    }
    return [one for one in published if one.version in kept]


def _newest(published: Sequence[Published]) -> int:
    return published[-1].version if published else -1


class Measuring:
    """Measures versions of one task; builds its model once, and reads its held-out data once, as one batch."""

    def __init__(self, trial: Trial) -> None:
        set_torch_defaults()
        self._task: Task = load_task(trial.study.name, trial.task_settings)
        self._model = build_model(self._task, 0).eval()
        samples = self._task.data("test")
        self._batch = read_batch(self._task, samples, range(len(samples)))

    def measure(self, published: Sequence[Published], layout: Layout) -> tuple[tuple[Point, ...], float]:
        """Return the versions' loss, and the last one's accuracy."""
        curve, accuracy = [], 0.0
        for one in published:
            load_parameters(self._model, layout, one.flat)
            with torch.no_grad():
                found = self._task.metrics(self._model, [self._batch])
            curve.append(Point(one.version, one.samples, round(one.seconds, 2), round(found["loss"], 3)))
            accuracy = round(found["accuracy"], 3)
        return tuple(curve), accuracy

"""What one seed simulates: how many of what, which rule, which faults, how patient the scheduler is."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from driftline.schemas.run.config import RuleConfig, RunConfig
from driftline.schemas.run.consistency import Consistency
from driftline.schemas.run.data import DataConfig
from driftline.schemas.run.local_work import LocalWork
from driftline.schemas.run.schedule import Schedule


class Fault(StrEnum):
    """Everything that can go wrong on purpose."""

    DUPLICATE = "a recent record is sent once more"
    STALL = "a reader gets nothing of one partition for a while"
    OUTAGE = "no process reads or writes anything for a while"
    PAUSE = "a process stands still and goes on later with what it knew"
    CLOCK_JUMP = "a process's clock jumps ahead"
    CRASH_SERVER = "a server dies; another incarnation starts later"
    CRASH_WORKER = "a worker dies; another incarnation may start later"
    LEAVE = "a worker leaves"
    JOIN = "one more worker starts"
    MOVE = "a partition gets another owner"
    ZOMBIE = "a partition gets another owner; the old one learns of it much later"
    SEND_LOST = "a send fails and is not in the log"
    SEND_LANDED = "a send fails and is in the log"
    SEND_LATE = "a send fails and lands later"
    RUBBISH = "bytes that are no record, or belong elsewhere"
    FOREIGN_RUN = "records of another run under the same name"
    VOID_RECORD = "a ledger record of an old term or with a wrong parent"
    LOST_CLAIM = "a TermStart of a candidate that is gone"
    NAN_DELTA = "a worker sends a delta with NaN"
    CONFLICTING_DELTA = "a second, other delta of one (group, clock, shard)"
    SKIP = "a worker spends a clock without a delta"
    COMPACT = "the snapshots are compacted"


LOSSY = frozenset({Fault.CRASH_WORKER, Fault.LEAVE, Fault.JOIN, Fault.NAN_DELTA, Fault.CONFLICTING_DELTA, Fault.SKIP})
"""Faults that may change which gradients there are, and so the final bits."""

LOSSY_SHARE = 0.6
"""Of the seeds; the others must arrive at the bits of the undisturbed run unless a worker is evicted."""

STOPPED_SHARE = 0.1
"""Of the seeds: those in which a command asks for the run's end."""

STOPPED_AT = 500, 1000
"""The event after which it is asked for."""

MORE_STEPS = (14, 6, 3, 0)
"""Versions that a run with 1, 2, 3, 4 workers makes more, so that every seed has 500 events."""

BUFFERS_SHARE = 0.3
"""Of the seeds: those whose model has buffers."""

SCRIPTS_SHARE = 0.25
"""Of the seeds: those whose workers set learning rates themselves, as scripts may."""

LEASED_SHARE = 0.7
"""Of the seeds: those whose samples are leased; half of these end when each sample was used so often."""

MIN_KINDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything about a simulated run that the seed decides beforehand.

    Attributes:
        disturbed_events: events before the faults end; fewer if the run is over sooner.
        buffers: whether the model has buffers.
        calm_until: version before which nothing goes wrong, so that faults meet a run that has something to lose.
        stop_at: number of the event after which a command asks for the run's end, if one does.
        renews: whether some die once more when the faults are over, and others begin at the last checkpoint.
        faults: kinds that may happen; at least `MIN_KINDS` of them do.
        fault_share: faults for each event.
        prompt: probability that a send is in the log at once.
    """

    seed: int
    servers: int
    workers: int
    evaluators: int
    elements: int
    buffers: bool
    calm_until: int = 0
    stop_at: int | None = None
    renews: bool = False
    config: RunConfig
    disturbed_events: int
    faults: tuple[Fault, ...]
    fault_share: float
    prompt: float

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the workers that the run starts with."""
        return tuple(f"w{index}" for index in range(self.workers))


def seeded(seed: object) -> random.Random:
    """Return a source of numbers that depends on ``seed`` alone."""
    return random.Random(repr(seed))  # noqa: S311 - repeatable is what is wanted here


def scenario(seed: int, *, events: int | None = None, faults: tuple[Fault, ...] | None = None) -> Scenario:
    """Draw the scenario of a seed.

    Args:
        seed: any number.
        events: disturbed events, instead of what the seed says.
        faults: kinds of faults, instead of what the seed says; none at all leaves the run undisturbed.
    """
    rng, bounds = seeded(("scenario", seed)), seeded(("bounds", seed))
    workers = rng.choice((1, 2, 2, 3, 3, 4))
    config = RunConfig(
        name="simulated",
        workers=workers,
        steps=rng.choice((5, 6, 7, 8, 9, 12)) + MORE_STEPS[workers - 1],
        seed=seed,
        partitions=rng.choice((1, 2, 2, 3, 4)),
        rule=_rule(rng),
        consistency=_consistency(bounds),
        schedule=_schedule(seed, bounds),
        gone_after_ticks=rng.choice((4, 12)),
        **_keeping(seeded(("keeping", seed))),
    )
    config = _with_data(config, seeded(("data", seed)))
    kinds = list(Fault) if rng.random() < LOSSY_SHARE else [kind for kind in Fault if kind not in LOSSY]
    rng.shuffle(kinds)
    drawn = tuple(sorted(kinds[: rng.randint(6, 12)]))
    return Scenario(
        seed=seed,
        servers=rng.choice((1, 2, 2, 3)),
        workers=workers,
        evaluators=rng.choice((0, 0, 1)),
        elements=rng.choice((5, 37, 37, 64)),
        buffers=seeded(("buffers", seed)).random() < BUFFERS_SHARE,
        calm_until=_calm_until(seeded(("calm", seed)), config.horizon),
        stop_at=_stop_at(seeded(("stop", seed))),
        renews=faults is None,
        config=config,
        disturbed_events=events if events is not None else rng.randint(500, 1200),
        faults=drawn if faults is None else faults,
        fault_share=rng.choice((0.01, 0.02, 0.05)),
        prompt=rng.choice((0.3, 0.7, 0.95)),
    )


def _schedule(seed: int, rng: random.Random) -> Schedule:
    by_run = rng.choice((Schedule(), Schedule(), Schedule(warmup=3, decay="cosine", final=0.1)))
    return Schedule(set_by="script") if seeded(("rates", seed)).random() < SCRIPTS_SHARE else by_run


def _with_data(config: RunConfig, rng: random.Random) -> RunConfig:
    """Draw what is leased, if anything: about as much as the run reads in so many versions."""
    if rng.random() >= LEASED_SHARE:
        return config
    batch, local = rng.choice((1, 2, 3, 5)), rng.choice((1, 1, 2))
    a_clock, epochs = batch * local * config.workers, rng.choice((0, 1, 2, 3))
    samples = max(1, config.steps * a_clock // max(1, epochs) - rng.randrange(0, a_clock))
    data = DataConfig(
        samples=samples if epochs else rng.choice((1, 7, samples // 2 + 1, samples)),
        batch_size=batch,
        block=batch * local * rng.choice((1, 2, 4)),
        epochs=epochs,
    )
    steps = 0 if epochs else config.steps
    return replace(config, steps=steps, data=data, local=LocalWork(steps=local))


def _keeping(rng: random.Random) -> Mapping[str, Any]:
    """Draw how often there are snapshots, and whether what they make needless is deleted."""
    every = rng.choice((0, 1, 2, 3, 5))
    return {"snapshot_every": every, "retain": "all" if every == 0 else rng.choice(("all", "checkpoint", "checkpoint"))}


def _calm_until(rng: random.Random, steps: int) -> int:
    return rng.choice((0, 0, rng.randint(1, max(1, steps // 3))))


def _stop_at(rng: random.Random) -> int | None:
    return rng.randint(*STOPPED_AT) if rng.random() < STOPPED_SHARE else None


def _rule(rng: random.Random) -> RuleConfig:
    return rng.choice(
        (
            RuleConfig(name="sgd", groups=({"lr": 0.3},)),
            RuleConfig(name="sgd", groups=({"lr": 0.1, "momentum": 0.9}, {"lr": 0.01, "momentum": 0.5})),
            RuleConfig(name="adamw", groups=({"lr": 0.05},)),
        )
    )


def _consistency(rng: random.Random) -> Consistency:
    """Draw a mode: lock-step for half of the seeds, so that bits can be compared with an undisturbed run."""
    staleness = rng.choice((0, 1, 2, 4))
    weighting = rng.choice(("none", "inverse", "polynomial"))
    return rng.choice(
        (
            Consistency(),
            Consistency(),
            Consistency(),
            Consistency(mode="ssp", staleness=staleness, weighting=weighting),
            Consistency(mode="ssp", staleness=1, drop_slowest=1, max_staleness=3, on_stale="damp"),
            Consistency(mode="buffered", buffer=rng.choice((1, 2, 3)), ahead=rng.choice((1, 2)), weighting=weighting),
            Consistency(mode="async", buffer=1, weighting="inverse", max_staleness=rng.choice((-1, 2))),
        )
    )


def in_lock_step(plan: Scenario) -> Scenario:
    """Return a scenario with the bounds of mode sync and no early end, so that its bits follow from its settings."""
    return replace(plan, stop_at=None, config=replace(plan.config, consistency=Consistency()))

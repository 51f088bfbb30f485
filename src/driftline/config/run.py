"""From the words of a command line to the settings of a run."""

from dataclasses import dataclass
from typing import Any

from driftline.broker.topics import check_run_name
from driftline.config.bounds import BoundWords, implied_mode
from driftline.config.choosing import Choice
from driftline.config.keys import RUN
from driftline.config.problems import Problems
from driftline.config.run_settings import RunSettings
from driftline.schemas.run.config import MAX_GONE_AFTER, MIN_GONE_AFTER, RETAIN, TOP_SEED

DEFAULT_STEPS = 200
_MAX_WORKERS = 10_000
_MAX_STEPS = 2**53
_MAX_EPOCHS = 1_000_000
MAX_PARTITIONS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWords:
    """Settings of a run as somebody typed them; None is what was left out. ``said`` names what was not."""

    workers: str
    steps: str | None
    epochs: str | None
    bounds: BoundWords
    outer_lr: str
    outer_momentum: str
    seed: str
    partitions: str
    snapshot_every: str
    retain: str
    gone_after: str
    said: frozenset[str]

    @classmethod
    def of(cls, choice: Choice) -> "RunWords":
        """Take them out of what a command was told."""
        words: dict[str, Any] = {key.parameter: choice.text(key) for key in RUN}
        words["said"] = said = frozenset(key.parameter for key in RUN if choice.is_said(key))
        words["mode"] = words["mode"] if "mode" in said else implied_mode(words)
        words["bounds"] = BoundWords(**{name: words[name] for name in BoundWords.__slots__})
        return cls(**{name: words[name] for name in cls.__slots__})

    def read(self, run: str, problems: Problems) -> RunSettings:
        """Return the settings, or anything at all once ``problems`` has grown."""
        local = self.bounds.local(problems)
        steps, epochs = self._length(problems)
        problems.attempt(lambda: check_run_name(run), "")
        return RunSettings(
            run=run,
            workers=problems.whole("--workers", self.workers, 1, _MAX_WORKERS, zero="zero workers compute nothing"),
            steps=steps,
            epochs=epochs,
            consistency=self.bounds.consistency(problems),
            schedule=self.bounds.learning_rates(problems),
            local=local,
            outer_lr=problems.real("--outer-lr", self.outer_lr, 0.0, 1e3),
            outer_momentum=problems.real("--outer-momentum", self.outer_momentum, 0.0, 1.0),
            seed=problems.whole("--seed", self.seed, 0, TOP_SEED),
            partitions=problems.whole(
                "--partitions", self.partitions, 1, MAX_PARTITIONS, zero="zero partitions hold nothing"
            ),
            snapshot_every=problems.whole("--snapshot-every", self.snapshot_every, 0, _MAX_STEPS),
            retain=self._retain(problems),
            gone_after_ticks=problems.whole("--gone-after", self.gone_after, MIN_GONE_AFTER, MAX_GONE_AFTER),
            chosen=self.said,
        )

    def _retain(self, problems: Problems) -> str:
        if self.retain == "checkpoint" and self.snapshot_every == "0":
            problems.add(
                "--retain checkpoint and --snapshot-every 0: without snapshots nothing may be deleted; leave one out"
            )
        if self.retain not in RETAIN:
            problems.add(f"--retain: {self.retain!r} is neither {RETAIN[0]} nor {RETAIN[1]}")
            return RETAIN[0]
        return self.retain

    def _length(self, problems: Problems) -> tuple[int | None, int | None]:
        if self.steps is not None and self.epochs is not None:
            problems.add("--steps and --epochs: both say how long to train; give one of them")
        if self.epochs is not None:
            return None, problems.whole("--epochs", self.epochs, 1, _MAX_EPOCHS, zero="zero passes train nothing")
        if self.steps is not None:
            return problems.whole("--steps", self.steps, 1, _MAX_STEPS, zero="zero steps train nothing"), None
        return DEFAULT_STEPS, None

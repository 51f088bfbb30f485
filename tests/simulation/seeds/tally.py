"""What many seeds add up to: counts that can be added, written as JSON, and told to people."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields

from tests.simulation.run.scenario import Fault, Scenario
from tests.simulation.world.simulate import Report


@dataclass(slots=True)
class Tally:
    """Counts over seeds.

    Attributes:
        seeds: that were run.
        events: of all of them.
        fewest_events: of one seed that passed; None if none did.
        fewest_kinds: of faults, the same.
        faults: by name of their kind.
        modes: seeds by mode of consistency.
        removals: groups that were removed.
        rejections: contributions that were.
        same_bits: seeds whose bits were compared with those of an undisturbed run.
        restored: checkpoints whose state was found to be that of the whole ledger.
        entered: processes that began to read the ledger at a checkpoint.
        failed: what does not hold, by seed.
    """

    seeds: int = 0
    events: int = 0
    fewest_events: int | None = None
    fewest_kinds: int | None = None
    faults: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    removals: int = 0
    rejections: int = 0
    same_bits: int = 0
    restored: int = 0
    entered: int = 0
    failed: dict[int, str] = field(default_factory=dict)

    def passed(self, plan: Scenario, report: Report) -> None:
        """Count a seed that kept every promise."""
        kinds = Counter({kind.name: count for kind, count in report.faults.items()})
        self.add(
            Tally(
                seeds=1,
                events=report.events,
                fewest_events=report.events,
                fewest_kinds=len(kinds),
                faults=kinds,
                modes=Counter({plan.config.consistency.mode: 1}),
                removals=report.removals,
                rejections=report.rejections,
                same_bits=int(report.same_bits),
                restored=report.restored,
                entered=report.entered,
            )
        )

    def broke(self, plan: Scenario, what: str) -> None:
        """Count a seed that did not; its events and faults are not known."""
        self.add(Tally(seeds=1, modes=Counter({plan.config.consistency.mode: 1}), failed={plan.seed: what}))

    def add(self, other: "Tally") -> None:
        """Count the seeds of another tally too."""
        self.seeds += other.seeds
        self.events += other.events
        self.fewest_events = _least(self.fewest_events, other.fewest_events)
        self.fewest_kinds = _least(self.fewest_kinds, other.fewest_kinds)
        self.faults.update(other.faults)
        self.modes.update(other.modes)
        self.removals += other.removals
        self.rejections += other.rejections
        self.same_bits += other.same_bits
        self.restored += other.restored
        self.entered += other.entered
        self.failed.update(other.failed)

    def to_json(self) -> str:
        """One line."""
        return json.dumps({one.name: getattr(self, one.name) for one in fields(self)}, sort_keys=True)

    def lines(self) -> Iterator[str]:
        """Say it to people."""
        for name, count in sorted(self.faults.items()):
            yield f"{count:9,d}  {name}: {Fault[name].value}"
        kinds = f"{sum(self.faults.values()):,} faults of {len(self.faults)} kinds"
        yield f"{self.seeds:,} seeds, {self.events:,} events, {kinds}"
        if self.fewest_events is not None:
            yield f"each at least {self.fewest_events:,} events and {self.fewest_kinds} kinds of faults"
        yield ", ".join(f"{mode} {count:,}" for mode, count in sorted(self.modes.items()))
        yield (
            f"{self.same_bits:,} compared to the bit with an undisturbed run; {self.removals:,} removals, "
            f"{self.rejections:,} rejections"
        )
        yield (
            f"{self.restored:,} states of checkpoints folded on, and compared with the whole ledger's; "
            f"{self.entered:,} processes began at one"
        )


def tally_from_json(text: str) -> Tally:
    """Parse `Tally.to_json`.

    Raises:
        ValueError: it is something else.
    """
    raw = json.loads(text)
    if not isinstance(raw, Mapping) or set(raw) != {one.name for one in fields(Tally)}:
        raise ValueError(f"no tally of seeds: {text[:80]!r}")
    failed = {int(seed): what for seed, what in raw["failed"].items()}
    return Tally(**{**raw, "faults": Counter(raw["faults"]), "modes": Counter(raw["modes"]), "failed": failed})


def _least(one: int | None, other: int | None) -> int | None:
    known = [count for count in (one, other) if count is not None]
    return min(known, default=None)

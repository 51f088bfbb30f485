"""Bugs put on purpose into the leases of samples: the simulation must find each."""

from __future__ import annotations

from driftline.ledger.leases import Leases
from driftline.schemas.records import Grant, GroupId
from driftline.schemas.records.sample_range import Samples
from driftline.schemas.run.config import RunConfig
from tests.simulation.planted.planting import Planted, server_with
from tests.simulation.run.actors import Cores
from tests.simulation.run.scenario import Fault

GOING = (Fault.LEAVE, Fault.CRASH_WORKER, Fault.JOIN, Fault.DUPLICATE)


class KeepsWhatTheGoneHeld(Leases):
    """Never leases again what a removed worker held."""

    def leave(self, group: GroupId) -> None:
        self.use(group, self.held(group), discarded=True)
        super().leave(group)


class ReturnsTwice(Leases):
    """Leases again, with a removed worker's samples, those of its last clock, which a version has consumed."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.last: dict[GroupId, Samples] = {}
        self.returned: Samples = ()

    def use(self, group: GroupId, samples: Samples, *, discarded: bool) -> None:
        super().use(group, samples, discarded=discarded)
        self.last[group] = samples

    def leave(self, group: GroupId) -> None:
        super().leave(group)
        self.returned += self.last.pop(group, ())

    def due(self) -> tuple[Grant, ...]:
        grants = super().due()
        return grants + tuple(Grant(group=one.group, samples=again) for one in grants[:1] for again in self.returned)


class LeasesWhatIsNotFree(Leases):
    """Forgets which samples are leased as soon as they are."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.leased: Samples = ()

    def grant(self, grant: Grant) -> None:
        super().grant(grant)
        self.leased = (grant.samples,)

    def due(self) -> tuple[Grant, ...]:
        grants = super().due()
        return grants + tuple(Grant(group=one.group, samples=again) for one in grants[:1] for again in self.leased)


LEASES = (
    Planted(
        "keeps what the gone held", "8", Cores(server=server_with(leases=KeepsWhatTheGoneHeld)), GOING, leased=True
    ),
    Planted("returns twice", "8", Cores(server=server_with(leases=ReturnsTwice)), GOING, leased=True),
    Planted("leases what is not free", "8", Cores(server=server_with(leases=LeasesWhatIsNotFree)), leased=True),
)
"""Each with the number of the invariant that it breaks."""

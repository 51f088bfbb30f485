"""The same training in one loop, without a log, a ledger or a server.

Every undisturbed run, and every disturbed one that loses nothing, must arrive at its digest, to the bit.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from driftline.ledger.leases import Leases
from driftline.producers.deltas import Gradient
from driftline.schemas.records import GroupId
from driftline.schemas.records.sample_range import Samples
from driftline.schemas.run.config import RunConfig
from tests.simulation.promises.plain_rules import PlainModel, Term, mean_rate
from tests.simulation.run.quadratic import Problem, take_clock


def expected_digest(one: Problem, workers: Iterable[str], versions: int) -> bytes:
    """Train in one loop and return the digest of the last version's state."""
    model = PlainModel(one)
    data = DealtData(one.config, sorted(workers))
    for pace in range(versions):
        read = data.clocks()
        skipped = {name for name, samples in read.items() if one.config.data.is_leased and not samples}
        gradients = {
            name: one.gradient(name, pace, samples, model.masters)
            for name, samples in read.items()
            if name not in skipped
        }
        terms, rates = _terms(gradients), _rates(one.config, pace + 1, gradients)
        model.apply(terms, rates, 1.0, terms[0] if terms else None)
    return model.digests().model


class DealtData:
    """What each worker reads in lock-step, if no worker comes or goes."""

    def __init__(self, config: RunConfig, names: Sequence[str]) -> None:
        self._config, self._leases = config, Leases(config)
        self._groups = {name: GroupId(0, index) for index, name in enumerate(names)}
        for name, group in self._groups.items():
            self._leases.enter(group, name)

    def clocks(self) -> dict[str, Samples]:
        """Return what each worker reads for the next version, and use it up."""
        for grant in self._leases.due():
            self._leases.grant(grant)
        read = {name: take_clock(self._config, self._leases.held(group)) for name, group in self._groups.items()}
        for name, samples in read.items():
            self._leases.use(self._groups[name], samples, discarded=False)
        return read


def _rates(config: RunConfig, version: int, gradients: Mapping[str, Gradient]) -> list[float]:
    groups = config.rule.groups
    if not config.schedule.is_scripts:
        return [config.schedule.factor(version, config.horizon) * group["lr"] for group in groups]
    counting = [one for one in gradients.values() if one.weight > 0]
    return [mean_rate([(one.weight, one.learning_rates[group]) for one in counting]) for group in range(len(groups))]


def _terms(gradients: Mapping[str, Gradient]) -> list[Term]:
    total = sum(one.weight for one in gradients.values())
    return [
        Term(np.float32(one.weight / total), one.flat, tuple(one.presence))
        for one in gradients.values()
        if one.weight > 0
    ]

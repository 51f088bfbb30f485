"""Learning rates and ``param_groups``: those of the run are shown there, or those of the script are read from there."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from driftline.errors import UsageError
from driftline.ledger.policy import MOST_RATE, rates_problem
from driftline.rules import with_defaults
from driftline.schemas.run.config import RunConfig

WRITTEN = (
    "param_groups[%d]['lr'] was set to %g, but in this run the learning rate of a version follows from its number: it "
    "is %g for version %d. What the script sets changes nothing, and this is said once. The run's own schedule is "
    "warmup, decay and final_rate; a new run with schedule='script' takes the script's rates"
)


OTHER_WRITTEN = (
    "param_groups[%d]['%s'] was %s when the run was joined and is %s now: only learning rates of a script count, and "
    "this changes nothing. The numbers of a rule are fixed when the run is made"
)

FIXED = ("momentum", "dampening", "weight_decay", "nesterov", "betas", "eps", "lr_decay", "amsgrad", "maximize")
"""Numbers and switches of a group, beside its rate, that a script or a scheduler may write."""


class Rates:
    """Shows the rates of the next version, and notices when the script writes there.

    In a run that leaves the rates to its scripts it writes nothing and reads what is there.

    Args:
        config: of the run.
        groups: ``param_groups`` of the optimizer.
    """

    def __init__(self, config: RunConfig, groups: Sequence[dict[str, Any]]) -> None:
        self._config = config
        self._full = [group["lr"] for group in with_defaults(config.rule).groups]
        self._shown = [rate_of(group) for group in groups]
        self._fixed = [{name: group[name] for name in FIXED if name in group} for group in groups]

    def other_changes(self, groups: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, str, Any, Any]]:
        """Yield each number beside the rate that a script has changed: group, name, number before, number now."""
        for index, (group, fixed) in enumerate(zip(groups, self._fixed, strict=True)):
            for name, before in fixed.items():
                if group[name] != before:
                    yield index, name, before, group[name]

    def asked_for(self, groups: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
        """Return the rates that a contribution brings, one a group; none if the run's schedule sets them.

        Raises:
            UsageError: a rate cannot be used.
        """
        if not self._config.schedule.is_scripts:
            return ()
        rates = tuple(rate_of(group) for group in groups)
        for index, rate in enumerate(rates):
            if rates_problem([rate], 1):
                raise UsageError(f"param_groups[{index}]['lr'] is {rate}, no number from 0 to {MOST_RATE:.0e}")
        return rates

    def show(self, groups: Sequence[dict[str, Any]], version: int) -> None:
        """Write the rates with which ``version`` is made, where they follow from its number."""
        if self._config.schedule.is_scripts:
            return
        factor = self._config.schedule.factor(max(version, 1), self._config.horizon)
        self._shown = [factor * rate for rate in self._full]
        for group, rate in zip(groups, self._shown, strict=True):
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def written(self, groups: Sequence[Mapping[str, Any]]) -> tuple[int, float, float] | None:
        """Return the first group whose rate the script has set: its index, that rate, and the rate that counts.

        None where a script may set it.
        """
        if self._config.schedule.is_scripts:
            return None
        for index, (group, shown) in enumerate(zip(groups, self._shown, strict=True)):
            if not _same(rate_of(group), shown):
                return index, rate_of(group), shown
        return None


def rate_of(group: Mapping[str, Any]) -> float:
    """Return a group's learning rate as a number."""
    rate = group["lr"]
    return float(rate.item() if isinstance(rate, torch.Tensor) else rate)


def _same(left: float, right: float) -> bool:
    # A rate that is a tensor is float32.
    return abs(left - right) <= 1e-6 * max(abs(left), abs(right))

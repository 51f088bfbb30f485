"""Learning rates of a run, shown in ``param_groups``: a scheduler or a log that reads them there sees what counts."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from driftline.consumers.rules import with_defaults
from driftline.schemas.run_config import RunConfig

WRITTEN = (
    "param_groups[%d]['lr'] was set to %g, but in this run the learning rate of a version follows from its number: it "
    "is %g for version %d. What the script sets changes nothing, and this is said once. The run's own schedule is "
    "warmup, decay and final_rate; a scheduler can be left out"
)


class Rates:
    """Mirrors the rates of the next version, and notices when somebody else writes there.

    Args:
        config: of the run.
        groups: ``param_groups`` of the optimizer.
    """

    def __init__(self, config: RunConfig, groups: Sequence[dict[str, Any]]) -> None:
        self._config = config
        self._full = [group["lr"] for group in with_defaults(config.rule).groups]
        self._shown = [rate_of(group) for group in groups]

    def show(self, groups: Sequence[dict[str, Any]], version: int) -> None:
        """Write the rates with which ``version`` is made."""
        factor = self._config.schedule.factor(max(version, 1), self._config.steps)
        self._shown = [factor * rate for rate in self._full]
        for group, rate in zip(groups, self._shown, strict=True):
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def written(self, groups: Sequence[Mapping[str, Any]]) -> tuple[int, float, float] | None:
        """Return the first group whose rate somebody else has set: its index, that rate, and the one that counts."""
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

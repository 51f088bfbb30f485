"""From chosen settings to those of a run: frozen for a new run, taken over from a run that exists."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from driftline.config.keys import SCRIPT
from driftline.config.run_settings import RunSettings
from driftline.errors import RunRefused
from driftline.rules import with_defaults
from driftline.schemas.run.config import RuleConfig, RunConfig, SharedSettings
from driftline.schemas.run.config_json import check
from driftline.schemas.run.data import DataConfig
from driftline.schemas.run.other_settings import SETTINGS, exists_otherwise
from driftline.schemas.run.setting import Key

BATCHES_A_BLOCK = 8
"""Times the local steps of a clock: few enough that workers end together, many enough that a lease is rare."""


def _frozen_at(key: Key) -> tuple[str, ...]:
    in_data = key.at[0] in {one.name for one in fields(DataConfig)}
    return ("data", *key.at) if in_data else key.at


FROZEN: Mapping[str, tuple[str, ...]] = {
    key.parameter: _frozen_at(key) for key in SCRIPT if _frozen_at(key)[0] in {one.name for one in fields(RunConfig)}
}
"""Keyword argument of a setting → where it is in a `RunConfig`."""

DATA = frozenset(name for name, at in FROZEN.items() if at[0] == "data")


def outer_rule(settings: RunSettings) -> RuleConfig:
    """Return the rule that servers apply to the sum of several local steps (DiLoCo: Douillard et al., 2023)."""
    momentum = settings.outer_momentum
    numbers = {"lr": settings.outer_lr, "momentum": momentum, "nesterov": float(momentum > 0)}
    return with_defaults(RuleConfig(name="sgd", groups=(numbers,)))


def freeze(settings: RunSettings, rule: RuleConfig, *, samples: int, batch_size: int) -> RunConfig:
    """Return the configuration that `RunStart` records.

    Args:
        settings: of the run.
        rule: of the optimizer.
        samples: of the training data; 0 leases none.
        batch_size: of one batch.

    Raises:
        ConfigError: lists every setting that is out of range.
    """
    usual = BATCHES_A_BLOCK * max(1, batch_size) * max(1, settings.local.steps) if samples else 0
    block, epochs = settings.block or usual, settings.epochs or 0
    config = RunConfig(
        **_shared(settings),
        name=settings.run,
        data=DataConfig(samples=samples, batch_size=batch_size, block=block, epochs=epochs),
        steps=settings.steps or 0,
        rule=rule,
    )
    check(config)
    return config


def adopted_settings(ours: RunSettings, theirs: RunConfig) -> RunSettings:
    """Return the settings with which a worker fits a run: the run's own, where none was chosen here.

    If ``chosen`` is None they are left as they are, and compared as a whole later.

    Raises:
        RunRefused: something was chosen that the run has otherwise; lists all of it.
    """
    if ours.chosen is None:
        return ours
    compared = [name for name in FROZEN if name in ours.chosen - DATA]  # data is compared once it is there
    found = [one for name in compared if (one := _difference(FROZEN[name], ours, theirs))]
    if found:
        raise RunRefused(exists_otherwise(ours.run, SETTINGS, found))
    epochs = (ours.epochs if "epochs" in ours.chosen else theirs.data.epochs) or None
    steps = theirs.steps if epochs is None else None
    return replace(ours, **_shared(theirs), **_outer(ours, theirs), steps=steps, epochs=epochs)


def adopted_by_script(ours: RunSettings, theirs: RunConfig) -> RunSettings:
    """Return the same for a script, which also takes over the sizes of the data; a task knows its own data."""
    chosen = DATA if ours.chosen is None else ours.chosen
    data = {name: getattr(theirs.data, name) for name in DATA - {"epochs"} - chosen}
    return replace(adopted_settings(ours, theirs), **data)


def _shared(settings: SharedSettings) -> dict[str, Any]:
    return {one.name: getattr(settings, one.name) for one in fields(SharedSettings)}


def _difference(at: tuple[str, ...], ours: RunSettings, theirs: RunConfig) -> str:
    here: Any = ours
    there: Any = theirs
    for name in at:
        here, there = getattr(here, name), getattr(there, name)
    return "" if here == there else f"{'.'.join(at)}: {here!r} here, {there!r} in the run"


def _outer(ours: RunSettings, theirs: RunConfig) -> dict[str, Any]:
    """Return learning rate and momentum of the outer rule: those of a run that has one, where none were chosen."""
    numbers = theirs.rule.groups[0] if theirs.local.steps > 1 else {}
    usual = {"outer_lr": numbers.get("lr"), "outer_momentum": numbers.get("momentum")}
    chosen = ours.chosen or frozenset()
    return {name: value for name, value in usual.items() if value is not None and name not in chosen}

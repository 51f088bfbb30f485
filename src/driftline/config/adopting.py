"""What a script or a worker takes over from a run that exists: every setting that it did not choose itself."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from driftline.config.run_settings import RunSettings
from driftline.errors import RunRefused
from driftline.schemas.run.config import RunConfig
from driftline.schemas.run.other_settings import SETTINGS, exists_otherwise

_PLACES = {
    "workers": ("", "workers"),
    "steps": ("", "steps"),
    "epochs": ("data", "epochs"),
    "samples": ("data", "samples"),
    "batch_size": ("data", "batch_size"),
    "block": ("data", "block"),
    "seed": ("", "seed"),
    "partitions": ("", "partitions"),
    "snapshot_every": ("", "snapshot_every"),
    "retain": ("", "retain"),
    "gone_after": ("", "gone_after_ticks"),
    **{
        name: ("consistency", name)
        for name in (
            "mode",
            "staleness",
            "drop_slowest",
            "buffer",
            "ahead",
            "weighting",
            "exponent",
            "max_staleness",
            "on_stale",
        )
    },
    "max_age": ("consistency", "max_age_s"),
    "schedule": ("schedule", "set_by"),
    "warmup": ("schedule", "warmup"),
    "decay": ("schedule", "decay"),
    "final_rate": ("schedule", "final"),
    "clip_norm": ("local", "clip_norm"),
    "local_steps": ("local", "steps"),
    "clock": ("local", "clock_s"),
}
"""Name of an option → section and field of the configuration."""

OPTIONS = frozenset(_PLACES)


def adopted(ours: RunConfig, theirs: RunConfig, chosen: Collection[str]) -> RunConfig:
    """Return the settings of a run with those that were chosen here instead.

    Equal to ``theirs`` if nothing was chosen that differs. The update rule is always ours: it is the script's own.

    Args:
        ours: as this script would start the run.
        theirs: of the run.
        chosen: names of options; others are ignored.
    """
    changes: dict[str, dict[str, Any]] = {"": {}, "consistency": {}, "schedule": {}, "local": {}, "data": {}}
    for name in chosen:
        if name in _PLACES:
            section, field = _PLACES[name]
            changes[section][field] = getattr(getattr(ours, section) if section else ours, field)
    return replace(
        theirs,
        rule=ours.rule,
        consistency=replace(theirs.consistency, **changes["consistency"]),
        schedule=replace(theirs.schedule, **changes["schedule"]),
        local=replace(theirs.local, **changes["local"]),
        data=replace(theirs.data, **changes["data"]),
        **changes[""],
    )


def adopted_settings(ours: RunSettings, theirs: RunConfig) -> RunSettings:
    """Return the settings with which a worker fits a run: the run's own, where nobody chose otherwise.

    Settings that nobody chose one by one (``chosen`` is None) are left as they are, and compared as a whole later.

    Raises:
        RunRefused: something was chosen that the run has otherwise; lists all of it.
    """
    if ours.chosen is None:
        return ours
    chosen = ours.chosen - {"epochs", "samples", "batch_size", "block"}  # compared once the data is there
    found = [one for name in _PLACES if name in chosen and (one := _difference(_PLACES[name], ours, theirs))]
    if found:
        raise RunRefused(exists_otherwise(ours.run, SETTINGS, found))
    epochs = (ours.epochs if "epochs" in ours.chosen else theirs.data.epochs) or None
    outer_lr, outer_momentum = _outer(ours, theirs)
    return replace(
        ours,
        workers=theirs.workers,
        steps=theirs.steps if epochs is None else None,
        epochs=epochs,
        seed=theirs.seed,
        partitions=theirs.partitions,
        snapshot_every=theirs.snapshot_every,
        retain=theirs.retain,
        gone_after_ticks=theirs.gone_after_ticks,
        consistency=theirs.consistency,
        schedule=theirs.schedule,
        local=theirs.local,
        outer_lr=outer_lr,
        outer_momentum=outer_momentum,
    )


def _difference(place: tuple[str, str], ours: RunSettings, theirs: RunConfig) -> str:
    section, field = place
    here, there = (getattr(getattr(one, section) if section else one, field) for one in (ours, theirs))
    name = f"{section}.{field}" if section else field
    return "" if here == there else f"{name}: {here!r} here, {there!r} in the run"


def _outer(ours: RunSettings, theirs: RunConfig) -> tuple[float, float]:
    """Return learning rate and momentum of the outer rule: those of a run that has one, where nobody chose them."""
    chosen = ours.chosen or frozenset()
    numbers = theirs.rule.groups[0] if theirs.local.steps > 1 else {}
    lr = ours.outer_lr if "outer_lr" in chosen else numbers.get("lr", ours.outer_lr)
    momentum = ours.outer_momentum if "outer_momentum" in chosen else numbers.get("momentum", ours.outer_momentum)
    return lr, momentum

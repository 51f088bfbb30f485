"""What a script takes over from a run that exists: every setting that it did not choose itself."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from driftline.schemas.run_config import RunConfig

_PLACES = {
    "workers": ("", "workers"),
    "steps": ("", "steps"),
    "epochs": ("", "steps"),
    "seed": ("", "seed"),
    "partitions": ("", "partitions"),
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
    changes: dict[str, dict[str, Any]] = {"": {}, "consistency": {}, "schedule": {}, "local": {}}
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
        **changes[""],
    )

"""The table of all settings, made from their declarations."""

from collections.abc import Mapping, Sequence

from driftline.config.run_settings import RunSettings
from driftline.config.sections import KafkaSection, RoleSection, TaskSection, TrainSection
from driftline.schemas.run.setting import Key, keys_of

CONFIG_VARIABLE = "DRIFTLINE_CONFIG"
DEFAULT_FILE = "driftline.toml"
"""Of the working directory; read if it is there and no other file is named."""

PANELS = (
    "Run and task",
    "Size and length",
    "Consistency",
    "Learning rates",
    "Local work",
    "Recovery",
    "Processes",
    "Kafka",
    "Other options",
)
"""Topics, in the order of ``--help`` and of the docs."""

SECTIONS: Mapping[str, tuple[type, str]] = {
    "run": (RunSettings, "What a run is. Frozen when the run is made; members that join later need not repeat it."),
    "task": (TaskSection, "What the workers of a run train."),
    "train": (TrainSection, "What `driftline train` starts on this machine. Each start may give others."),
    "role": (RoleSection, "What one server, worker, evaluator or `driftline train` does. Each start may give others."),
    "kafka": (KafkaSection, "Which Kafka, for every command. Each process may give others."),
}
"""Section of a file → its settings, and what they are."""

_ALL = sorted(
    (key for section, (kind, _) in SECTIONS.items() for key in keys_of(kind, section)),
    key=lambda key: PANELS.index(key.panel),
)
KEYS: Sequence[Key] = tuple(key for key in _ALL if not key.setting.script)
SCRIPT: Sequence[Key] = tuple(key for key in _ALL if key.section == "run" and key.name != "name")
"""Settings of a run that a script may give."""

SCRIPT_ONLY: Sequence[Key] = tuple(key for key in SCRIPT if key.setting.script)
RUN: Sequence[Key] = tuple(key for key in SCRIPT if not key.setting.script)
"""Settings of a run, without its name."""


def keys_in(*sections: str) -> tuple[Key, ...]:
    """Return the settings of these sections of a file, in their order."""
    return tuple(key for key in KEYS if key.section in sections)


def key(path: str) -> Key:
    """Return a setting by section and name."""
    return next(one for one in KEYS if one.path == path)


RUN_NAME, TASK_NAME, TASK_SETTINGS = key("run.name"), key("task.name"), key("task.settings")
METRICS, PATIENCE = key("role.metrics"), key("role.patience")

"""Update rules whose results are the same to the bit on every machine, in numpy and compiled.

Entry points: `RULES` and `check_rule` here, `combine` (the weighted sum of deltas) and `engines.choose_engine`. One
family of rules a file (`sgd`, `adamw`, `adagrad`), each a subclass of `base.Rule`; `loops` and `compiled` hold the same
arithmetic for numba.

May import ``schemas`` and ``errors``. Never here: torch, records of a log, or which contributions a version uses.
"""

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from driftline.rules.adagrad import Adagrad
from driftline.rules.adamw import Adam, AdamW
from driftline.rules.base import FloatArray, Kernel, Rule, Setting, Settings, StepState
from driftline.rules.combine import combine
from driftline.rules.engines import Engine, choose_engine
from driftline.rules.sgd import Sgd
from driftline.schemas.run.config import RuleConfig

__all__ = [
    "MASTER",
    "RULES",
    "STEPS",
    "Engine",
    "FloatArray",
    "Kernel",
    "Rule",
    "Setting",
    "Settings",
    "StepState",
    "check_rule",
    "choose_engine",
    "combine",
    "tensor_names",
    "with_defaults",
]

MASTER = "master"
"""Name of the parameters themselves among the tensors of a shard."""
STEPS = "steps"
"""Name of the counted steps among them."""

RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in (Adam(), AdamW(), Adagrad(), Sgd())})
"""Every rule by name."""


def check_rule(config: RuleConfig) -> list[str]:
    """Check a rule's name and the settings of every group.

    Returns:
        Every problem found, one line each, with the path of the setting and the way out; empty when all is well.
    """
    rule = RULES.get(config.name)
    if rule is None:
        return [f"rule.name: {config.name!r} is no update rule; {_known(config.name, RULES)}"]
    problems = []
    for index, group in enumerate(config.groups):
        problems += [f"rule.groups[{index}].{problem}" for problem in _check_group(rule, group)]
    return problems


def with_defaults(config: RuleConfig) -> RuleConfig:
    """Spell out every setting, so that a run that is recorded keeps its numbers if a default ever changes.

    Args:
        config: a rule without problems (see `check_rule`).
    """
    rule = RULES[config.name]
    return RuleConfig(name=config.name, groups=tuple(rule.complete(group) for group in config.groups))


def tensor_names(config: RuleConfig) -> list[str]:
    """Name everything that snapshots of a shard hold, sorted: ``master``, the moments of the rule, and ``steps``."""
    rule = RULES[config.name]
    return sorted({MASTER, STEPS, *rule.moments([rule.complete(group) for group in config.groups])})


def _check_group(rule: Rule, group: Settings) -> list[str]:
    unknown = [
        f"{name}: unknown setting of {rule.name}; {_known(name, rule.settings)}"
        for name in group
        if name not in rule.settings
    ]
    wrong = [
        f"{name}: {problem}"
        for name, setting in rule.settings.items()
        if name in group and (problem := setting.problem(group[name]))
    ]
    return unknown + (wrong or rule.conflicts(rule.complete(group)))


def _known(name: str, names: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name.lower(), names, n=2)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{hint}known are {', '.join(names)}"

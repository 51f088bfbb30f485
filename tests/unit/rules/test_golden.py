"""The bits of every rule, as committed. They may change only together with a new name of the rule.

To write the file again, after a case was added: ``DRIFTLINE_REWRITE_GOLDEN=1 pytest tests/unit/rules/test_golden.py``,
then read the difference: a line that changes breaks the replay of every recorded run.
"""

import json
import os
from pathlib import Path

import pytest

from driftline.rules import Engine
from driftline.schemas.run.config import RuleConfig
from tests.support.shard_models import RULES_UNDER_TEST, Contribution, Model, cut, digest_of_story, numbers

GOLDEN = Path(__file__).parent / "golden" / "bits.json"
SEGMENTS = (("weight", 6, 0), ("bias", 3, 1))
CASES = {
    "sgd": RuleConfig(name="sgd", groups=({}, {"weight_decay": 0.1})),
    "sgd momentum": RuleConfig(name="sgd", groups=({"momentum": 0.9, "dampening": 0.25}, {"momentum": 0.5})),
    "sgd nesterov": RuleConfig(name="sgd", groups=({"momentum": 0.9, "nesterov": 1, "weight_decay": 0.01}, {})),
    "adam": RuleConfig(name="adam", groups=({}, {"beta1": 0.3, "beta2": 0.9, "weight_decay": 0.1})),
    "adamw": RuleConfig(name="adamw", groups=({}, {"beta1": 0.3, "beta2": 0.9, "weight_decay": 0.1, "eps": 0.125})),
    "adagrad": RuleConfig(
        name="adagrad", groups=({"lr_decay": 0.5}, {"initial_accumulator_value": 0.1, "weight_decay": 0.1})
    ),
}


def computed(case: str, engine: Engine | None = None) -> dict[str, str]:
    """Train nine numbers for three versions: two workers, one damped version, one absent gradient each."""
    model = Model(cut(SEGMENTS), CASES[case], numbers("masters", 9), engine)
    for version in (1, 2, 3):
        contributions = [
            Contribution(0.75, numbers(f"one {version}", 9), frozenset({"bias"} if version == 1 else ())),
            Contribution(0.25, numbers(f"two {version}", 9), frozenset({"weight"} if version == 2 else ())),
        ]
        model.apply(contributions, [0.1, 0.05], 0.5 if version == 2 else 1.0)
    return {name: values.astype("<f4").tobytes().hex(" ", 4) for name, values in model.tensors().items()}


def all_computed(engine: Engine | None = None) -> dict[str, object]:
    """Return everything that the file holds."""
    stories = {rule: digest_of_story(rule, engine=engine) for rule in RULES_UNDER_TEST}
    return {**{case: computed(case, engine) for case in CASES}, "digests of longer stories": stories}


def committed() -> object:
    """Return what the file holds."""
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_the_bits_are_those_committed() -> None:
    """Masters and moments after three versions; digests of a longer story with thousands of elements."""
    if os.environ.get("DRIFTLINE_REWRITE_GOLDEN") == "1":
        GOLDEN.write_text(json.dumps(all_computed(), indent=1) + "\n", encoding="utf-8")
        pytest.skip(f"wrote {GOLDEN.name}")
    assert all_computed() == committed()

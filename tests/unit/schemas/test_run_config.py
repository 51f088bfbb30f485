"""A run's settings have one spelling, and what is wrong with them is told all at once."""

import dataclasses
import json
from typing import Any

import pytest

from driftline.errors import ConfigError
from driftline.schemas.run.config import RuleConfig, RunConfig
from driftline.schemas.run.config_json import check, differences, run_config_from_json, run_config_to_json
from driftline.schemas.run.consistency import Consistency

CONFIG = RunConfig(
    name="digits",
    workers=2,
    steps=100,
    rule=RuleConfig(name="adamw", groups=({"lr": 1e-3, "beta1": 0.9}, {"lr": 1e-4, "beta1": 0.9})),
)


def test_round_trip() -> None:
    """Settings come back equal, and to the same bytes."""
    text = run_config_to_json(CONFIG)
    back = run_config_from_json(text)
    assert back == CONFIG
    assert run_config_to_json(back) == text
    assert differences(back, CONFIG) == []


def test_equal_settings_have_equal_bytes() -> None:
    """1 and 1.0 are one number, 0.0 and -0.0 too; keys have one order."""
    one = dataclasses.replace(
        CONFIG, tick_interval_s=1, rule=RuleConfig(name="sgd", groups=({"lr": 1, "momentum": 0},))
    )
    two = dataclasses.replace(
        CONFIG, tick_interval_s=1.0, rule=RuleConfig(name="sgd", groups=({"momentum": -0.0, "lr": 1.0},))
    )
    assert one == two
    assert run_config_to_json(one) == run_config_to_json(two)


def test_rule_numbers_come_back_as_floats() -> None:
    """Whatever JSON wrote, the rule gets floats."""
    raw = json.loads(run_config_to_json(CONFIG))
    raw["rule"]["groups"] = [{"lr": 1}]
    raw["tick_interval_s"] = 1
    config = run_config_from_json(json.dumps(raw))
    assert type(config.rule.groups[0]["lr"]) is float
    assert type(config.tick_interval_s) is float


def test_defaults_may_be_left_out() -> None:
    """Only what has no default is required."""
    raw = {"name": "a", "workers": 1, "steps": 1, "rule": {"name": "sgd", "groups": [{"lr": 0.1}]}}
    assert run_config_from_json(json.dumps(raw)).partitions == 4


def test_differences() -> None:
    """Each setting that differs is told with both values."""
    theirs = dataclasses.replace(CONFIG, steps=200, seed=1)
    assert differences(CONFIG, theirs) == ["seed: 0 here, 1 in the run", "steps: 100 here, 200 in the run"]


def test_differences_of_the_rule() -> None:
    """Number by number, because a group has many and mostly one of them differs."""
    groups = ({"lr": 0.1, "beta1": 0.9},)
    theirs = dataclasses.replace(CONFIG, rule=RuleConfig(name="adam", groups=groups))
    assert differences(CONFIG, theirs) == [
        "rule: 'adamw' here, 'adam' in the run",
        "rule.groups[0].lr: 0.001 here, 0.1 in the run",
        "rule.groups[1].lr: 0.0001 here, nothing in the run",
        "rule.groups[1].beta1: 0.9 here, nothing in the run",
    ]
    assert differences(theirs, CONFIG)[-1] == "rule.groups[1].beta1: nothing here, 0.9 in the run"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": "my run/1"}, "name: run name 'my run/1' is not usable"),
    ({"name": ""}, "name: run name '' is not usable"),
    ({"name": "a.b"}, "name: run name 'a.b' is not usable"),
    ({"name": 3}, "name: 3 is not a text"),
    ({"consistency": {"mode": "bsp"}}, "consistency.mode: 'bsp' is not one of sync, ssp, buffered, async"),
    ({"consistency": {"mode": ["sync"]}}, "consistency.mode: ['sync'] is not one of sync"),
    ({"consistency": "sync"}, "consistency: 'sync' is not an object of settings"),
    ({"consistency": {"stalenes": 1}}, "consistency.stalenes: unknown setting"),
    ({"consistency": {"mode": "buffered"}}, "consistency.buffer: mode buffered needs the number"),
    ({"consistency": {"weighting": "x"}}, "consistency.weighting: 'x' is not one of none, inverse, polynomial"),
    ({"consistency": {"exponent": "1"}}, "consistency.exponent: '1' is not a number from 0 to 100"),
    ({"schedule": {"warmup": -1}}, "schedule.warmup: -1 is not a whole number from 0 to 9007199254740992"),
    ({"schedule": {"decay": "step"}}, "schedule.decay: 'step' is not one of none, linear, cosine"),
    ({"steps": 0, "schedule": {"decay": "cosine"}}, "schedule.decay: 'cosine' falls to the last version"),
    ({"consistency": {"staleness": -1}}, "consistency.staleness: -1 is not a whole number from 0 to 1000000"),
    ({"consistency": {"staleness": 1}}, "consistency.staleness: 1 contradicts mode sync"),
    ({"consistency": {"staleness": 1.5}}, "consistency.staleness: 1.5 is not a whole number"),
    ({"consistency": {"staleness": None}}, "consistency.staleness: None is not a whole number"),
    ({"local": {"clip_norm": float("nan")}}, "local.clip_norm: nan is not a number from 0 to 1e+09"),
    ({"local": {"clip_norm": 10**400}}, "local.clip_norm: 1"),
    ({"local": {"steps": 0}}, "local.steps: 0 is not a whole number from 1"),
    ({"local": {"clock_s": -1}}, "local.clock_s: -1 is not a duration from 1ms to 300s"),
    ({"local": {"clock_s": 1e-9}}, "local.clock_s: 1e-09 s is shorter than 0.001 s"),
    ({"local": {"clock_s": "2s"}}, "local.clock_s: '2s' is not a duration"),
    ({"local": {"clock_s": float("inf")}}, "local.clock_s: inf is not a duration"),
    ({"local": {"clock_s": True}}, "local.clock_s: True is not a duration"),
    ({"workers": 0}, "workers: 0 is not a whole number from 1 to 10000"),
    ({"workers": True}, "workers: True is not a whole number"),
    ({"workers": "2"}, "workers: '2' is not a whole number"),
    ({"steps": -1}, "steps: -1 is not a whole number"),
    ({"seed": 2**63}, "seed: 9223372036854775808 is not a whole number"),
    ({"partitions": 1001}, "partitions: 1001 is not a whole number from 1 to 1000"),
    ({"max_unsettled": 0}, "max_unsettled: 0 is not a whole number"),
    ({"gone_after_ticks": 1}, "gone_after_ticks: 1 is not a whole number from 2"),
    ({"tick_interval_s": 0}, "tick_interval_s: 0 is not a number from 0.01 to 3600"),
    ({"tick_interval_s": True}, "tick_interval_s: True is not a number from 0.01 to 3600"),
    ({"tick_interval_s": float("nan")}, "tick_interval_s: nan is not a number from 0.01 to 3600"),
    ({"tick_interval_s": "1"}, "tick_interval_s: '1' is not a number from 0.01 to 3600"),
    ({"rule": None}, "rule: None is not an object of settings"),
    ({"rule": {"name": "sgd"}}, "rule.groups: missing"),
    ({"rule": {"name": "sgd", "groups": {}}}, "rule.groups: {} is not a list of parameter groups"),
    ({"rule": {"name": "sgd", "groups": [{}], "x": 1}}, "rule.x: unknown setting"),
    ({"rule": {"name": "sgd", "groups": []}}, "rule.groups: empty; at least one parameter group is needed"),
    ({"rule": {"name": "sgd", "groups": [3]}}, "rule.groups[0]: 3 is not an object of names and numbers"),
    ({"rule": {"name": "", "groups": [{}]}}, "rule.name: '' is not a non-empty text"),
    ({"rule": {"name": 1, "groups": [{}]}}, "rule.name: 1 is not a non-empty text"),
    ({"rule": {"name": "sgd", "groups": [{}, {"lr": "1e-3"}]}}, "rule.groups[1].lr: '1e-3' is not a finite number"),
    ({"rule": {"name": "sgd", "groups": [{"lr": True}]}}, "rule.groups[0].lr: True is not a finite number"),
    ({"rule": {"name": "sgd", "groups": [{"lr": None}]}}, "rule.groups[0].lr: None is not a finite number"),
    ({"rule": {"name": "sgd", "groups": [{"lr": float("inf")}]}}, "rule.groups[0].lr: inf is not a finite number"),
    ({"rule": {"name": "sgd", "groups": [{"lr": float("nan")}]}}, "rule.groups[0].lr: nan is not a finite number"),
    ({"rule": {"name": "sgd", "groups": [{"lr": 10**400}]}}, "rule.groups[0].lr: 1"),
    ({"rule": {"name": "sgd", "groups": [{"lr": [1]}]}}, "rule.groups[0].lr: [1] is not a finite number"),
    ({"step": 3}, "step: unknown setting"),
]


@pytest.mark.parametrize(("change", "problem"), WRONG, ids=[problem for _, problem in WRONG])
def test_wrong_settings(change: dict[str, Any], problem: str) -> None:
    """The problem names the setting, the value and the valid range; there is no other problem."""
    raw = {**json.loads(run_config_to_json(CONFIG)), **change}
    with pytest.raises(ConfigError) as refused:
        run_config_from_json(json.dumps(raw))
    assert len(refused.value.problems) == 1
    assert refused.value.problems[0].startswith(problem)


def test_all_problems_at_once() -> None:
    """All mistakes come in one error."""
    rule = RuleConfig(name="", groups=({"lr": float("nan")},))
    with pytest.raises(ConfigError) as refused:
        check(dataclasses.replace(CONFIG, workers=0, steps=-1, consistency=Consistency(mode="x"), rule=rule))
    assert len(refused.value.problems) == 5


def test_missing_settings() -> None:
    """What has no default is asked for by name."""
    with pytest.raises(ConfigError) as refused:
        run_config_from_json("{}")
    assert set(refused.value.problems) == {"name: missing", "workers: missing", "steps: missing", "rule: missing"}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"a":1,"a":2}'])
def test_no_json(text: str) -> None:
    """Whatever stands in a proposal, the answer is a ConfigError."""
    with pytest.raises(ConfigError, match="the run's configuration is"):
        run_config_from_json(text)

"""The rules are those of torch.optim: after many steps, in several groups, to a relative tolerance of 1e-5."""

import inspect
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from driftline.rules import RULES, FloatArray, check_rule, with_defaults
from driftline.schemas.run.config import RuleConfig
from driftline.training.task.parts import _without_compiler
from tests.support.shard_models import Contribution, Model, cut, numbers

ROOT = Path(__file__).parents[3]
SEGMENTS = (("first", 7, 0), ("second", 5, 1), ("third", 4, 0))
ELEMENTS = 16
STEPS = 25
TORCH: dict[str, type[torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adagrad": torch.optim.Adagrad,
}
WHOLE = ("initial_accumulator_value",)
"""What torch takes from an optimizer's own arguments, whatever its groups say."""


def torch_group(group: Mapping[str, float]) -> dict[str, Any]:
    """Write a parameter group in the words of torch.optim."""
    words: dict[str, Any] = {name: value for name, value in group.items() if not name.startswith("beta")}
    if "beta1" in group:
        words["betas"] = (group["beta1"], group["beta2"])
    if "nesterov" in group:
        words["nesterov"] = bool(group["nesterov"])
    return words


def by_torch(rule: RuleConfig, masters: FloatArray, story: Sequence[tuple[FloatArray, str, list[float]]]) -> FloatArray:
    """Train with torch.optim; each step has a gradient, the name of a segment without one, learning rates."""
    layout = cut(SEGMENTS)
    parameters = [
        torch.nn.Parameter(torch.tensor(masters[segment.offset : segment.stop])) for segment in layout.segments
    ]
    groups = [
        {"params": [p for p, s in zip(parameters, layout.segments, strict=True) if s.group == index], **torch_group(g)}
        for index, g in enumerate(rule.groups)
    ]
    options = {"foreach": False, **{word: rule.groups[0][word] for word in WHOLE if word in rule.groups[0]}}
    with _without_compiler():
        optimizer = TORCH[rule.name](groups, **options)  # type: ignore[arg-type]
    # Without what torch wraps around a step: it imports torch's compiler, which takes longer than all tests of rules.
    step = torch.no_grad()(inspect.unwrap(type(optimizer).step))
    for gradient, absent, learning_rates in story:
        for parameter, segment in zip(parameters, layout.segments, strict=True):
            gone = segment.name == absent
            parameter.grad = None if gone else torch.tensor(gradient[segment.offset : segment.stop])
        for param_group, lr in zip(optimizer.param_groups, learning_rates, strict=True):
            param_group["lr"] = lr
        step(optimizer)
    return np.concatenate([parameter.detach().numpy() for parameter in parameters])


rates = st.floats(1e-5, 0.1)
decays = st.sampled_from([0.0, 1e-4, 0.1])
adam_groups = st.fixed_dictionaries(
    {
        "lr": rates,
        "beta1": st.floats(0.0, 0.99),
        "beta2": st.floats(0.5, 0.9999),
        "eps": st.sampled_from([1e-8, 1e-3, 0.0]),
        "weight_decay": decays,
    }
)
plain_groups = st.fixed_dictionaries(
    {
        "lr": rates,
        "momentum": st.sampled_from([0.0, 0.5, 0.95]),
        "dampening": st.floats(0.0, 1.0),
        "weight_decay": decays,
    }
)
nesterov_groups = st.fixed_dictionaries(
    {"lr": rates, "momentum": st.floats(0.1, 0.99), "nesterov": st.just(1.0), "weight_decay": decays}
)
adagrad_groups = st.fixed_dictionaries(
    {"lr": rates, "lr_decay": decays, "eps": st.sampled_from([1e-10, 1e-3]), "weight_decay": decays}
)
GROUPS = {"sgd": plain_groups | nesterov_groups, "adam": adam_groups, "adamw": adam_groups, "adagrad": adagrad_groups}


@pytest.mark.parametrize("name", RULES)
@given(data=st.data(), seed=st.integers(0, 1000))
@settings(max_examples=6, deadline=None, derandomize=True)
def test_rules_follow_torch_optim(name: str, data: st.DataObject, seed: int) -> None:
    """25 steps of two groups, learning rates that change, now and then a segment without a gradient."""
    groups = [data.draw(GROUPS[name]) for _ in range(2)]
    if name == "adagrad":  # in torch one number of all groups
        start = data.draw(st.sampled_from([0.0, 0.25]))
        groups = [{**group, "initial_accumulator_value": start} for group in groups]
    compare_with_torch(RuleConfig(name=name, groups=tuple(groups)), seed)


def compare_with_torch(rule: RuleConfig, seed: int) -> None:
    """Train both and compare the parameters."""
    assert check_rule(rule) == []
    masters = numbers(f"masters {seed}", ELEMENTS)
    story = []
    for step in range(STEPS):
        raw = numbers(f"gradient {seed} {step}", ELEMENTS)
        gradient = np.where(raw < 0, raw - np.float32(0.5), raw + np.float32(0.5)).astype(np.float32)
        absent = ("first", "second", "third", "", "")[(seed + step) % 5]
        story.append((gradient, absent, [group["lr"] / (1 + step) for group in rule.groups]))
    model = Model(cut(SEGMENTS, 3), rule, masters)
    for gradient, absent, learning_rates in story:
        model.apply([Contribution(1.0, gradient, frozenset({absent}))], learning_rates)
    expected = by_torch(rule, masters, story)
    np.testing.assert_allclose(model.tensors()["master"], expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", RULES)
def test_defaults_are_those_of_torch_optim(name: str) -> None:
    """A script that leaves a setting out means torch's default."""
    (group,) = with_defaults(RuleConfig(name=name, groups=({},))).groups
    with _without_compiler():
        theirs = TORCH[name]([torch.nn.Parameter(torch.zeros(1))]).defaults  # type: ignore[call-arg]
    assert torch_group(group) == {word: theirs[word] for word in torch_group(group)}


def test_torch_agrees_as_closely_on_its_slowest_path() -> None:
    """The tolerance is no accident of this CPU: ATEN_CPU_CAPABILITY=default takes torch's vector units away."""
    code = """
import torch
from tests.unit.rules.test_torch import RULES, compare_with_torch, with_defaults, RuleConfig
assert torch.backends.cpu.get_cpu_capability() == "DEFAULT", torch.backends.cpu.get_cpu_capability()
for name in RULES:
    compare_with_torch(with_defaults(RuleConfig(name=name, groups=({"weight_decay": 0.1}, {}))), 1)
"""
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": "default"}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "src")))
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)

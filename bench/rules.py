"""How fast the update rules are, and next to torch.optim on the same numbers and one thread.

``python -m bench.rules`` prints one JSON object. Speeds are GB of master weights a second (one contribution, checks
included), ratios the time of torch over ours: 1 is as fast as torch, 2 is twice as fast. With numba installed, or with
another Python that has it, the compiled rules are measured beside.
"""

import importlib.util
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from bench.conditions import conditions
from driftline.consumers.server.shard import Shard
from driftline.rules import Engine, FloatArray, choose_engine
from driftline.schemas.model.layout import MAX_SHARD_ELEMENTS, Layout, Segment
from driftline.schemas.run.config import RuleConfig

SHARDS = 8
ELEMENTS = MAX_SHARD_ELEMENTS * SHARDS
RULES = {
    "adamw": RuleConfig(name="adamw", groups=({},)),
    "momentum": RuleConfig(name="sgd", groups=({"momentum": 0.9},)),
    "adagrad": RuleConfig(name="adagrad", groups=({},)),
}
FORMS = {"": {"foreach": False}, "_foreach": {"foreach": True}, "_fused": {"fused": True}}
"""Ways in which torch computes AdamW; the first one is the plain loop over tensors and operations."""

Step = Callable[[], object]


def rule_speed(rounds: int = 40) -> dict[str, float]:
    """Measure the rules on eight full shards, in turns with torch, so that other work on the machine meets all alike.

    Returns:
        ``rule_<name>_gbps``, ``rule_torch<form>_gbps``, and ``rule_over_torch<form>`` of AdamW; the same with
        ``rule_numba`` where numba is installed.
    """
    rng = np.random.default_rng(0)
    masters, gradient = (rng.standard_normal(ELEMENTS).astype(np.float32) for _ in range(2))
    steps: dict[str, list[Step]] = {}
    for prefix, engine in _engines().items():
        steps |= {f"{prefix}_{name}": _ours(rule, engine, masters, gradient) for name, rule in RULES.items()}
    steps |= {f"rule_torch{form}": _torch(masters, gradient, **words) for form, words in FORMS.items()}
    with _one_thread():
        least_s = _least(steps, rounds)
    found = {f"{name}_gbps": ELEMENTS * 4 / 1e9 / seconds for name, seconds in least_s.items()}
    for prefix in _engines():
        for form in FORMS:
            found[f"{prefix}_over_torch{form}"] = least_s[f"rule_torch{form}"] / least_s[f"{prefix}_adamw"]
    return found


def _engines() -> dict[str, Engine]:
    engines = {"rule": choose_engine("numpy")}
    if importlib.util.find_spec("numba") is not None:
        engines["rule_numba"] = choose_engine("numba")
    return engines


def _ours(rule: RuleConfig, engine: Engine, masters: FloatArray, gradient: FloatArray) -> list[Step]:
    layout = Layout((Segment("w", (), (ELEMENTS,), "float32", "parameter", 0, 0),), SHARDS)

    def of_shard(index: int) -> Step:
        cut = slice(*layout.shard_range(index))
        shard, part = Shard(layout, rule, index, masters[cut], engine), gradient[cut]
        return lambda: shard.apply(shard.version + 1, [(np.float32(1.0), part, [True])], [1e-3], 1.0)

    return [of_shard(index) for index in range(SHARDS)]


def _torch(masters: FloatArray, gradient: FloatArray, **form: bool) -> list[Step]:
    steps: list[Step] = []
    for values, slope in zip(np.split(masters, SHARDS), np.split(gradient, SHARDS), strict=True):
        parameter = torch.nn.Parameter(torch.tensor(values))
        parameter.grad = torch.tensor(slope)
        steps.append(torch.optim.AdamW([parameter], lr=1e-3, **form).step)  # type: ignore[arg-type]
    return steps


def _least(steps: dict[str, list[Step]], rounds: int) -> dict[str, float]:
    """Return, a name, the sum over its steps of the least time that each took; the first round allocates."""
    least = {name: [float("inf")] * len(parts) for name, parts in steps.items()}
    for round_ in range(rounds + 1):
        for name, parts in steps.items():
            for place, step in enumerate(parts):
                begin = time.perf_counter()
                step()
                took = time.perf_counter() - begin
                if round_:
                    least[name][place] = min(least[name][place], took)
    return {name: sum(times) for name, times in least.items()}


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    print(json.dumps({**rule_speed(), "conditions": conditions({})}, indent=1))

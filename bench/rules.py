"""How fast the update rules are, and next to torch.optim on the same numbers and one thread.

``python -m bench.rules`` prints one JSON object: milliseconds per MiB of master weights, the least of several versions.
"""

import json
import platform
import time
from collections.abc import Callable

import numpy as np
import torch

from driftline.consumers.rules import FloatArray
from driftline.consumers.shard import BLOCK, Shard
from driftline.schemas.layout import MAX_SHARD_ELEMENTS, Layout, Segment
from driftline.schemas.run_config import RuleConfig

SHARDS = 8
MIB = MAX_SHARD_ELEMENTS * SHARDS * 4 / 2**20


def measure(repeats: int = 15) -> dict[str, float | int | str]:
    """Measure AdamW and SGD with momentum on eight full shards, one contribution a version.

    Returns:
        Flat keys, one number each, with the conditions beside them.
    """
    rng = np.random.default_rng(0)
    masters, gradient = (rng.standard_normal(MAX_SHARD_ELEMENTS * SHARDS).astype(np.float32) for _ in range(2))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found: dict[str, float | int | str] = {
            "rules_adamw_ms_per_mib": _of_shards(RuleConfig(name="adamw", groups=({},)), masters, gradient, repeats),
            "rules_momentum_ms_per_mib": _of_shards(
                RuleConfig(name="sgd", groups=({"momentum": 0.9},)), masters, gradient, repeats
            ),
            "rules_torch_adamw_plain_ms_per_mib": _of_torch(masters, gradient, repeats, foreach=False),
            "rules_torch_adamw_foreach_ms_per_mib": _of_torch(masters, gradient, repeats, foreach=True),
            "rules_torch_adamw_fused_ms_per_mib": _of_torch(masters, gradient, repeats, fused=True),
        }
    finally:
        torch.set_num_threads(threads)
    return {**found, **_conditions(repeats)}


def _conditions(repeats: int) -> dict[str, float | int | str]:
    return {
        "rules_mib": MIB,
        "rules_block_elements": BLOCK,
        "rules_repeats": repeats,
        "rules_threads": 1,
        "rules_machine": platform.machine(),
        "rules_numpy": np.__version__,
        "rules_torch": torch.__version__,
    }


def _of_shards(rule: RuleConfig, masters: FloatArray, gradient: FloatArray, repeats: int) -> float:
    layout = Layout((Segment("w", (), (masters.size,), "float32", "parameter", 0, 0),), SHARDS)
    ranges = [slice(*layout.shard_range(index)) for index in range(layout.shard_count)]
    shards = [Shard(layout, rule, index, masters[cut]) for index, cut in enumerate(ranges)]

    def step() -> None:
        for shard, cut in zip(shards, ranges, strict=True):
            shard.apply(shard.version + 1, [(np.float32(1.0), gradient[cut], [True])], [1e-3], 1.0)

    return _least(step, repeats)


def _of_torch(masters: FloatArray, gradient: FloatArray, repeats: int, **form: bool) -> float:
    parameter = torch.nn.Parameter(torch.tensor(masters))
    parameter.grad = torch.tensor(gradient)
    optimizer = torch.optim.AdamW([parameter], lr=1e-3, **form)  # type: ignore[arg-type]
    return _least(optimizer.step, repeats)


def _least(step: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats + 1):  # the first one allocates
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return round(min(times[1:]) * 1e3 / MIB, 4)


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))

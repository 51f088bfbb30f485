"""Gradients a second that one server takes in from 1 to 4 workers, of a model of 4.2 MB in async mode.

Workers compute nothing: they send the same gradient again as soon as the rule lets them, each from a process of its
own. What counts is what the ledger has settled, between a warm-up and the end.
"""

import time

from bench.following import folded
from bench.roles import Job, server_and_workers
from driftline.schemas.run.config import RuleConfig, RunConfig
from driftline.schemas.run.consistency import Consistency

ELEMENTS = 1_050_000
WARM_UP = 20
MOST_WORKERS = 4


def gradients_per_s(bootstrap_servers: str, *, versions: int) -> dict[str, float]:
    """Return ``gradients_per_s_<workers>`` for 1 to 4 workers."""
    return {
        f"gradients_per_s_{workers}": _measure(bootstrap_servers, workers, versions)
        for workers in range(1, MOST_WORKERS + 1)
    }


def _measure(bootstrap_servers: str, workers: int, versions: int) -> float:
    config = RunConfig(
        name=f"bench-throughput-{workers}",
        workers=workers,
        steps=WARM_UP + versions,
        partitions=4,
        rule=RuleConfig(name="sgd", groups=({"lr": 1e-3},)),
        consistency=Consistency(mode="async", buffer=1, weighting="inverse"),
    )
    began_s, before, settled = 0.0, 0, 0
    with server_and_workers(Job(bootstrap_servers, config, ELEMENTS)):
        for state in folded(bootstrap_servers, config.name):
            settled = state.totals.contributions.total()
            if state.version <= WARM_UP:
                began_s, before = time.monotonic(), settled
            elif state.version == config.steps:
                break
    return (settled - before) / (time.monotonic() - began_s)

"""What a server holds in memory, over what it cannot do without: masters, moments, and deltas that are not yet applied.

25 million parameters of AdamW, so 300 MB of state, and the deltas of one clock a worker. Resident memory is the highest
that the process ever had, all of it; what it had before it owned anything is given beside it.
"""

import time
from pathlib import Path

from bench.following import folded
from bench.roles import Job, server_alone, workers_of
from driftline.schemas.run.config import RuleConfig, RunConfig

ELEMENTS = 25_000_000
MEGABYTE = 1e6
TENSORS = 3
"""Master weights and AdamW's two moments."""

WORKERS = (1, 4)

CALM_LOOKS = 6
"""Looks, half a second apart, at which a server must not have grown: on a busy machine it pauses while it comes up."""


def server_memory(bootstrap_servers: str, *, versions: int) -> dict[str, float]:
    """Return ``server_memory_ratio_<workers>`` and its parts in MB; the name without a number is the worst of them."""
    found: dict[str, float] = {}
    for workers in WORKERS:
        found |= _measure(bootstrap_servers, workers, versions)
    return found | {"server_memory_ratio": max(found[f"server_memory_ratio_{workers}"] for workers in WORKERS)}


def _measure(bootstrap_servers: str, workers: int, versions: int) -> dict[str, float]:
    config = RunConfig(
        name=f"bench-memory-{workers}",
        workers=workers,
        steps=versions,
        partitions=4,
        rule=RuleConfig(name="adamw", groups=({"lr": 1e-3},)),
        gone_after_ticks=400,  # a worker that encodes 100 MB on a busy machine is not gone
    )
    job, resident_mb = Job(bootstrap_servers, config, ELEMENTS), 0.0
    with server_alone(job) as server:
        idle_mb = _idle_mb(server.pid or 0)  # without workers there is no run, and nothing that it could own
        with workers_of(job):
            for state in folded(bootstrap_servers, config.name):
                resident_mb = _highest_mb(server.pid or 0)
                if state.version == versions:
                    break
    tensor_mb = 4 * ELEMENTS / MEGABYTE
    needed_mb = (TENSORS + workers) * tensor_mb
    return {
        f"server_memory_ratio_{workers}": resident_mb / needed_mb,
        f"server_memory_{workers}_resident_mb": resident_mb,
        f"server_memory_{workers}_idle_mb": idle_mb,
        f"server_memory_{workers}_masters_mb": tensor_mb,
        f"server_memory_{workers}_moments_mb": (TENSORS - 1) * tensor_mb,
        f"server_memory_{workers}_pending_mb": workers * tensor_mb,
    }


def _idle_mb(pid: int) -> float:
    """Wait until the process has come up and grows no more; return what it holds then."""
    last_mb, calm, deadline_s = 0.0, 0, time.monotonic() + 60.0
    while calm < CALM_LOOKS and time.monotonic() < deadline_s:
        time.sleep(0.5)
        now_mb = _highest_mb(pid)
        calm = calm + 1 if now_mb == last_mb else 0
        last_mb = now_mb
    return last_mb


def _highest_mb(pid: int) -> float:
    """Return the most that a process has had resident, in MB. Linux only."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / MEGABYTE
    raise RuntimeError(f"the kernel does not tell the memory of process {pid}")

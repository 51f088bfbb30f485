"""Measure, and write ``bench/latest.json``: flat keys, one number each, with the conditions beside them.

A shared machine is noisy: compare ratios of one run, not absolute numbers of two.
"""

import argparse
import json
import tempfile
from pathlib import Path

from bench.broker_ready import broker_ready
from bench.conditions import conditions
from bench.coordinator import coordinator_speed
from bench.help_time import help_seconds
from bench.memory import server_memory
from bench.overhead import header_overhead
from bench.path import path_ratio
from bench.recovery import recovery
from bench.rules import rule_speed
from bench.throughput import gradients_per_s
from bench.verify import verify_over_raw
from driftline.broker.embedded import EmbeddedBroker

SHARDS = (1, 4, 16)
LATEST = Path(__file__).parent / "latest.json"


def main() -> None:
    """Run every benchmark and write the results."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="counted rounds of the path, each side (default 60)")
    parser.add_argument("--starts", type=int, default=5, help="counted starts of the broker (default 5)")
    parser.add_argument("--proofs", type=int, default=8, help="counted verifications, each side (default 8)")
    parser.add_argument("--kills", type=int, default=10, help="kills of each kind (default 10)")
    arguments = parser.parse_args()
    results: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="driftline-bench-") as folder:
        print(f"starting the embedded Kafka {arguments.starts} times …", flush=True)
        results |= broker_ready(Path(folder) / "ready", arguments.starts)
        with EmbeddedBroker(Path(folder) / "path") as broker:
            for shards in SHARDS:
                print(f"{shards} full shards through the log and back, {arguments.rounds} rounds a side …", flush=True)
                results |= path_ratio(broker.bootstrap_servers, shards=shards, rounds=arguments.rounds)
            # Of the largest model; the others are told with their numbers of shards.
            results |= {f"freshness_ratio_{p}": results[f"freshness_ratio_{SHARDS[-1]}_{p}"] for p in ("p50", "p99")}
            print("gradients a second of 1 to 4 workers …", flush=True)
            results |= gradients_per_s(broker.bootstrap_servers, versions=arguments.rounds)
            print("what of an update is not tensor …", flush=True)
            results |= header_overhead(broker.bootstrap_servers, versions=arguments.rounds)
            print("memory of a server with 25 million parameters …", flush=True)
            results |= server_memory(broker.bootstrap_servers, versions=5)
            print(f"a run of 30 versions verified, {arguments.proofs} times a side …", flush=True)
            results |= verify_over_raw(broker.bootstrap_servers, shards=4, versions=30, rounds=arguments.proofs)
        print(f"servers, workers and leaders are killed, {arguments.kills} times each …", flush=True)
        results |= recovery(Path(folder) / "recovery", kills=arguments.kills)
    print("update rules, in turns with torch.optim on one thread …", flush=True)
    results |= rule_speed()
    print("coordinators over 4 and 256 workers, the pure core alone …", flush=True)
    results |= coordinator_speed()
    results |= help_seconds()
    document = {**results, "conditions": conditions(vars(arguments))}
    LATEST.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    for name, value in results.items():
        print(f"{name:32} {value:.4g}")
    print(f"written to {LATEST.relative_to(Path.cwd()) if LATEST.is_relative_to(Path.cwd()) else LATEST}")


if __name__ == "__main__":
    main()

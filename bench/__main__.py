"""Measure, and write ``bench/latest.json``: flat keys, one number each, with the conditions beside them.

A shared machine is noisy: compare ratios of one run, not absolute numbers of two.
"""

import argparse
import json
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.broker_ready import broker_ready
from bench.conditions import conditions
from bench.coordinator import coordinator_speed
from bench.help_time import help_seconds
from bench.memory import server_memory
from bench.overhead import header_overhead
from bench.path import path_ratio
from bench.recovery import MEASURES, recovery
from bench.rules import rule_speed
from bench.throughput import gradients_per_s
from bench.verify import verify_over_raw
from driftline.broker.embedded import EmbeddedBroker

SHARDS = (1, 4, 16)
LATEST = Path(__file__).parent / "latest.json"

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Needs:
    """What parts take: the arguments, an empty folder, and a Kafka, which starts when the first one asks for it."""

    arguments: Namespace
    folder: Path
    kafka: Callable[[], str]


def _path(needs: Needs) -> Figures:
    found: Figures = {}
    for shards in SHARDS:
        found |= path_ratio(needs.kafka(), shards=shards, rounds=needs.arguments.rounds)
    # Of the largest model; the other results have their numbers of shards in their names.
    return found | {f"freshness_ratio_{p}": found[f"freshness_ratio_{SHARDS[-1]}_{p}"] for p in ("p50", "p99")}


def _recovery(needs: Needs, measure: str) -> Figures:
    return recovery(needs.folder / measure, measure, kills=needs.arguments.kills)


@dataclass(frozen=True, slots=True)
class Part:
    """One benchmark, and its progress line."""

    words: str
    measure: Callable[[Needs], Figures]


PARTS = {
    "ready": Part(
        "the embedded Kafka starts {starts} times",
        lambda needs: broker_ready(needs.folder / "ready", needs.arguments.starts),
    ),
    "path": Part(
        f"{', '.join(map(str, SHARDS))} full shards through the log and back, {{rounds}} rounds a side",
        _path,
    ),
    "throughput": Part(
        "gradients a second of 1 to 4 workers",
        lambda needs: gradients_per_s(needs.kafka(), versions=needs.arguments.rounds),
    ),
    "overhead": Part(
        "what of an update is not tensor",
        lambda needs: header_overhead(needs.kafka(), versions=needs.arguments.rounds),
    ),
    "memory": Part(
        "memory of a server with 25 million parameters",
        lambda needs: server_memory(needs.kafka(), versions=5),
    ),
    "verify": Part(
        "a run of 30 versions verified, {proofs} times a side",
        lambda needs: verify_over_raw(needs.kafka(), shards=4, versions=30, rounds=needs.arguments.proofs),
    ),
    **{
        f"recovery-{measure}": Part(words, partial(_recovery, measure=measure))
        for measure, (words, _) in MEASURES.items()
    },
    "rules": Part("update rules, in turns with torch.optim on one thread", lambda _: rule_speed()),
    "coordinator": Part("coordinators over 4 and 256 workers, the pure core alone", lambda _: coordinator_speed()),
    "help": Part("how long --help takes", lambda _: help_seconds()),
}


def main() -> int:
    """Run the benchmarks, each written down as soon as it is done; return the exit code: 1 if one did not work."""
    arguments = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="driftline-bench-") as folder, ExitStack() as stack:
        kafka: list[str] = []

        def start_kafka() -> str:
            if not kafka:
                kafka.append(stack.enter_context(EmbeddedBroker(Path(folder) / "kafka")).bootstrap_servers)
            return kafka[0]

        needs = Needs(arguments, Path(folder), start_kafka)
        failed = [name for name in arguments.only or PARTS if not _measured(name, needs)]
    _say([f"written to {LATEST}", *(f"failed: {name}" for name in failed)])
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="counted rounds of the path, each side (default 60)")
    parser.add_argument("--starts", type=int, default=5, help="counted starts of the broker (default 5)")
    parser.add_argument("--proofs", type=int, default=8, help="counted verifications, each side (default 8)")
    parser.add_argument("--kills", type=int, default=10, help="kills of each kind (default 10)")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, metavar="PART", help=f"{', '.join(PARTS)}; other parts keep their results"
    )
    return parser


def _measured(name: str, needs: Needs) -> bool:
    """Run one part and write down what it found; say why if it could not, and let the others go on."""
    _say([f"{name}: {PARTS[name].words.format(**vars(needs.arguments))} …"])
    around, began_s = conditions(vars(needs.arguments)), time.monotonic()
    try:
        found = PARTS[name].measure(needs)
    except Exception as error:  # noqa: BLE001 - a failure must not lose hours of other results
        _say([f"{name} did not work: {type(error).__name__}: {error}"])
        return False
    _write(name, found, {**around, "seconds": round(time.monotonic() - began_s, 1)})
    _say(f"  {key:32} {value:.4g}" for key, value in found.items())
    return True


def _write(name: str, found: Figures, around: dict[str, object]) -> None:
    """Put results into the file, beside those of other parts."""
    document: dict[str, Any] = json.loads(LATEST.read_text()) if LATEST.exists() else {}
    document |= found
    document["conditions"] = {**document.get("conditions", {}), name: around}
    LATEST.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())

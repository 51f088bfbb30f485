"""What was measured of one update, as a file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PROCESSES = ("worker", "server", "broker")
RESULTS = Path(__file__).with_name("results.json")


@dataclass(frozen=True, slots=True)
class Results:
    """Of updates of one worker and one server.

    Attributes:
        conditions: machine, versions, commit, load.
        shards: full shards of the model.
        updates: how many were measured.
        update_ms: the median of one, as the worker sees it.
        raw_ms: the median of the same bytes over two raw hops, in turns with them.
        computing_ms: worker, server, broker: milliseconds of computing for each update, by kind.
        log_ms: kind of record: when those of an update were in the log, in milliseconds after its first delta.
    """

    conditions: Mapping[str, Any]
    shards: int
    updates: int
    update_ms: float
    raw_ms: float
    computing_ms: Mapping[str, Mapping[str, float]]
    log_ms: Mapping[str, Sequence[float]]


def load(path: Path = RESULTS) -> Results:
    """Read results."""
    return Results(**json.loads(path.read_text(encoding="utf-8")))


def save(results: Results, path: Path = RESULTS) -> None:
    """Write results, rounded to what they are worth."""
    document = json.loads(json.dumps(asdict(results)), parse_float=lambda text: round(float(text), 2))
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")

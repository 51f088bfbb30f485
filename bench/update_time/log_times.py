"""When the records of an update came into the log, by the broker's clock."""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.port import Record, Start
from driftline.broker.reading import until_end
from driftline.broker.topics import Stream, topic_name
from driftline.schemas.codec import decode
from driftline.schemas.records import Contribution, Delta, Parameters, Receipt, Version

STREAMS = (Stream.DELTAS, Stream.EVENTS, Stream.LEDGER, Stream.PARAMETERS)


def log_times(bootstrap_servers: str, run: str, partitions: int, versions: range) -> Mapping[str, Sequence[float]]:
    """Return by kind of record when the records of an update were appended: milliseconds after its first delta.

    The first number is the median over updates of the first record of that kind, and so on.

    Args:
        bootstrap_servers: of the Kafka.
        run: with one worker, whose clock is the version that it makes.
        partitions: of the run.
        versions: the updates that count.
    """
    times: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for record in _records(bootstrap_servers, run, partitions):
        decoded = decode(record.value)
        match decoded:
            case Delta() | Contribution() | Receipt():
                version = decoded.clock
            case Version() | Parameters():
                version = decoded.version
            case _:
                continue
        if version in versions:
            times[version][type(decoded).__name__].append(record.timestamp_ms)
    return _medians(list(times.values()))


def _medians(updates: Sequence[Mapping[str, Sequence[int]]]) -> Mapping[str, Sequence[float]]:
    found: dict[str, list[list[int]]] = defaultdict(list)
    for update in updates:
        begin_ms = min(update["Delta"])
        for kind, times in update.items():
            found[kind].append(sorted(time - begin_ms for time in times))
    return {
        kind: [float(statistics.median(column)) for column in zip(*rows, strict=False)] for kind, rows in found.items()
    }


def _records(bootstrap_servers: str, run: str, partitions: int) -> Iterator[Record]:
    """Go through all records of a run, up to where its topics end."""
    broker = KafkaBroker(KafkaSettings(bootstrap_servers))
    for stream in STREAMS:
        for partition in range(partitions if stream in {Stream.DELTAS, Stream.PARAMETERS} else 1):
            yield from until_end(broker, topic_name(run, stream), partition, Start.BEGINNING)

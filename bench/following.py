"""What a reader of the ledger sees of a run in progress, for benchmarks."""

import time
from collections.abc import Iterator

from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.port import Record, Start
from driftline.broker.topics import Stream, topic_name
from driftline.ledger.run_state import RunState

WAIT_S = 300.0


def folded(bootstrap_servers: str, run: str) -> Iterator[RunState]:
    """Yield the fold of a run's ledger after every record, as they come, until the run ends.

    Raises:
        TimeoutError: no record for `WAIT_S`.
    """
    state = RunState()
    reader = KafkaBroker(KafkaSettings(bootstrap_servers)).reader()
    try:
        reader.read(topic_name(run, Stream.LEDGER), 0, Start.BEGINNING)
        deadline_s = time.monotonic() + WAIT_S
        while state.ended is None:
            found = reader.poll(0.5)
            if isinstance(found, Record):
                state.read(found.offset, found.value)
                deadline_s = time.monotonic() + WAIT_S
                yield state
            elif time.monotonic() > deadline_s:
                raise TimeoutError(f"run {run!r} wrote nothing to its ledger for {WAIT_S:.0f} s")
    finally:
        reader.close()

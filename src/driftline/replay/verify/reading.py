"""Reads a run to its present end for a `Verifier`: partitions side by side, no consumer group, nothing written."""

import dataclasses
import os
import platform
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from functools import partial

import numpy as np

from driftline import __version__
from driftline.broker.port import Bounds, Broker, Reader, Start
from driftline.broker.reading import READ_TIMEOUT_S, SAY_EVERY_S, reading, records
from driftline.broker.topics import Stream, topic_name
from driftline.errors import TopicMissing
from driftline.replay.verify.partition import PartitionProof
from driftline.replay.verify.published import FoundRecord
from driftline.replay.verify.verifier import Report, Verifier
from driftline.rules.flush_to_zero import require_denormals

MOST_THREADS = 8

PARTITIONED = (Stream.SNAPSHOTS, Stream.DELTAS, Stream.PARAMETERS)
"""What is read of a partition, in the order in which `PartitionProof.prove` takes it."""

_POLL_S = 0.2

AllBounds = Mapping[Stream, Mapping[int, Bounds]]
Say = Callable[[str], None]


def verify_run(
    broker: Broker, run: str, *, expect: str = "", say: Say | None = None, threads: int | None = None
) -> Report:
    """Verify a run up to the end that its ledger has now.

    Args:
        broker: where the run's topics are.
        run: the run's name.
        expect: the first hex digits of a head that the ledger must pass through; empty for none.
        say: receives the progress every two seconds.
        threads: partitions that are recomputed at a time; by default one a processor.

    Raises:
        TopicMissing: there is no such run, or one of its topics is gone.
        PositionLost: the log was trimmed while it was read.
        WaitTimeout: Kafka stopped answering.
    """
    return _Verification(broker, run, Verifier(expect), say, threads).run()


def environment() -> dict[str, str]:
    """Return what computed, so that a numeric difference can be explained."""
    return {
        "driftline": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "platform": platform.platform(),
        "byteorder": sys.byteorder,
    }


class _Stopped(Exception):
    """Ends a thread without an error of its own: another one failed, or the command was interrupted."""


class _Verification:
    """One pass over a run."""

    def __init__(self, broker: Broker, run: str, verifier: Verifier, say: Say | None, threads: int | None) -> None:
        self._broker = broker
        self._run = run
        self._verifier = verifier
        self._say = say
        self._threads = threads or min(os.cpu_count() or 1, MOST_THREADS)
        self._stop = threading.Event()
        self._began_s = self._said_s = time.monotonic()

    def run(self) -> Report:
        """Read everything and return the result."""
        # In this order, everything that is read follows from the part of the ledger that is read: parameters are
        # published after their version, and deltas are there before it.
        parameters = self._bounds(Stream.PARAMETERS)
        self._read_ledger(self._bounds(Stream.LEDGER)[0])
        partitions = self._verifier.on_ledger_end()
        if partitions:
            snapshots, deltas = self._bounds(Stream.SNAPSHOTS), self._bounds(Stream.DELTAS)
            bounds = {Stream.SNAPSHOTS: snapshots, Stream.DELTAS: deltas, Stream.PARAMETERS: parameters}
            self._prove_all(partitions, bounds)
        return dataclasses.replace(self._verifier.report(), environment=environment())

    # -- reading -----------------------------------------------------------------------------------------------------

    def _bounds(self, stream: Stream) -> Mapping[int, Bounds]:
        admin = self._broker.admin()
        try:
            return admin.bounds(topic_name(self._run, stream))
        finally:
            admin.close()

    def _read_ledger(self, bounds: Bounds) -> None:
        with reading(self._broker) as reader, closing(self._records(reader, Stream.LEDGER, 0, bounds)) as records:
            for offset, value in records:
                self._verifier.on_ledger(offset, value)
                self._tell(partial("reading the ledger, at offset {} of {}".format, offset, bounds.end))

    def _records(self, reader: Reader, stream: Stream, partition: int, bounds: Bounds) -> Generator[FoundRecord]:
        """Yield the records of a partition up to the end that ``bounds`` says."""
        if bounds.begin >= bounds.end:
            return
        fan_out = stream is Stream.PARAMETERS  # what its retention deleted is not missed
        found = records(
            reader,
            topic_name(self._run, stream),
            partition,
            Start.BEGINNING,
            stop_at=bounds.end,
            stop=self._stop,
            restart=fan_out,
            timeout_s=READ_TIMEOUT_S,
        )
        with closing(found):
            for record in found:
                yield record.offset, record.value
        if self._stop.is_set():
            raise _Stopped

    # -- proving -----------------------------------------------------------------------------------------------------

    def _prove_all(self, partitions: tuple[PartitionProof, ...], bounds: AllBounds) -> None:
        left = deque(partitions)
        threads = min(self._threads, len(partitions))
        with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
            pending = {pool.submit(self._prove_some, left, bounds) for _ in range(threads)}
            try:
                while pending:
                    done, pending = wait(pending, timeout=_POLL_S, return_when=FIRST_EXCEPTION)
                    _raise_first(done)
                    self._tell(partial(self._progress, partitions))
            except BaseException:
                self._stop.set()
                raise

    def _prove_some(self, left: deque[PartitionProof], bounds: AllBounds) -> None:
        """Prove partitions until none is left, on a thread of its own and with the same three readers."""
        require_denormals()
        with ExitStack() as stack:
            readers = {stream: stack.enter_context(reading(self._broker)) for stream in PARTITIONED}
            while left:
                try:
                    proof = left.popleft()
                except IndexError:
                    return  # another thread was quicker
                self._prove(proof, readers, bounds)

    def _prove(self, proof: PartitionProof, readers: Mapping[Stream, Reader], bounds: AllBounds) -> None:
        number = proof.owned.partition
        with ExitStack() as stack:
            snapshots, deltas, parameters = (
                stack.enter_context(closing(self._partition(readers[stream], stream, number, bounds)))
                for stream in PARTITIONED
            )
            proof.prove(snapshots, deltas, parameters)

    def _partition(self, reader: Reader, stream: Stream, partition: int, bounds: AllBounds) -> Generator[FoundRecord]:
        found = bounds[stream].get(partition)
        if found is None:
            topic = topic_name(self._run, stream)
            raise TopicMissing(
                f"topic {topic} has {len(bounds[stream])} partitions, so no partition {partition}, which the run has"
            )
        return self._records(reader, stream, partition, found)

    # -- progress ------------------------------------------------------------------------------------------------------

    def _progress(self, partitions: tuple[PartitionProof, ...]) -> str:
        versions = sum(one.version + 1 for one in partitions) / len(partitions)
        rate = versions / max(time.monotonic() - self._began_s, 1e-9)
        version = self._verifier.ledger.state.version
        return f"recomputed {versions:.0f} of {version + 1} versions, {rate:.0f} versions/s"

    def _tell(self, what: Callable[[], str]) -> None:
        now_s = time.monotonic()
        if self._say is not None and now_s - self._said_s > SAY_EVERY_S:
            self._said_s = now_s
            self._say(f"verifying {self._run}: {what()}")


def _raise_first(done: set[Future[None]]) -> None:
    errors = [error for one in done if (error := one.exception()) is not None]
    for error in errors:
        if not isinstance(error, _Stopped):
            raise error

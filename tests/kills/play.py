"""One run of real processes, with faults: from the first process to what its log says."""

import shutil
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from driftline.broker.embedded import EmbeddedBroker
from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.reading import until_end
from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.errors import DriftlineError
from driftline.launch.chaos import Chaos, Disturbance, LedgerWatch
from driftline.launch.exits import ExitReporter
from driftline.launch.faults import Fault
from driftline.launch.nodes import Nodes
from driftline.launch.processes import Child, Children
from driftline.producers.member import new_mark
from driftline.replay.verify.reading import verify_run
from tests.kills.acknowledged import read_notes
from tests.kills.claims import Told, broken_claims, read_told
from tests.kills.job import PARTITIONS, SAMPLES, SERVERS, WORKERS, Job
from tests.kills.worker import notes_of
from tests.simulation.deaths.fault_points import FaultPoint
from tests.simulation.promises.undisturbed import expected_digest

HUNG_S: Final = 300.0
"""A run that makes no version for so long hangs. Three nodes that start at once on a machine with a load of 40 take up
to two minutes until they know each other."""

KAFKA_S: Final = "120"
"""Seconds in which a server that starts must find its Kafka, which may be dead as well."""

END_WAIT_S: Final = 60.0
LOOK_S: Final = 0.1


@dataclass(slots=True)
class Outcome:
    """How a run ended.

    Attributes:
        told: what its ledger says.
        digest: of the last version's state, as the ledger records it; empty if it does not.
        broken: promises that are not kept; empty if all is well.
        disturbances: what happened.
        gaps_s: of each fault, seconds from it to the second version behind it, None if there is none. What follows
            first was perhaps decided already; what follows second is made of work on a version published behind it.
        acknowledged: contributions that were.
        deaths: servers that killed themselves at a point.
        moments: version → when it was seen, by the monotonic clock.
        training_s: seconds from the first version to the last.
        seconds: in all.
    """

    told: Told
    digest: str = ""
    broken: list[str] = field(default_factory=list)
    disturbances: list[Disturbance] = field(default_factory=list)
    gaps_s: list[float | None] = field(default_factory=list)
    acknowledged: int = 0
    deaths: int = 0
    moments: dict[int, float] = field(default_factory=dict)
    training_s: float = 0.0
    seconds: float = 0.0

    @property
    def hits(self) -> int:
        """How many processes faults happened to."""
        return sum(len(one.hit) for one in self.disturbances)


class Play:
    """One run on a broker that runs.

    Args:
        embedded: the broker, started, and used by this run alone.
        job: the run; no run of its name may be there.
        faults: what happens.
        folder: for logs and notes; emptied.
        same_bits: whether the end must be that of the undisturbed run, to the bit.
        death: where the first incarnation of each server kills itself, if it gets there, and the how manyth time.
        reports_exits: whether the run is told when a worker has died, as `driftline train` does; otherwise it waits
            until the worker was silent for long enough.
        policies: stream → settings of its topic beside its own.
    """

    def __init__(
        self,
        embedded: EmbeddedBroker,
        job: Job,
        faults: tuple[Fault, ...],
        folder: Path,
        *,
        same_bits: bool,
        death: tuple[FaultPoint, int] | None = None,
        reports_exits: bool = False,
        policies: Mapping[Stream, Mapping[str, str]] | None = None,
    ) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self._job, self._folder, self._same_bits = job, folder, same_bits
        more = {topic_name(job.run, stream): settings for stream, settings in (policies or {}).items()}
        self._topics = [
            replace(one, config={**one.config, **more.get(one.name, {})}) for one in run_topics(job.run, PARTITIONS)
        ]
        self._bootstrap = embedded.bootstrap_servers
        self._broker = KafkaBroker(KafkaSettings(self._bootstrap))
        self._children = Children(folder)
        self._said: list[str] = []
        self._death, self._deaths = death, 0
        self._exits = ExitReporter(self._broker, job.run) if reports_exits else None
        self._chaos = Chaos(
            self._broker, job.run, faults, children=self._children, start_process=self._start,
            nodes=Nodes(embedded, self._broker, job.run), say=self._said.append,
        )  # fmt: skip

    @property
    def processes(self) -> dict[str, int]:
        """Name → process id of those that live; empty before the start and at the end."""
        return {child.name: child.process.pid for child in self._children.living()}

    def run(self) -> Outcome:
        """Run it to its end, whatever happens, and hold it against what must be true."""
        began_s = time.monotonic()
        broken: list[str] = []
        try:
            self._begin()
            self._chaos.start()
            moments = self._follow(broken)
            self._chaos.stop()
            self._wait_for_ends(broken)
        finally:
            self._chaos.stop()
            self._children.end((("worker", 2.0), ("server", 4.0)))
            if self._exits is not None:
                self._exits.close()
        outcome = self._judge(broken)
        outcome.gaps_s = _gaps(outcome.disturbances, moments)
        outcome.deaths, outcome.moments = self._deaths, moments
        outcome.training_s = max(moments.values(), default=0.0) - moments.get(1, 0.0)
        outcome.seconds = time.monotonic() - began_s
        return outcome

    def leave_at(self, version: int) -> None:
        """Train as far as a version, kill all processes, and leave the run as it is.

        Raises:
            TimeoutError: it does not get there.
        """
        watch, moved_s = None, time.monotonic()
        try:
            self._begin()
            watch = LedgerWatch(self._broker, self._job.run)
            while watch.version < version:
                if watch.poll(LOOK_S):
                    moved_s = time.monotonic()
                if time.monotonic() - moved_s > HUNG_S:
                    raise TimeoutError(f"run {self._job.run} hangs at version {watch.version}")
        finally:
            self._children.kill()
            if watch is not None:
                watch.close()

    def _begin(self) -> None:
        admin = self._broker.admin()
        admin.create(self._topics)
        admin.close()
        for name in (*SERVERS, *WORKERS):
            self._start(name, name.partition("-")[0])

    def _start(self, name: str, role: str) -> Child:
        python = [sys.executable, "-m"]
        first = all(child.name != name for child in self._children.all)
        if role == "server" and first and self._death is not None:
            point, nth = self._death
            words = [self._job.run, name, self._bootstrap, point.name, str(nth)]
            return self._children.start(name, role, [*python, "tests.kills.dying_server", *words])
        if role == "server":
            where = ["--bootstrap-servers", self._bootstrap, "--connect-timeout", KAFKA_S, "--stop-with-stdin"]
            return self._children.start(
                name, role, [*python, "driftline", "-v", "server", self._job.run, "--name", name, *where]
            )
        mark = new_mark()
        words = [self._job.to_json(), name, self._bootstrap, str(self._folder), mark.hex()]
        return self._children.start(name, role, [*python, "tests.kills.worker", *words], mark)

    def _follow(self, broken: list[str]) -> dict[int, float]:
        """Wait for the end of the run; return when each version was seen."""
        watch = LedgerWatch(self._broker, self._job.run)
        moments: dict[int, float] = {}
        moved_s = time.monotonic()
        try:
            while watch.state.ended is None:
                if watch.poll(LOOK_S) and watch.version not in moments:
                    moments[watch.version] = moved_s = time.monotonic()
                self._bring_back()
                if self._exits is not None and watch.state.has_begun:
                    members = {group.worker: group.incarnation for group in watch.state.groups.values()}
                    self._exits.report_exits(watch.state.start.run, members, self._children.ended_marks())
                if time.monotonic() - moved_s > HUNG_S:
                    broken.append(f"hangs at version {watch.version}: no other one for {HUNG_S:.0f} s")
                    break
        finally:
            watch.close()
        return moments

    def _bring_back(self) -> None:
        """Start again those that have killed themselves."""
        for child in self._newly_dead():
            self._start(child.name, child.role)

    def _newly_dead(self) -> list[Child]:
        """Count those that have killed themselves since the last time."""
        if self._death is None:
            return []
        dead = [
            child for child in self._children.newly_ended() if child.code == -signal.SIGKILL and not child.disturbed
        ]
        for child in dead:
            child.disturbed = True
        self._deaths += len(dead)
        return dead

    def _wait_for_ends(self, broken: list[str]) -> None:
        if broken:
            return
        if not self._children.wait(END_WAIT_S):
            broken.append(f"still running after the end: {[one.name for one in self._children.living()]}")
        self._newly_dead()  # over the run's end, for which no process has to come back
        broken += [
            f"{child.name} {child.ending()}; its log is {child.log}:\n{child.tail(8)}"
            for child in self._children.all
            if child.code and not child.disturbed
        ]

    def _judge(self, broken: list[str]) -> Outcome:
        ledger = until_end(self._broker, topic_name(self._job.run, Stream.LEDGER), 0, 0)
        told = read_told(record.value for record in ledger)
        noted = read_notes([notes_of(self._folder, name) for name in WORKERS])
        broken += broken_claims(told, noted, samples=SAMPLES, epochs=self._job.epochs)
        broken += self._proof()
        digest = _last_digest(told)
        if told.end is None or told.end.failure:
            broken.append(f"the run did not end well: {told.end}")
        broken += [f"{one.fault}: {one.failure}" for one in self._chaos.disturbances if one.failure]
        if self._same_bits:
            right = expected_digest(self._job.problem(), WORKERS, told.version).hex()
            if digest != right:
                broken.append(f"version {told.version} has digest {digest[:16]}, undisturbed it has {right[:16]}")
        return Outcome(told, digest, broken, self._chaos.disturbances, acknowledged=len(noted.acknowledged))

    def _proof(self) -> list[str]:
        try:
            report = verify_run(self._broker, self._job.run)
        except DriftlineError as error:
            return [f"verify fails: {error}"]
        return [] if report.is_proven else [f"verify does not prove it: {report.first_bad or report}"]


def _last_digest(told: Told) -> str:
    return told.states.get(told.version, "")


def _gaps(disturbances: list[Disturbance], moments: dict[int, float]) -> list[float | None]:
    return [_gap(one, moments) for one in disturbances]


def _gap(one: Disturbance, moments: dict[int, float]) -> float | None:
    if one.at_s is None or one.version is None:
        return None
    later = [at for version, at in moments.items() if version >= one.version + 2]
    return min(later) - one.at_s if later else None

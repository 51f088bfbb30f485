"""The simulated world: processes, log, clock; how an input reaches a process and what becomes of its effects."""

import zlib
from collections import Counter, deque
from collections.abc import Iterable

from driftline.broker.port import Start
from driftline.broker.topics import Stream
from driftline.ledger.entering.entry import FIRST_BLOCK
from driftline.ledger.run_state import RunState
from driftline.producers.session import WorkerSession
from driftline.schemas.effects import (
    AskEnds,
    CaughtUp,
    DeltasLost,
    Effect,
    EndsKnown,
    Finish,
    Input,
    PartitionsAssigned,
    PartitionsRevoked,
    Read,
    Received,
    ResumeDeltas,
    Send,
    Sent,
    StopReading,
    Timer,
    Trim,
)
from driftline.schemas.records.sample_range import count
from driftline.training.task.evaluator import EvaluatorSession
from tests.simulation.promises.entering import enter
from tests.simulation.promises.readers import check_actor
from tests.simulation.promises.rebuild import require_rebuilds
from tests.simulation.promises.records import Promises
from tests.simulation.promises.reference_ledger import Violation, require
from tests.simulation.run.actors import Actor, Computed, Core, Cores, Cursor, owned_slots
from tests.simulation.run.log import Landed, Place, RunLog
from tests.simulation.run.quadratic import problem, take_clock
from tests.simulation.run.scenario import Fault, Scenario, seeded
from tests.simulation.world.outbox import Lane, Outbox

REMOVED = "removed"
"""Reason of a worker's `Finish` that another incarnation answers; every other failure is a bug."""

TRIMS = 0.8
"""Probability that the deletion of old deltas works; if not, a later one covers it."""

LOOKED_INTO = 0.3
"""Probability that a newcomer rebuilds the run after a deletion; at the end of a seed, always."""

ENTERS = 0.7
"""Probability that a process begins to read the ledger at the last checkpoint, if there is one."""

REJOINS = 0.8
"""Probability that a removed worker is started again before the faults are over."""

OPERATOR = "operator"
"""Name of the user that asks for the run's end."""

SHOWN = 40
"""Events that a failure shows."""


class World:
    """Everything there is. Each method that does something is one event, checked when it is over."""

    def __init__(self, scenario: Scenario, cores: Cores) -> None:
        self.scenario = scenario
        self.rng = seeded(("world", scenario.seed))
        self.cores = cores
        self.problem = problem(scenario.config, scenario.elements, buffers=scenario.buffers)
        self.promises = Promises(self.problem)
        self.log = RunLog(scenario.config.name, scenario.config.partitions, self._landed)
        self.outbox = Outbox(self.log, self.rng, scenario.prompt)
        self.actors: list[Actor] = []
        self.owners: dict[Place, Actor | None] = dict.fromkeys(owned_slots(scenario.config.partitions))
        self.now_s = 0.0
        self.events = 0
        self.outage_until = 0
        self.faults: Counter[Fault] = Counter()
        self.kinds: Counter[str] = Counter()
        self.trace: deque[tuple[int, str, str, object]] = deque(maxlen=SHOWN)
        self.fingerprint = 0
        self.landed: list[Landed] = []
        self.restarts: list[tuple[int, str, str]] = []
        self.skips_asked = 0
        self.entered = 0
        self.renewed = False
        self._numbers = 0

    # -- processes ---------------------------------------------------------------------------------------------------

    def start(self, kind: str, name: str) -> Actor:
        """Start a process."""
        self._numbers += 1
        incarnation = self.rng.randbytes(16)
        self.promises.births[incarnation] = self._numbers
        actor = Actor(self._numbers, incarnation, self._core(kind, name, incarnation, self._entered()))
        actor.clock_s = self.rng.uniform(0.0, 1000.0)
        self.actors.append(actor)
        self.note("start", actor.label, kind)
        self._carry(actor, actor.core.begin())
        return actor

    def _core(self, kind: str, name: str, incarnation: bytes, state: RunState | None) -> Core:
        if kind == "server":
            rng = seeded((self.scenario.seed, name, self._numbers))
            return self.cores.server(name, incarnation, rng, state=state)
        if kind == "worker":
            return self.cores.worker(name, incarnation, self.problem.offer, self.rng.randbytes(16), state=state)
        if kind == "operator":
            return self.cores.operator(name)
        return self.cores.evaluator(name, incarnation, state=state)

    def _entered(self) -> RunState | None:
        """Draw whether a newcomer begins at the last checkpoint; the others read the ledger from its beginning."""
        rng = seeded(("entry", self.scenario.seed, self._numbers))
        if rng.random() >= ENTERS:
            return None
        state = enter(self.log, self.promises, block=rng.choice((1, 8, FIRST_BLOCK)))
        self.entered += state.began_at > 0
        return state

    def crash(self, actor: Actor) -> None:
        """End a process without a word."""
        self.note("crash", actor.label, "")
        actor.alive = False
        self.outbox.crash(actor)

    def restart_due(self) -> None:
        """Start again what has been down long enough."""
        due = [one for one in self.restarts if one[0] <= self.events]
        self.restarts = [one for one in self.restarts if one[0] > self.events]
        for _, kind, name in due:
            if all(actor.name != name or not actor.alive or actor.done for actor in self.actors):
                self.start(kind, name)

    def ask_to_stop(self) -> None:
        """Let a command ask for the end of a run that has begun and has not ended."""
        ledger = self.promises.ledger
        if ledger.start is not None and ledger.end is None and all(actor.kind != "operator" for actor in self.actors):
            self.start("operator", OPERATOR)

    def leave(self, actor: Actor, session: WorkerSession) -> None:
        """Let a worker leave and end."""
        self.note("leave", actor.label, "")
        self._carry(actor, session.leave("asked to"))
        actor.done = True

    # -- events ------------------------------------------------------------------------------------------------------

    def deliver(self, actor: Actor, place: Place) -> None:
        """Hand over the next record of a partition, or that its end is reached."""
        cursor = actor.cursors[place]
        stream, partition = place
        begin = self.log.begin(place)
        if cursor.offset < begin and stream is Stream.DELTAS:
            cursor.paused = True
            self.give(actor, DeltasLost(partition, cursor.offset, begin), "lost")
            return
        received = self.log.read(place, cursor.offset)
        if received is None:
            cursor.end_told = True
            cursor.offset = self.log.ends[place]
            self.give(actor, CaughtUp(stream, partition, cursor.offset), "caught up")
            return
        cursor.end_told = False
        cursor.offset = received.offset + 1
        self.give(actor, received, "read")

    def open_inbox(self, actor: Actor) -> None:
        """Hand over the oldest failed send or change of ownership."""
        event = actor.inbox.popleft()
        if isinstance(event, PartitionsRevoked):
            for partition in event.partitions:
                actor.cursors.pop((event.stream, partition), None)
        if isinstance(event, PartitionsAssigned):
            start = Start.END if event.stream is Stream.EVENTS else Start.BEGINNING
            for partition in event.partitions:
                place = (event.stream, partition)
                held = event.stream is Stream.DELTAS
                actor.cursors[place] = Cursor(self.log.resolve(place, start), paused=held)
        self.give(actor, event, "inbox")

    def tick(self, actor: Actor, passed_s: float) -> None:
        """Let time pass and tell one process."""
        self.now_s += passed_s
        self.give(actor, Timer(self.now_s + actor.clock_s), "timer")

    def land(self, lane: Lane) -> None:
        """Let one send arrive in the log."""
        send = self.outbox.land(lane, self.now_s)
        self.note("land", str(lane[0]), send.stream)

    def give(self, actor: Actor, event: Input, what: str) -> None:
        """Hand an input to a process, carry out what follows, and check."""
        self.note(what, actor.label, _describe(event))
        self._carry(actor, actor.core.on(event))
        if actor.alive:
            check_actor(actor, self.promises)

    # -- computing ---------------------------------------------------------------------------------------------------

    def may_compute(self) -> list[Actor]:
        """Return who may start a clock, has a gradient to hand in, or a version to measure."""
        return [actor for actor in self.actors if self.can_compute(actor)]

    def can_compute(self, actor: Actor) -> bool:
        """Whether a process is one of these."""
        return actor.alive and not actor.done and actor.asleep_until <= self.events and _has_work(actor)

    def compute(self, actor: Actor) -> None:
        """Start a gradient, hand in the one that was started (other events come in between), or measure."""
        if isinstance(actor.core, EvaluatorSession):
            self._measure(actor, actor.core)
        elif isinstance(actor.core, WorkerSession) and actor.computed is not None:
            self._spend(actor, actor.core)
        elif isinstance(actor.core, WorkerSession):
            self._start_clock(actor, actor.core)

    def _measure(self, actor: Actor, session: EvaluatorSession) -> None:
        model = session.to_measure()
        if model is not None:
            self.note("measure", actor.label, model.version)
            self._carry(actor, session.report(model.version, {"loss": float(model.flat[0])}))

    def _may_start(self, actor: Actor, pace: int, version: int) -> None:
        """The clock rule's own START, as far as a worker's version shows it."""
        bounds = self.scenario.config.consistency
        if bounds.closes_by_clock:
            enough = (
                version == pace
                if bounds.staleness == 0 and not bounds.drop_slowest
                else version >= pace - bounds.staleness
            )
            require(enough, f"{actor} starts at pace {pace} on version {version}")

    def _start_clock(self, actor: Actor, session: WorkerSession) -> None:
        model = session.may_start()
        if model is None:
            raise AssertionError("compute() follows may_compute()")
        pace, samples = session.pace, take_clock(self.problem.config, session.samples)
        self._may_start(actor, pace, model.version)
        self.note("compute", actor.label, f"clock {pace} on version {model.version}, {count(samples)} samples")
        actor.computed = Computed(model, self.problem.gradient(actor.name, pace, samples, model.flat))

    def _spend(self, actor: Actor, session: WorkerSession) -> None:
        computed, actor.computed = actor.computed, None
        if session.group is None or computed is None:
            return  # removed while it computed
        fault = actor.armed.pop() if actor.armed else None
        self.note("contribute", actor.label, f"clock {session.clock + 1} on version {computed.model.version}, {fault}")
        gradient, leased = computed.gradient, self.problem.config.data.is_leased
        if fault is Fault.SKIP or (leased and not gradient.samples):
            self.skips_asked += fault is Fault.SKIP
            effects: Iterable[Effect] = session.skip(computed.model, gradient.cursor, "asked to", gradient.samples)
        else:
            if fault is Fault.NAN_DELTA:
                computed.gradient.flat[self.rng.randrange(self.scenario.elements)] = float("nan")
            effects = session.contribute(computed.model, computed.gradient)
        self._carry(actor, effects)
        check_actor(actor, self.promises)

    # -- effects -----------------------------------------------------------------------------------------------------

    def _carry(self, actor: Actor, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send():
                    self.promises.sent(actor, effect)
                    self.outbox.put(actor, effect, self.now_s)
                case Read():
                    place = (effect.stream, effect.partition)
                    actor.cursors[place] = Cursor(self.log.resolve(place, effect.position))
                case StopReading():
                    actor.cursors.pop((effect.stream, effect.partition), None)
                case ResumeDeltas():
                    self._resume(actor, effect)
                case AskEnds(stream, asker):
                    ends = {place[1]: end for place, end in self.log.ends.items() if place[0] is stream}
                    actor.inbox.append(EndsKnown(stream, ends, asker))
                case Trim():
                    self._trim(effect)
                case Finish():
                    self._finish(actor, effect)

    @staticmethod
    def _resume(actor: Actor, effect: ResumeDeltas) -> None:
        for index, partition in enumerate(effect.partitions):
            cursor = actor.cursors.get((Stream.DELTAS, partition))
            if cursor is None:
                continue
            cursor.paused = False
            if effect.begin:
                cursor.offset, cursor.end_told = effect.begin[index], False

    def _trim(self, trim: Trim) -> None:
        self.promises.trims(trim)
        if self.rng.random() < TRIMS:
            place = (trim.stream, trim.partition)
            self.log.trim(place, trim.before)
            if self.rng.random() < LOOKED_INTO:
                require_rebuilds(self.log, self.promises)

    def _finish(self, actor: Actor, finish: Finish) -> None:
        actor.done = True
        if finish.reason == REMOVED and self.rng.random() < REJOINS:
            self.restarts.append((self.events, "worker", actor.name))
        self.note("finish", actor.label, finish)
        expected = not finish.failure or (actor.kind == "worker" and finish.reason == REMOVED)
        require(expected, f"{actor} gives up: {finish.reason}: {finish.failure}")

    # -- the record of what happened ---------------------------------------------------------------------------------

    def _landed(self, one: Landed) -> None:
        self.landed.append(one)
        self.promises.landed(one)

    def note(self, what: str, who: str, detail: object) -> None:
        """Count one event."""
        self.events += 1
        self.kinds[what] += 1
        self.trace.append((self.events, what, who, detail))
        self.fingerprint = zlib.crc32(f"{what}{who}{detail}".encode(), self.fingerprint)

    def explain(self, violation: Violation) -> str:
        """Say what broke, in which seed, after which events."""
        lines = "\n".join(f"{number:6d}  {who:8s} {what:10s} {detail}" for number, what, who, detail in self.trace)
        return (
            f"seed {self.scenario.seed}, event {self.events}: {violation}\n"
            f"replay: python -m tests.simulation --seed {self.scenario.seed}\n{lines}"
        )


def _has_work(actor: Actor) -> bool:
    match actor.core:
        case WorkerSession():
            return actor.computed is not None or actor.core.may_start() is not None
        case EvaluatorSession():
            return actor.core.to_measure() is not None
        case _:
            return False


def _describe(event: Input) -> str:  # noqa: PLR0911 - one for each kind of input
    match event:
        case Received():
            return f"{event.stream}[{event.partition}]@{event.offset}"
        case CaughtUp():
            return f"{event.stream}[{event.partition}] to {event.offset}"
        case PartitionsAssigned() | PartitionsRevoked():
            return f"{type(event).__name__} {event.stream}{list(event.partitions)}"
        case Timer():
            return f"{event.now_s:.3f}"
        case EndsKnown():
            return f"{event.stream} ends {event.ends}"
        case Sent():
            return f"sent: {event.stream}[{event.partition}]@{event.offset}"
        case DeltasLost():
            return f"deltas[{event.partition}] before {event.begin}"
    return f"failed: {event.send.stream}"

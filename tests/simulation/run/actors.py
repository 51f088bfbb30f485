"""The processes of a simulated run: a state machine, its reading positions, and what waits to be handed to it."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from driftline.broker.topics import Stream
from driftline.consumers.server.server import Server
from driftline.ledger.follower import Model
from driftline.producers.deltas import Gradient
from driftline.producers.session import WorkerSession
from driftline.runs.requests import StopRequester
from driftline.schemas.effects import Input
from driftline.training.task.evaluator import EvaluatorSession
from tests.simulation.run.log import Place
from tests.simulation.run.scenario import Fault


class Operator(StopRequester):
    """A command that asks for the end of the run."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "seen enough")
        self.name = name


Core: TypeAlias = Server | WorkerSession | EvaluatorSession | Operator

FOR_EVER = 1 << 60


@dataclass(frozen=True, slots=True)
class Cores:
    """How state machines are made; tests put faulty ones in their place."""

    server: Callable[..., Server] = Server
    worker: Callable[..., WorkerSession] = WorkerSession
    evaluator: Callable[..., EvaluatorSession] = EvaluatorSession
    operator: Callable[[str], Operator] = Operator


@dataclass(slots=True)
class Cursor:
    """Where an actor reads a partition, from ``first`` on; ``stalled_until`` is the number of an event."""

    offset: int
    end_told: bool = False
    paused: bool = False
    stalled_until: int = 0
    first: int = field(init=False)

    def __post_init__(self) -> None:
        self.first = self.offset


@dataclass(frozen=True, slots=True)
class Computed:
    """A gradient that a worker has computed and not yet handed in."""

    model: Model
    gradient: Gradient


@dataclass(slots=True, eq=False)
class Actor:
    """One incarnation of a process.

    Attributes:
        number: of this incarnation among all of the run.
        incarnation: its 16 bytes.
        cursors: reading positions by partition.
        inbox: failed sends and changes of ownership, in order.
        errors: outcomes that the next sends will have.
        clock_s: what this process's clock is ahead of the simulation's.
        asleep_until: number of the event before which it stands still.
        deaf_until: the same, for changes of ownership alone: until then a zombie.
        computed: the gradient under way, of a worker.
        armed: faults that its next contribution will have.
    """

    number: int
    incarnation: bytes
    core: Core
    cursors: dict[Place, Cursor] = field(default_factory=dict)
    inbox: deque[Input] = field(default_factory=deque)
    errors: deque[Fault] = field(default_factory=deque)
    clock_s: float = 0.0
    alive: bool = True
    done: bool = False
    asleep_until: int = 0
    deaf_until: int = 0
    computed: Computed | None = None
    armed: list[Fault] = field(default_factory=list)
    checked: dict[int, object] = field(default_factory=dict)
    label: str = field(init=False)

    def __post_init__(self) -> None:
        self.label = f"{self.name}#{self.number}"

    @property
    def name(self) -> str:
        """The process's name; incarnations share it."""
        return self.core.name

    @property
    def kind(self) -> str:
        """``server``, ``worker``, ``evaluator`` or ``operator``."""
        return KINDS[_base(self.core)]

    def __str__(self) -> str:
        return self.label


KINDS: Mapping[type[Core], str] = MappingProxyType(
    {Server: "server", WorkerSession: "worker", EvaluatorSession: "evaluator", Operator: "operator"}
)


def _base(core: Core) -> type[Core]:
    for kind in KINDS:
        if isinstance(core, kind):
            return kind
    raise AssertionError(type(core))


def servers(actors: list[Actor]) -> Iterator[tuple[Actor, Server]]:
    """Go through the live servers that have not finished."""
    for actor in actors:
        if actor.alive and not actor.done and isinstance(actor.core, Server):
            yield actor, actor.core


def workers(actors: list[Actor]) -> Iterator[tuple[Actor, WorkerSession]]:
    """Go through the live workers that have not finished."""
    for actor in actors:
        if actor.alive and not actor.done and isinstance(actor.core, WorkerSession):
            yield actor, actor.core


def owned_slots(partitions: int) -> list[Place]:
    """Return what consumer groups hand out: every partition of deltas, and the one of events."""
    return [(Stream.EVENTS, 0), *((Stream.DELTAS, partition) for partition in range(partitions))]

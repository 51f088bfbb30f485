"""Reading the versions of a run from outside: the newest, one by number, or each as it is published. Writes nothing."""

import math
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from driftline.broker.port import Broker, EndReached, Record, Start
from driftline.broker.topics import Stream, topic_name
from driftline.errors import RunRefused, Undecodable, WaitTimeout
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.entering.reading import READ_TIMEOUT_S, check_run_exists, read_ledger, reading
from driftline.ledger.follower import Follower, Model
from driftline.ledger.model_reader import ModelReader
from driftline.ledger.run_state import RunState
from driftline.runtime.running import Running
from driftline.schemas.codec import decode
from driftline.schemas.effects import CaughtUp, Effect, Input, Received
from driftline.schemas.model.dtypes import BUFFER
from driftline.schemas.model.layout import Layout
from driftline.schemas.records import Parameters
from driftline.training.model.layout import FlatArray, segment_tensor
from driftline.training.model.tensor_bytes import tensor_of

_POLL_S = 0.2
_MEMBER = "reader"


@dataclass(frozen=True, slots=True)
class Version:
    """One published version of a run.

    Attributes:
        number: from 0.
        loss: mean of the training batches that it was made of; NaN if there were none, or nobody said.
        is_last: whether none follows, as far as was known when it was read: a run may be stopped later.
        state: name → tensor, as ``load_state_dict`` takes it: tied tensors under every one of their names.
    """

    number: int
    loss: float
    is_last: bool
    state: dict[str, torch.Tensor] = field(repr=False)


def load_newest(broker: Broker, run: str, timeout_s: float) -> Version:
    """Read the newest version.

    Raises:
        RunRefused: there is no such run.
        WaitTimeout: no version is complete within the time.
        IntegrityError: the log contradicts itself.
    """
    check_run_exists(broker, run)
    session = _Session(enter_ledger(broker, run).state())
    return session.version_of(_read_newest(broker, run, session, timeout_s))


def read_newest(broker: Broker, run: str, timeout_s: float) -> Model:
    """Read the newest version of a run that exists, as one vector.

    Raises:
        WaitTimeout: no version is complete within the time.
        IntegrityError: the log contradicts itself.
    """
    return _read_newest(broker, run, _Session(enter_ledger(broker, run).state()), timeout_s)


def _read_newest(broker: Broker, run: str, session: "_Session", timeout_s: float) -> Model:
    with Running(broker, run, session, _MEMBER) as running:
        model = running.asking(session.settled, stop=threading.Event(), timeout_s=timeout_s, whom=session.waiting_for)
    if model is None:
        raise AssertionError("a reader's session does not finish")
    return model


def load_one(broker: Broker, run: str, version: int) -> Version:
    """Read a version by its number: it must have been published, and still be in the log.

    Raises:
        RunRefused: there is no such run, or no such version; names those that there are.
        IntegrityError: the log contradicts itself.
    """
    check_run_exists(broker, run)
    state = read_ledger(broker, run)
    if version not in state.publish_points or state.layout is None:
        raise RunRefused(f"run {run} has not published version {version}; {_nearest(state, version)}")
    follower = Follower(state)
    for partition in range(state.layout.partitions):
        _feed(broker, topic_name(run, Stream.PARAMETERS), partition, follower, version)
    if follower.newest is None:
        raise RunRefused(
            f"version {version} of run {run} is no longer in the log: parameters are kept for a while only; "
            f"{_nearest(state, version)}"
        )
    return _version(state, follower.newest)


def follow_run(broker: Broker, run: str, timeout_s: float) -> Iterator[Version]:
    """Yield the newest version, then each newer one that is published, until the run ends.

    Versions that are published while the caller is at work are left out, except for the newest.

    Raises:
        RunRefused: there is no such run.
        WaitTimeout: nothing new for ``timeout_s`` seconds.
        IntegrityError: the log contradicts itself.
    """
    check_run_exists(broker, run)
    session, seen = _Session(enter_ledger(broker, run).state()), -1
    with Running(broker, run, session, _MEMBER) as running:
        while not running.glance(lambda: session.is_over(seen)):  # noqa: B023 - asked at once
            answer = running.asking(
                lambda: session.newer_than(seen),  # noqa: B023 - ditto
                stop=threading.Event(),
                timeout_s=timeout_s,
                whom=session.waiting_for,
            )
            if isinstance(answer, Model):
                seen = answer.version
                yield running.glance(lambda: session.version_of(answer))  # noqa: B023 - ditto


class _Session:
    """The core of a reader: a fold of the ledger that goes on with ``state``, and the newest version."""

    def __init__(self, state: RunState) -> None:
        self.reader = ModelReader(state)
        self._ends: set[int] = set()

    def begin(self) -> list[Effect]:
        """Return the first effects."""
        return self.reader.begin()

    def on(self, event: Input) -> list[Effect]:
        """Take one input."""
        match event:
            case Received(stream=Stream.LEDGER):
                return self.reader.on_ledger(event)[1]
            case Received(stream=Stream.PARAMETERS):
                self.reader.on_parameters(event)
            case CaughtUp():
                effects = self.reader.on_caught_up(event)
                if event.stream is Stream.PARAMETERS:
                    self._ends.add(event.partition)
                if effects:
                    self._ends.clear()  # it looks further back
                return effects
        return []

    def settled(self) -> Model | None:
        """Return the newest version once everything that was there has been read."""
        layout = self.reader.state.layout
        if layout is None or len(self._ends) < layout.partitions:
            return None
        return self.reader.follower.newest

    def newer_than(self, seen: int) -> Model | bool | None:
        """Return a version that is newer, or True if there will be none."""
        found = self.settled()
        if found is not None and found.version > seen:
            return found
        return True if self.is_over(seen) else None

    def is_over(self, seen: int) -> bool:
        """Whether the run has ended and nothing newer comes."""
        ended = self.reader.state.ended
        return ended is not None and (seen >= ended.version or bool(ended.failure and self.settled() is not None))

    def version_of(self, model: Model) -> Version:
        """Return a version with what the ledger says of it."""
        return _version(self.reader.state, model)

    def waiting_for(self) -> str:
        """Say what is missing."""
        if self.reader.state.start is None:
            return "the run to start"
        return (
            f"a version newer than {-1 if self.reader.follower.newest is None else self.reader.follower.newest.version}"
        )


def state_dict_of(layout: Layout, flat: FlatArray) -> dict[str, Any]:
    """Return a flat vector, float32[elements], as name → tensor with memory of its own, in the model's own dtypes."""
    state: dict[str, Any] = {}
    for segment in layout.segments:
        dtype = getattr(torch, segment.dtype)
        if segment.kind == BUFFER:
            tensor = tensor_of(flat[segment.offset : segment.stop], dtype, segment.shape)
        else:
            tensor = segment_tensor(flat, segment).to(dtype, copy=True)
        state |= dict.fromkeys((segment.name, *segment.aliases), tensor)
    return state


def _version(state: RunState, model: Model) -> Version:
    layout = state.layout
    if layout is None:
        raise AssertionError("a model without a layout")
    loss = _loss(state, model.version)
    stopped = state.ended is not None and state.ended.version == model.version
    is_last = stopped or (state.is_finished and model.version == state.version)
    return Version(model.version, loss, is_last, state_dict_of(layout, model.flat))


def _loss(state: RunState, version: int) -> float:
    made = state.versions.get(version)
    if made is None:  # its record stands before the checkpoint at which the ledger was entered
        return state.loss if version == state.version else math.nan
    uses = [one for one in made.uses if one.kind == "delta"]
    weight = sum(one.weight for one in uses)
    return sum(one.weight * one.loss for one in uses) / weight if weight else math.nan


def _feed(broker: Broker, topic: str, partition: int, follower: Follower, version: int) -> None:
    """Give a follower the records of one version."""
    with reading(broker) as reader:
        reader.read(topic, partition, Start.BEGINNING)
        moved_s = time.monotonic()
        while not isinstance(found := reader.poll(_POLL_S), EndReached):
            if isinstance(found, Record):
                moved_s = time.monotonic()
                if _is_of(found.value, version):
                    follower.on_parameters(found.value)
            elif time.monotonic() - moved_s > READ_TIMEOUT_S:
                raise WaitTimeout(f"{topic}: nothing arrived for {READ_TIMEOUT_S:.0f} s; is its Kafka still there?")


def _is_of(value: bytes | None, version: int) -> bool:
    try:
        record = decode(value)
    except Undecodable:
        return False
    return isinstance(record, Parameters) and record.version == version


def _nearest(state: RunState, version: int) -> str:
    near = sorted(state.publish_points, key=lambda one: (abs(one - version), one))[:3]
    return f"near it are {', '.join(str(one) for one in sorted(near))}, and the newest is {state.last_publish}"

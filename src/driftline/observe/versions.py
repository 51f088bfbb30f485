"""Reads versions of a run: the newest, one by its number, or each as it is published."""

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from driftline.broker.port import Broker
from driftline.errors import RunRefused
from driftline.ledger.entering.checkpoint import enter_ledger
from driftline.ledger.entering.reading import check_run_exists, read_ledger
from driftline.ledger.follower import Model
from driftline.ledger.run_state import RunState
from driftline.observe.records.lookup import read_parameters
from driftline.runtime.running import Running
from driftline.training.model.layout import state_dict_of
from driftline.training.worker.newest import READER, VersionReader, wait_for_newest


@dataclass(frozen=True, slots=True)
class Version:
    """One published version of a run.

    Attributes:
        number: from 0.
        loss: mean loss of its training batches. NaN without batches, or if no script gave a loss.
        is_last: whether no version follows. A run may also be stopped later, and then this was the last one.
        state: name → tensor, for ``load_state_dict``. A tied tensor is there under each of its names.
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
    reader = VersionReader(enter_ledger(broker, run).state())
    model = wait_for_newest(broker, run, reader, timeout_s)
    return _version(reader.reader.state, model)


def load_one(broker: Broker, run: str, version: int) -> Version:
    """Read a version by its number: it must have been published, and still be in the log.

    Raises:
        RunRefused: there is no such run, or no such version; names those that there are.
        IntegrityError: the log contradicts itself.
    """
    check_run_exists(broker, run)
    state = read_ledger(broker, run)
    if not state.has_begun or version not in state.publish_points:
        raise RunRefused(f"run {run} has not published version {version}; {_nearest(state, version)}")
    model = read_parameters(broker, run, state, [version]).get(version)
    if model is None:
        raise RunRefused(
            f"version {version} of run {run} is no longer in the log: parameters are kept for a while only; "
            f"{_nearest(state, version)}"
        )
    return _version(state, model)


def follow_run(broker: Broker, run: str, timeout_s: float) -> Iterator[Version]:
    """Yield the newest version, then each newer one that is published, until the run ends.

    If several versions are published while the caller works, only the newest is yielded.

    Raises:
        RunRefused: there is no such run.
        WaitTimeout: nothing new for ``timeout_s`` seconds.
        IntegrityError: the log contradicts itself.
    """
    check_run_exists(broker, run)
    reader, seen = VersionReader(enter_ledger(broker, run).state()), -1
    with Running(broker, run, reader, READER) as running:
        while not running.query(lambda: reader.is_over(seen)):  # noqa: B023 - asked at once
            answer = running.wait_for(
                lambda: reader.newer_than(seen),  # noqa: B023 - ditto
                stop=threading.Event(),
                timeout_s=timeout_s,
                whom=reader.waiting_for,
            )
            if isinstance(answer, Model):
                seen = answer.version
                yield running.query(lambda: _version(reader.reader.state, answer))  # noqa: B023 - ditto


def _version(state: RunState, model: Model) -> Version:
    loss = _loss(state, model.version)
    stopped = state.ended is not None and state.ended.version == model.version
    is_last = stopped or (state.is_finished and model.version == state.version)
    return Version(model.version, loss, is_last, state_dict_of(state.layout, model.flat))


def _loss(state: RunState, version: int) -> float:
    made = state.versions.get(version)
    if made is None:  # its record is before the checkpoint at which the ledger was entered
        return state.loss if version == state.version else math.nan
    uses = [one for one in made.uses if one.kind == "delta"]
    weight = sum(one.weight for one in uses)
    return sum(one.weight * one.loss for one in uses) / weight if weight else math.nan


def _nearest(state: RunState, version: int) -> str:
    near = sorted(state.publish_points, key=lambda one: (abs(one - version), one))[:3]
    return f"near it are {', '.join(str(one) for one in sorted(near))}, and the newest is {state.last_publish}"

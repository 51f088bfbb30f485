"""Where a run stands, as one object: by its ledger, and by the newest events of its members.

What the ledger decides is exact. What events tell (servers, live members, counters) is as recent as they are, and Kafka
deletes them after a time.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driftline.ledger.run_state import RunState
from driftline.observe.records.values import finite
from driftline.observe.run.recent_events import Member, RecentEvents
from driftline.schemas.model.tensors import FP32_BYTES
from driftline.schemas.records import GroupId
from driftline.schemas.run.config import RunConfig

TOPOLOGY = "eventual"
"""Every worker is a replica group of its own, with the log between them: the only topology of this release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended; an empty ``failure`` is success."""

    version: int
    reason: str
    failure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """The newest incarnation of a worker.

    Attributes:
        clock: the newest one that the ledger settled for this incarnation.
        contributions: used in versions, of all incarnations of the name.
        state: ``live``, ``silent``, ``left``, ``removed`` or ``done``.
        note: why it was removed; empty if it was not.
        waiting_share: of its time, from 0 to 1; None without a recent heartbeat.
    """

    name: str
    incarnation: str
    clock: int
    contributions: int
    skips: int
    rejections: int
    state: str
    note: str
    waiting_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """The newest incarnation of a server, by its newest event. ``state``: ``live``, ``silent`` or ``done``."""

    name: str
    incarnation: str
    version: int
    partitions: tuple[int, ...]
    shards: tuple[int, ...]
    state: str
    counters: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """Where a run stands.

    Attributes:
        state: ``empty`` (no start yet), ``waiting`` (for its first workers), ``running``, ``ended`` or ``failed``.
        version: the head.
        digest: of the state at ``digest_version``, the newest version whose digests the ledger has.
        metrics: as measured at ``metrics_version``.
        samples: that went into versions, repeated ones counted each time.
        epoch: how many epochs are used up; None if the run leases no samples.
        epochs: after which the run ends; None if epochs do not end it.
        consumed: samples that the ledger leased and that went into a version, over all epochs.
        discarded: samples that went into none and will not be read again in their epoch.
        burned: the same, under its former name.
        rejected: contributions that the ledger rejected.
        duplicates: deltas that came twice, as servers report.
        void: ledger records that do not count.
        checkpoint: version whose snapshots are official; None before the first.
        undecodable: values that are no records, in the ledger and as members report.
        staleness: versions → contributions used that late.
        wire_bytes: payload of the deltas settled and of the parameters published, without re-sends.
        kept_bytes: payload of the deltas that each copy of the log holds now; None if unknown.
    """

    run: str
    uuid: str | None
    state: str
    version: int
    steps: int | None
    digest: str | None
    parameters_digest: str | None
    digest_version: int | None
    head: str
    term: int
    checkpoint: int | None
    mode: str | None
    topology: str | None
    seed: int | None
    ended: Ending | None
    loss: float | None
    metrics: Mapping[str, float | None]
    metrics_version: int | None
    samples: float
    epoch: int | None
    epochs: int | None
    consumed: int | None
    discarded: int | None
    burned: int | None
    rejected: int
    duplicates: int
    void: int
    undecodable: int
    staleness: Mapping[str, int]
    wire_bytes: int
    kept_bytes: int | None
    workers: tuple[WorkerStatus, ...]
    servers: tuple[ServerStatus, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return dataclasses.asdict(self)


def build_status(run: str, state: RunState, events: RecentEvents, kept_bytes: int | None = None) -> RunStatus:
    """Put a run's status together."""
    config = state.config if state.has_begun else None
    newest = max(state.states, default=None)
    digests = None if newest is None else state.states[newest]
    measured = max(state.evaluations, default=None)
    metrics = {} if measured is None else state.evaluations[measured].metrics
    counters = events.counters()
    totals = state.totals
    return RunStatus(
        run=run,
        uuid=state.start.run.hex() if state.has_begun else None,
        state=run_state_word(state),
        version=state.version,
        steps=None if config is None or not config.steps else config.steps,
        digest=None if digests is None else digests.state.hex(),
        parameters_digest=None if digests is None else digests.parameters.hex(),
        digest_version=newest,
        head=state.chain.head.hex(),
        term=state.chain.term,
        checkpoint=None if state.checkpoint is None else state.checkpoint.version,
        mode=None if config is None else config.consistency.mode,
        topology=None if config is None else TOPOLOGY,
        seed=None if config is None else config.seed,
        ended=_ending(state),
        loss=finite(state.loss),
        metrics={name: finite(value) for name, value in sorted(metrics.items())},
        metrics_version=measured,
        samples=int(totals.samples) if totals.samples.is_integer() else totals.samples,
        **_data(state),
        rejected=sum(totals.rejections.values()),
        duplicates=counters["duplicates"],
        void=state.chain.void,
        undecodable=totals.undecodable + events.undecodable + counters["undecodable"],
        staleness={str(late): totals.staleness[late] for late in sorted(totals.staleness)},
        wire_bytes=wire_bytes(state),
        kept_bytes=kept_bytes,
        workers=_workers(state, events),
        servers=tuple(_server(member, state, events) for member in events.of_role("server")),
    )


def _data(state: RunState) -> dict[str, int | None]:
    if not state.has_begun or not state.leases.is_on:
        return dict.fromkeys(("epoch", "epochs", "consumed", "discarded", "burned"))
    leases, epochs = state.leases, state.config.data.epochs or None
    used = {"consumed": leases.consumed, "discarded": leases.discarded, "burned": leases.discarded}
    return {"epoch": leases.epoch, "epochs": epochs, **used}


def wire_bytes(state: RunState) -> int:
    """Return the payload bytes of everything settled so far and of the versions published with their record."""
    if not state.has_begun:
        return 0
    settled = sum(state.totals.contributions.values()) + sum(state.totals.rejections.values())
    return (settled + state.totals.published) * state.layout.elements * FP32_BYTES


def run_state_word(state: RunState) -> str:
    """Return one of the words of `RunStatus.state`."""
    if state.ended is not None:
        return "failed" if state.ended.failure else "ended"
    if not state.has_begun:
        return "empty"
    return "running" if state.first_names else "waiting"


def _ending(state: RunState) -> Ending | None:
    end = state.ended
    return None if end is None else Ending(version=end.version, reason=end.reason, failure=end.failure)


def _workers(state: RunState, events: RecentEvents) -> tuple[WorkerStatus, ...]:
    newest: dict[str, tuple[GroupId, bytes]] = {}
    for (worker, incarnation), group in state.joined.items():
        newest[worker] = max(newest.get(worker, (group, incarnation)), (group, incarnation))
    clocks = _last_clocks(state)
    return tuple(
        _worker(name, group, incarnation, clocks.get(group, 0), state, events)
        for name, (group, incarnation) in sorted(newest.items())
    )


def _last_clocks(state: RunState) -> dict[GroupId, int]:
    """Return the last settled clock of every group; a rejected one counts only while the group is a member."""
    clocks: dict[GroupId, int] = {}
    for group, clock in state.used_at:
        clocks[group] = max(clock, clocks.get(group, 0))
    return clocks | {group.id: group.settled_clock for group in state.groups.values()}


def _worker(
    name: str, group: GroupId, incarnation: bytes, clock: int, state: RunState, events: RecentEvents
) -> WorkerStatus:
    member = events.members.get(("worker", name, incarnation))
    note = state.removed.get(group, "")
    gone = "left" if note == "left" else "removed"
    return WorkerStatus(
        name=name,
        incarnation=incarnation.hex(),
        clock=clock,
        contributions=state.totals.contributions[name],
        skips=state.totals.skips[name],
        rejections=state.totals.rejections[name],
        state=gone if group in state.removed else _member_word(member, state, events),
        note=note,
        waiting_share=None if member is None or member.left else round(member.waiting_share, 4),
    )


def _server(member: Member, state: RunState, events: RecentEvents) -> ServerStatus:
    partitions = member.partitions if state.has_begun else ()
    shards = [shard for one in partitions for shard in state.layout.shards_of(one)]
    return ServerStatus(
        name=member.name,
        incarnation=member.incarnation.hex(),
        version=member.version,
        partitions=member.partitions,
        shards=tuple(sorted(shards)),
        state=_member_word(member, state, events),
        counters=dict(sorted(member.counters.items())),
    )


def _member_word(member: Member | None, state: RunState, events: RecentEvents) -> str:
    """A member is live if its newest event is younger than the time after which a coordinator removes a member."""
    if member is not None and member.left:
        return "left"
    if state.ended is not None:
        return "done"
    if member is None or not state.has_begun:
        return "silent"
    return "live" if events.newest_ms - member.seen_ms <= patience_ms(state.config) else "silent"


def patience_ms(config: RunConfig) -> float:
    """Return the milliseconds without a heartbeat after which a coordinator removes a member."""
    return 1000 * config.gone_after_ticks * config.tick_interval_s

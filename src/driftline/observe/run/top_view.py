"""One frame of `driftline top`: status, speed, who waits for whom, the newest decisions. Pure."""

from dataclasses import dataclass, fields
from typing import Any

from driftline.ledger.run_state import RunState
from driftline.observe.records.annotated_ledger import AnnotatedLedger
from driftline.observe.records.entry_text import describe_entry
from driftline.observe.run.recent_events import RecentEvents
from driftline.observe.run.status import RunStatus, ServerStatus, WorkerStatus, build_status, patience_ms
from driftline.observe.run.waiting import waited_for
from driftline.schemas.records import Version

RATE_MS = 10_000
"""Time over which versions are counted for the rate."""

KEPT_ENTRIES = 1_000
"""Ledger entries to remember: for the last lines, and for the versions of some seconds of a fast run."""

FAILURES = ("sends_failed", "undecodable", "conflicting_deltas", "parameters_refused")
"""Counters of members that should stay 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopWorker(WorkerStatus):
    """A worker in a frame.

    Attributes:
        staleness: of its newest contribution in a version; None before the first.
        behind: versions between the head version and its parameters; None without a heartbeat.
        waits_for: names of workers, or `SERVERS`; empty while it computes, None if that is not known.
    """

    staleness: int | None
    behind: int | None
    waits_for: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopServer(ServerStatus):
    """A server in a frame; ``lag`` counts versions between the head version and the version that it has applied."""

    lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLine:
    """A record of the ledger in words."""

    offset: int
    timestamp_ms: int
    counts: bool
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopView(RunStatus):
    """One frame.

    Attributes:
        versions_per_s: over the last ten seconds of the broker's clock; None if it is not known, or the run is over.
        newcomers: workers with recent heartbeats that are no members yet.
        awaited: how many workers the run waits for before version 1; 0 once it has begun.
        failures: counter → sum over all members, where it is not 0.
        ledger: its newest records, oldest first.
        contradiction: why the fold of the ledger ended early; empty if it did not.
    """

    workers: tuple[TopWorker, ...]
    servers: tuple[TopServer, ...]
    versions_per_s: float | None
    newcomers: tuple[str, ...]
    awaited: int
    failures: dict[str, int]
    ledger: tuple[LedgerLine, ...]
    contradiction: str


def build_top_view(run: str, ledger: AnnotatedLedger, events: RecentEvents, lines: int) -> TopView:
    """Put a frame together.

    Args:
        run: its name.
        ledger: with its newest entries.
        events: the newest ones.
        lines: how many of the ledger's last records to put into words.
    """
    state, counters = ledger.state, events.counters()
    status = build_status(run, state, events)
    return TopView(
        **_fields(status)
        | {
            "workers": _workers(status, ledger, events),
            "servers": tuple(
                TopServer(**_fields(one), lag=max(0, state.version - one.version)) for one in status.servers
            ),
        },
        versions_per_s=_rate(ledger, events),
        newcomers=_newcomers(state, events),
        awaited=state.config.workers if state.has_begun and not state.first_names else 0,
        failures={name: counters[name] for name in FAILURES if counters[name]},
        ledger=_lines(ledger, lines),
        contradiction=ledger.contradiction,
    )


def _fields(view: RunStatus | WorkerStatus | ServerStatus) -> dict[str, Any]:
    return {one.name: getattr(view, one.name) for one in fields(view)}


def _lines(ledger: AnnotatedLedger, lines: int) -> tuple[LedgerLine, ...]:
    return tuple(
        LedgerLine(
            offset=entry.offset,
            timestamp_ms=entry.timestamp_ms,
            counts=entry.counts,
            words=describe_entry(entry, ledger),
        )
        for entry in (list(ledger.entries)[-lines:] if lines > 0 else [])
    )


def _newcomers(state: RunState, events: RecentEvents) -> tuple[str, ...]:
    if not state.has_begun or state.ended is not None:
        return ()
    since_ms = events.newest_ms - patience_ms(state.config)
    return tuple(
        one.name
        for one in events.of_role("worker")
        if one.seen_ms >= since_ms and not one.left and (one.name, one.incarnation) not in state.joined
    )


def _version_times(ledger: AnnotatedLedger) -> list[int]:
    """Return the append times of the remembered versions, milliseconds since the epoch."""
    return [one.timestamp_ms for one in ledger.entries if one.counts and isinstance(one.record, Version)]


def _rate(ledger: AnnotatedLedger, events: RecentEvents) -> float | None:
    times = _version_times(ledger)
    if not times or ledger.state.ended is not None:
        return None
    now_ms = max(events.newest_ms, times[-1])
    since_ms = max(now_ms - RATE_MS, times[0])
    if now_ms <= since_ms:
        return None
    return round(1000 * sum(time_ms > since_ms for time_ms in times) / (now_ms - since_ms), 3)


def _workers(status: RunStatus, ledger: AnnotatedLedger, events: RecentEvents) -> tuple[TopWorker, ...]:
    times = _version_times(ledger)
    waiting = waited_for(ledger.state, events, times[-1] if times else 0)
    staleness = _last_staleness(ledger)
    return tuple(
        TopWorker(
            **_fields(one),
            staleness=staleness.get(one.name),
            behind=_behind(one.name, bytes.fromhex(one.incarnation), ledger.state, events),
            waits_for=waiting.get(one.name) if one.state == "live" else None,
        )
        for one in status.workers
    )


def _behind(name: str, incarnation: bytes, state: RunState, events: RecentEvents) -> int | None:
    member = events.members.get(("worker", name, incarnation))
    return None if member is None or member.version < 0 else max(0, state.version - member.version)


def _last_staleness(ledger: AnnotatedLedger) -> dict[str, int]:
    """Return the staleness of each worker's newest contribution in a version, as far back as entries are remembered."""
    state, found = ledger.state, dict[str, int]()
    for version in range(state.version, max(0, state.version - KEPT_ENTRIES), -1):
        for use in state.versions[version].uses:
            if use.kind == "delta":
                found.setdefault(ledger.name(use.group), use.staleness)
        if len(found) >= len(state.groups):
            break
    return found

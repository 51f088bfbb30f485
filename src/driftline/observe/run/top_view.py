"""One frame of `driftline top`: where a run stands, how fast it is, who waits for whom, what was decided last. Pure."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from driftline.ledger.run_state import RunState
from driftline.observe.records.ledger_words import ledger_words
from driftline.observe.records.story import Story
from driftline.observe.run.recent_events import RecentEvents
from driftline.observe.run.status import RunStatus, build_status
from driftline.observe.run.waiting import waited_for
from driftline.schemas.records import Version

RATE_MS = 10_000
"""Time over which versions are counted for the rate."""

KEPT_ENTRIES = 1_000
"""Ledger records that are remembered: the last lines, and the versions of some seconds of a fast run."""

FAILURES = ("sends_failed", "undecodable", "conflicting_deltas", "parameters_refused")
"""Counters of members that ought to stay 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """What a frame adds to a worker's status.

    Attributes:
        staleness: of its last contribution that was used, in versions; None before the first.
        behind: versions between the head and the parameters that it has; None if it was not heard.
        waits_for: whom; empty while it computes, None if that is not known.
    """

    name: str
    staleness: int | None
    behind: int | None
    waits_for: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLine:
    """A record of the ledger in words."""

    offset: int
    timestamp_ms: int
    counts: bool
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopView:
    """One frame.

    Attributes:
        versions_per_s: over the last ten seconds of the broker's clock; None if it is not known, or the run is over.
        newcomers: workers that were heard lately and are no members yet.
        awaited: how many workers the run waits for before version 1; 0 once it has begun.
        lags: server → versions between the head and what it has applied.
        failures: counter → sum over all members heard, of those that are not 0.
        ledger: its newest records, oldest first.
        contradiction: why the ledger ends early; empty if it does not.
    """

    status: RunStatus
    versions_per_s: float | None
    workers: tuple[WorkerRow, ...]
    newcomers: tuple[str, ...]
    awaited: int
    lags: dict[str, int]
    failures: dict[str, int]
    ledger: tuple[LedgerLine, ...]
    contradiction: str

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold: the object of `status`, with more about members, and the ledger's last lines."""
        seen = self.status.to_dict()
        more = {one.name: one for one in self.workers}
        seen["workers"] = [
            {**worker, "staleness": row.staleness, "behind": row.behind, "waits_for": row.waits_for}
            for worker in seen["workers"]
            for row in [more[worker["name"]]]
        ]
        seen["servers"] = [{**server, "lag": self.lags[server["name"]]} for server in seen["servers"]]
        return {
            **seen,
            "versions_per_s": self.versions_per_s,
            "newcomers": self.newcomers,
            "awaited": self.awaited,
            "failures": self.failures,
            "ledger": [dataclasses.asdict(line) for line in self.ledger],
            "contradiction": self.contradiction,
        }


def build_top(run: str, story: Story, live: RecentEvents, lines: int) -> TopView:
    """Put a frame together.

    Args:
        run: its name.
        story: the ledger, with its newest entries.
        live: of the newest events.
        lines: how many of the ledger's last records to put into words.
    """
    state = story.state
    status = build_status(run, state, live)
    counters = live.counters()
    newest = list(story.entries)[-lines:] if lines > 0 else []
    return TopView(
        status=status,
        versions_per_s=_rate(story, live),
        workers=_workers(status, story, live),
        newcomers=_newcomers(state, live),
        awaited=state.config.workers if state.has_begun and not state.first_names else 0,
        lags={one.name: max(0, state.version - one.version) for one in status.servers},
        failures={name: counters[name] for name in FAILURES if counters[name]},
        ledger=tuple(
            LedgerLine(
                offset=entry.offset,
                timestamp_ms=entry.timestamp_ms,
                counts=entry.counts,
                words=ledger_words(entry, story),
            )
            for entry in newest
        ),
        contradiction=story.contradiction,
    )


def _newcomers(state: RunState, live: RecentEvents) -> tuple[str, ...]:
    if not state.has_begun or state.ended is not None:
        return ()
    since_ms = live.newest_ms - 1000 * state.config.gone_after_ticks * state.config.tick_interval_s
    return tuple(
        one.name
        for one in live.of_role("worker")
        if one.seen_ms >= since_ms and not one.left and (one.name, one.incarnation) not in state.joined
    )


def _stamps(story: Story) -> list[int]:
    """Append times of the versions that are remembered."""
    return [one.timestamp_ms for one in story.entries if one.counts and isinstance(one.record, Version)]


def _rate(story: Story, live: RecentEvents) -> float | None:
    stamps = _stamps(story)
    if not stamps or story.state.ended is not None:
        return None
    now_ms = max(live.newest_ms, stamps[-1])
    since_ms = max(now_ms - RATE_MS, stamps[0])
    if now_ms <= since_ms:
        return None
    return round(1000 * sum(stamp > since_ms for stamp in stamps) / (now_ms - since_ms), 3)


def _workers(status: RunStatus, story: Story, live: RecentEvents) -> tuple[WorkerRow, ...]:
    stamps = _stamps(story)
    waiting = waited_for(story.state, live, stamps[-1] if stamps else 0)
    late = _last_staleness(story.state, story)
    return tuple(
        WorkerRow(
            name=one.name,
            staleness=late.get(one.name),
            behind=_behind(one.name, bytes.fromhex(one.incarnation), story.state, live),
            waits_for=waiting.get(one.name) if one.state == "live" else None,
        )
        for one in status.workers
    )


def _behind(name: str, incarnation: bytes, state: RunState, live: RecentEvents) -> int | None:
    member = live.members.get(("worker", name, incarnation))
    return None if member is None or member.version < 0 else max(0, state.version - member.version)


def _last_staleness(state: RunState, story: Story) -> dict[str, int]:
    """Staleness of the last contribution of each worker, as far back as entries are remembered."""
    found: dict[str, int] = {}
    for version in range(state.version, max(0, state.version - KEPT_ENTRIES), -1):
        for use in state.versions[version].uses:
            if use.kind == "delta":
                found.setdefault(story.name(use.group), use.staleness)
        if len(found) >= len(state.groups):
            break
    return found

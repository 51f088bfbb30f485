"""A ledger entry in one line, for people."""

import math
from collections import Counter

from driftline.observe.records.annotated_ledger import AnnotatedLedger, LedgerEntry
from driftline.observe.records.values import count
from driftline.schemas.records import (
    Checkpoint,
    Evaluation,
    Lease,
    LedgerRecord,
    Membership,
    Publish,
    Rejection,
    RunEnd,
    RunStart,
    TermStart,
    Version,
)
from driftline.schemas.records.sample_range import count as samples


def describe_entry(entry: LedgerEntry, ledger: AnnotatedLedger) -> str:
    """Describe what a record of the ledger decides, or why it does not count."""
    record = entry.record
    if not entry.counts or not isinstance(record, LedgerRecord):
        return printable(f"{'bytes' if record is None else f'a {type(record).__name__}'}, which {entry.note}")
    return printable(_decision(record, ledger))


def printable(text: str) -> str:
    """Return text without control characters: any client that writes a record chooses its words."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)


def _decision(record: LedgerRecord, ledger: AnnotatedLedger) -> str:  # noqa: C901, PLR0911 - one for each kind of record
    match record:
        case TermStart():
            return f"term {record.term}: {record.coordinator} coordinates"
        case RunStart():
            return f"the run starts, as {record.proposer} proposed: {count(len(record.shards), 'shard')}"
        case Membership():
            return _membership(record)
        case Lease():
            return _lease(record, ledger)
        case Version():
            return _version(record)
        case Publish():
            return f"version {record.version} is published"
        case Rejection():
            discarded = f"; {count(samples(record.burned), 'sample')} discarded" if record.burned else ""
            return f"clock {record.clock} of {ledger.name(record.group)} is rejected: {record.reason}{discarded}"
        case Evaluation():
            return f"version {record.version} measured: {_metrics(record)}"
        case Checkpoint():
            return f"version {record.version} is checkpointed: {count(len(record.places), 'tensor')} in the snapshots"
        case RunEnd():
            return f"the run {'fails' if record.failure else 'ends'}: {record.failure or record.reason}"


def _membership(record: Membership) -> str:
    parts = [f"{one.worker} is removed: {one.reason}" for one in record.removals]
    if record.joins:
        names = ", ".join(join.worker for join in record.joins)
        parts.append(f"{names} {'joins' if len(record.joins) == 1 else 'join'}")
    return "; ".join(parts) or "no worker joins or leaves"


def _lease(record: Lease, ledger: AnnotatedLedger) -> str:
    leased = Counter[str]()
    for grant in record.grants:
        leased[ledger.name(grant.group)] += grant.samples.count
    epochs = sorted({grant.samples.epoch for grant in record.grants})
    of = f"epoch {epochs[0]}" if len(epochs) == 1 else f"epochs {epochs[0]} to {epochs[-1]}" if epochs else "no epoch"
    shares = ", ".join(f"{number:,} to {worker}" for worker, number in leased.items())
    return f"samples of {of} are leased: {shares or 'none'}"


def _version(record: Version) -> str:
    used = [use for use in record.uses if use.kind == "delta"]
    words = [f"version {record.version} of {count(len(used), 'contribution')}"]
    skipped = len(record.uses) - len(used)
    if skipped:
        words.append(count(skipped, "skip"))
    if used:
        late = max(use.staleness for use in used)
        words.append(f"staleness {late}" if late == 0 else f"staleness up to {late}")
        weight = sum(use.weight for use in used)
        loss = sum(use.weight * use.loss for use in used) / weight if weight > 0 else math.nan
        words += [f"loss {loss:.4f}"] if math.isfinite(loss) else []
    return ", ".join([*words, "published"] if record.publish else words)


def _metrics(record: Evaluation) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in sorted(record.metrics.items())) or "nothing"

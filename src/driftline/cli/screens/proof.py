"""What ``driftline verify`` prints for people."""

from driftline.cli.screens.tables import table
from driftline.replay.verify.report import Report

_NOT_USED = (
    "ledger_void",
    "ledger_undecodable",
    "ledger_unread",
    "rejections",
    "removals",
    "deltas_unused",
    "deltas_duplicates",
    "deltas_conflicting",
    "deltas_unsound",
    "deltas_undecodable",
    "parameters_unsound",
    "parameters_undecodable",
)


def report_lines(run: str, report: Report) -> list[str]:
    """Return the result for people."""
    counts = report.counts
    unused = {name: count for name, count in counts.items() if name in _NOT_USED and count}
    since = f" from {report.first} on" if report.first else ""
    facts = [
        ("run", f"{run}, {'ended' if report.ended else 'not ended'}, at version {report.version}"),
        ("integrity", "ok" if report.integrity else "BROKEN"),
        ("digests", f"{report.equal} equal, {report.different} different, {report.unreached} not reached"),
        ("versions", f"{report.versions} recomputed{since}, {report.unproven} unproven, {report.between} between"),
        ("head", f"{report.head} (term {report.term})"),
        ("read", f"{counts['bytes'] / 1e6:.1f} MB, {counts['deltas_used']} deltas used"),
        ("not used", ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in unused.items()) or "nothing"),
        ("published", f"{counts['parameters_equal']} shards equal, {counts['parameters_different']} different"),
        ("computed by", ", ".join(f"{name} {what}" for name, what in report.environment.items())),
    ]
    if report.expected_head is not None:
        passed = report.expected_head
        facts.append(("expected", f"found after ledger offset {passed.offset} ({passed.record})"))
    return [*table(facts), *(f"alarm: {alarm}" for alarm in report.alarms)]

"""``driftline verify``: prove a run."""

import json
import re
from typing import TYPE_CHECKING

import click

from driftline.cli.options import Words, connection_options, json_option, say
from driftline.config.keys import RUN_NAME
from driftline.errors import IntegrityError, RunError

if TYPE_CHECKING:
    from driftline.replay.verify.verifier import Report

_HEAD = re.compile(r"[0-9a-fA-F]{16,64}")


def _head(_context: click.Context, _option: click.Parameter, value: str | None) -> str:
    if value is not None and not _HEAD.fullmatch(value):
        raise click.BadParameter(f"{value!r} is not 16 to 64 hexadecimal digits; `driftline verify` shows a run's head")
    return value or ""


@click.command(epilog="Example: driftline verify my-run")
@click.argument("run", required=False, envvar=RUN_NAME.variable)
@click.option(
    "--expect", metavar="HEAD", callback=_head, show_default=False,
    help="Prove that the ledger passes through this head, which was kept elsewhere: 16 or more of its hex digits.",
)  # fmt: skip
@connection_options
@json_option
def verify(run: str | None, *, expect: str, as_json: bool, **_settings: object) -> None:
    """Prove RUN: that its log is what it was, and that recomputing it gives the recorded bits.

    Joins no group and writes nothing. A run that is still going is proven up to the present end of its ledger. If the
    broker of --home is not running, it is started for as long as it is read.
    """
    from driftline.broker.topics import check_run_name  # noqa: PLC0415 - keeps --help fast

    words = Words()
    run = words.name(RUN_NAME, "RUN")
    words.problems.attempt(lambda: check_run_name(run) if run else "", "")
    connection = words.connection()
    words.problems.check()

    from driftline.ledger.entering.reading import check_run_exists  # noqa: PLC0415 - not needed to refuse
    from driftline.replay.verify.reading import verify_run  # noqa: PLC0415

    with connection.readable(say) as kafka:
        check_run_exists(kafka.broker, run)
        report = verify_run(kafka.broker, run, expect=expect, say=say)
    if as_json:
        click.echo(json.dumps(report.to_dict(), allow_nan=False))
    else:
        for line in report_lines(run, report):
            click.echo(line)
    if report.first_bad is not None:
        raise IntegrityError(f"run {run} is not what its log says: {report.first_bad}")
    if not report.is_proven:
        raise RunError(
            f"nothing of run {run} is proven: its ledger records no digest yet. They come with its first versions; "
            "look again when `driftline status` shows one"
        )


def report_lines(run: str, report: "Report") -> list[str]:
    """Return the result for people."""
    from driftline.cli.tables import table  # noqa: PLC0415 - keeps --help fast

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
        facts.append(("expected", f"found behind ledger offset {passed.offset} ({passed.record})"))
    return [*table(facts), *(f"alarm: {alarm}" for alarm in report.alarms)]


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

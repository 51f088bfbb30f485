"""``driftline show``: a record, a version, or the difference of two versions."""

import dataclasses
import json
from typing import TYPE_CHECKING

import click

from driftline.cli.options import Words, connection_options, json_option, say
from driftline.config.keys import RUN_NAME

if TYPE_CHECKING:
    from driftline.broker.port import Broker
    from driftline.observe.records.model_difference import ModelDifference
    from driftline.observe.records.places import Wanted
    from driftline.observe.records.record_view import RecordView
    from driftline.observe.records.version_view import VersionView


@click.command(epilog="Example: driftline show my-run ledger@-1 --json")
@click.argument("run", required=False, envvar=RUN_NAME.variable)
@click.argument("what", default="head")
@connection_options
@json_option
def show(run: str | None, what: str, *, as_json: bool, **_settings: object) -> None:
    """Show WHAT there is in RUN, decoded.

    \b
    driftline show RUN                 the newest version
    driftline show RUN 17              version 17: what went into it
    driftline show RUN 16..17          what changed between two published versions
    driftline show RUN ledger@12       a record of the ledger; @-1 is the last one
    driftline show RUN deltas/3@100    a record of partition 3 of the deltas

    The other streams are events, parameters and snapshots. Joins no group and writes nothing.
    """  # noqa: D301 - \b keeps click from joining the lines
    from driftline.broker.topics import check_run_name  # noqa: PLC0415 - keeps --help fast
    from driftline.observe.records.places import VersionWanted, parse_wanted  # noqa: PLC0415

    words = Words()
    run = words.name(RUN_NAME, "RUN")
    words.problems.attempt(lambda: check_run_name(run) if run else "", "")
    newest: Wanted = VersionWanted(None)
    wanted = words.problems.attempt(lambda: parse_wanted(what), newest)
    connection = words.connection()
    words.problems.check()

    from driftline.cli.show_tables import lines_of  # noqa: PLC0415 - not needed to refuse
    from driftline.ledger.entering.reading import check_run_exists  # noqa: PLC0415

    with connection.readable(say) as kafka:
        check_run_exists(kafka.broker, run)
        seen = _look(kafka.broker, run, wanted)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(seen), allow_nan=False))
        return
    for line in lines_of(seen):
        click.echo(line)


def _look(broker: "Broker", run: str, wanted: "Wanted") -> "RecordView | VersionView | ModelDifference":
    from driftline.observe.records.finding import read_difference, read_record, read_story  # noqa: PLC0415 - as above
    from driftline.observe.records.places import RecordPlace, TwoVersions  # noqa: PLC0415
    from driftline.observe.records.record_view import view_record  # noqa: PLC0415
    from driftline.observe.records.version_view import check_version, view_version  # noqa: PLC0415

    if isinstance(wanted, RecordPlace):
        place, found = read_record(broker, run, wanted)
        return view_record(place, found, read_story(broker, run, say))  # the ledger last, so that it holds the record
    story = read_story(broker, run, say)
    if story.contradiction:
        say(f"the ledger contradicts itself, so it ends early: {story.contradiction}")
    if isinstance(wanted, TwoVersions):
        both = (check_version(wanted.first, story.state), check_version(wanted.second, story.state))
        return read_difference(broker, run, story, both, say)
    return view_version(run, check_version(wanted.version, story.state), story)

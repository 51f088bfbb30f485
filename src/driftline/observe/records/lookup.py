"""Reads what a person selects of a run: one record by its position, or the parameters of two versions.

Joins no group, writes nothing.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from driftline.broker.port import Bounds, Broker, Record, Start
from driftline.broker.reading import until_end
from driftline.broker.topics import Stream, topic_name
from driftline.errors import RunRefused, Undecodable, UsageError
from driftline.ledger.follower import Follower, Model
from driftline.ledger.run_state import RunState
from driftline.observe.records.model_difference import ModelDifference, compare_models
from driftline.observe.records.selection import RecordPosition
from driftline.schemas.codec import decode
from driftline.schemas.records import Parameters

Say = Callable[[str], None]


def read_record(broker: Broker, run: str, wanted: RecordPosition) -> tuple[RecordPosition, Record]:
    """Read one record; return its position, with an offset from the beginning, and the record.

    Raises:
        UsageError: there is no such partition or offset; says which there are.
        TopicMissing: the run does not have the topic.
    """
    topic = topic_name(run, wanted.stream)
    admin = broker.admin()
    try:
        bounds = admin.bounds(topic)
    finally:
        admin.close()
    if wanted.partition not in bounds:
        raise UsageError(f"{wanted}: {wanted.stream.value} has partitions 0 to {len(bounds) - 1}")
    at = replace(wanted, offset=_offset(wanted, bounds[wanted.partition]))
    records = until_end(broker, topic, at.partition, at.offset)
    try:
        found = next(records, None)
    finally:
        records.close()
    if found is None:
        raise UsageError(f"{at} is not there any more: the log ends before it, or what was there has been deleted")
    if found.offset != at.offset:
        raise UsageError(f"{at} was compacted away; the next record is {replace(at, offset=found.offset)}")
    return at, found


def _offset(wanted: RecordPosition, bounds: Bounds) -> int:
    offset = wanted.offset if wanted.offset >= 0 else bounds.end + wanted.offset
    if bounds.begin <= offset < bounds.end:
        return offset
    if bounds.begin == bounds.end:
        raise UsageError(f"{wanted}: nothing is there; the next record will be {replace(wanted, offset=bounds.end)}")
    deleted = f", what was before offset {bounds.begin} has been deleted" if 0 <= offset < bounds.begin else ""
    raise UsageError(f"{wanted}: there are offsets {bounds.begin} to {bounds.end - 1}{deleted}")


def read_difference(
    broker: Broker, run: str, state: RunState, versions: tuple[int, int], say: Say | None = None
) -> ModelDifference:
    """Read the parameters of two versions and compare them.

    Args:
        broker: where the run's topics are.
        run: its name.
        state: fold of the whole ledger.
        versions: that the ledger has.
        say: receives a line of progress every two seconds.

    Raises:
        UsageError: a version was never published; names the published ones near it.
        RunRefused: the parameters of a version are gone.
        TopicMissing: all parameters are gone.
        WaitTimeout: Kafka stopped answering.
    """
    for version in versions:
        if version not in state.publish_points:
            raise UsageError(f"version {version} was applied and not published; {_published_near(version, state)}")
    models = read_parameters(broker, run, state, versions, say)
    gone = next((version for version in versions if version not in models), None)
    if gone is not None:
        raise RunRefused(
            f"parameters of version {gone} are not in the log of run {run!r}: retention has deleted them, or its "
            f"servers ended before they wrote them"
        )
    first, second = (models[version] for version in versions)
    return compare_models(run, state.layout, (first.version, first.flat), (second.version, second.flat))


def read_parameters(
    broker: Broker, run: str, state: RunState, versions: Collection[int], say: Say | None = None
) -> dict[int, Model]:
    """Return the models of those versions whose parameters are complete in the log.

    Args:
        broker: where the run's topics are.
        run: its name.
        state: fold of the whole ledger.
        versions: that were published.
        say: receives a line of progress every two seconds.

    Raises:
        TopicMissing: all parameters are gone.
        WaitTimeout: Kafka stopped answering.
    """
    followers = {version: Follower(state) for version in versions}
    for partition in range(state.layout.partitions):
        for record in until_end(broker, topic_name(run, Stream.PARAMETERS), partition, Start.BEGINNING, say):
            follower = followers.get(_version_of(record.value))
            if follower is not None:
                follower.on_parameters(record.value)
    return {version: one.newest for version, one in followers.items() if one.newest is not None}


def _version_of(value: bytes | None) -> int:
    try:
        record = decode(value)
    except Undecodable:
        return -1
    return record.version if isinstance(record, Parameters) else -1


def _published_near(version: int, state: RunState) -> str:
    before = max((point for point in state.publish_points if point < version), default=None)
    after = min((point for point in state.publish_points if point > version), default=None)
    return f"published were {' and '.join(str(point) for point in (before, after) if point is not None)}"

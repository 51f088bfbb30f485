"""Finding what a person wants to see of a run: one record by its place, or the parameters of versions.

Joins no group, writes nothing.
"""

from collections.abc import Callable
from dataclasses import replace

from driftline.broker.port import Bounds, Broker, Record
from driftline.broker.topics import Stream, topic_name
from driftline.errors import RunRefused, TopicMissing, UsageError
from driftline.ledger.entering.reading import until_end
from driftline.observe.records.model_difference import ModelDifference, PublishedModels, compare_models
from driftline.observe.records.places import RecordPlace
from driftline.observe.records.story import Story

Say = Callable[[str], None]


def read_story(broker: Broker, run: str, say: Say | None = None, keep: int | None = None) -> Story:
    """Read a run's ledger up to its present end, contradictions included.

    Args:
        broker: where the run's topics are.
        run: its name.
        say: told every two seconds how far it is.
        keep: entries to remember; None for all.

    Raises:
        TopicMissing: there is no such run.
        WaitTimeout: Kafka stopped answering.
    """
    story = Story(keep)
    for record in until_end(broker, topic_name(run, Stream.LEDGER), 0, 0, say):
        story.read(record)
    return story


def read_record(broker: Broker, run: str, place: RecordPlace) -> tuple[RecordPlace, Record]:
    """Read one record, and say where it is, counted from the beginning.

    Raises:
        UsageError: there is no such partition or offset; says which there are.
        TopicMissing: the run does not have the topic.
    """
    topic = topic_name(run, place.stream)
    at = replace(place, offset=_offset(place, _bounds(broker, topic, place)))
    records = until_end(broker, topic, at.partition, at.offset, None)
    try:
        found = next(records, None)
    finally:
        records.close()
    if found is None:
        raise UsageError(f"{at} is not there any more: the log ends before it, or what was there has been deleted")
    if found.offset != at.offset:
        raise UsageError(f"{at} was compacted away; the next record is {replace(at, offset=found.offset)}")
    return at, found


def _bounds(broker: Broker, topic: str, place: RecordPlace) -> Bounds:
    admin = broker.admin()
    try:
        bounds = admin.bounds(topic)
    finally:
        admin.close()
    if place.partition not in bounds:
        raise UsageError(f"{place}: {place.stream.value} has partitions 0 to {len(bounds) - 1}")
    return bounds[place.partition]


def _offset(place: RecordPlace, bounds: Bounds) -> int:
    offset = place.offset if place.offset >= 0 else bounds.end + place.offset
    if bounds.begin <= offset < bounds.end:
        return offset
    if bounds.begin == bounds.end:
        raise UsageError(f"{place}: nothing is there; the next record will be {replace(place, offset=bounds.end)}")
    deleted = f", what was before offset {bounds.begin} has been deleted" if 0 <= offset < bounds.begin else ""
    raise UsageError(f"{place}: there are offsets {bounds.begin} to {bounds.end - 1}{deleted}")


def read_difference(
    broker: Broker, run: str, story: Story, versions: tuple[int, int], say: Say | None = None
) -> ModelDifference:
    """Read the parameters of two versions and compare them.

    Raises:
        UsageError: a version was never published, or its parameters are gone; names those near it that may be there.
        TopicMissing: the parameters are gone.
        WaitTimeout: Kafka stopped answering.
    """
    first, second = versions
    state = story.state
    for version in versions:
        if version not in state.publish_points:
            raise UsageError(f"version {version} was applied and not published; {_published_near(version, story)}")
    models = PublishedModels(state, versions)
    for partition in range(state.layout.partitions):
        _collect(broker, run, partition, models, say)
    gone = models.incomplete()
    if gone:
        raise RunRefused(
            f"parameters of version {gone[0]} are not in the log of run {run!r}: retention has deleted them, or its "
            f"servers ended before they wrote them"
        )
    return compare_models(run, state.layout, (first, models.models[first]), (second, models.models[second]))


def _collect(broker: Broker, run: str, partition: int, models: PublishedModels, say: Say | None) -> None:
    topic = topic_name(run, Stream.PARAMETERS)
    if models.has_partition(partition):
        return  # a tiny model leaves partitions empty
    admin = broker.admin()
    try:
        bounds = admin.bounds(topic).get(partition)
    finally:
        admin.close()
    if bounds is None:
        raise TopicMissing(f"topic {topic} has no partition {partition}, which the run has")
    records = until_end(broker, topic, partition, bounds.begin, say)
    try:
        for record in records:
            models.take(record.value)
            if models.has_partition(partition):
                return
    finally:
        records.close()


def _published_near(version: int, story: Story) -> str:
    points = sorted(story.state.publish_points)
    before = max((point for point in points if point < version), default=None)
    after = min((point for point in points if point > version), default=None)
    return f"published were {' and '.join(str(point) for point in (before, after) if point is not None)}"

"""Topics are created once and as requested, and report where they begin and end."""

import pytest

from driftline.broker.port import Bounds, Record, Start, TopicSpec
from driftline.broker.topics import run_topics
from driftline.errors import BrokerError, TopicMissing
from tests.contract.support import Lab, until, write


def test_topics_can_be_used_as_soon_as_they_are_created(lab: Lab) -> None:
    admin, producer, reader = lab.admin(), lab.producer(), lab.reader()
    specs = run_topics(lab.unique("run"), 2)
    admin.create(specs)
    assert {spec.name: spec.partitions for spec in specs}.items() <= admin.topics().items()
    write(producer, specs[0].name, 1, b"x")
    reader.read(specs[0].name, 1, Start.BEGINNING)
    assert until(reader, Record).value == b"x"


def test_creating_the_same_topics_again_keeps_what_they_hold(lab: Lab) -> None:
    topic, producer, admin = lab.topic(partitions=2), lab.producer(), lab.admin()
    write(producer, topic, 0, b"x")
    admin.create([TopicSpec(topic, 2)])
    assert admin.bounds(topic) == {0: Bounds(0, 1), 1: Bounds(0, 0)}


def test_another_number_of_partitions_is_refused_with_both_numbers(lab: Lab) -> None:
    topic, admin, other = lab.topic(partitions=2), lab.admin(), lab.unique("other")
    with pytest.raises(BrokerError, match=rf"{topic} exists with 2 partitions, not 3"):
        admin.create([TopicSpec(other, 1), TopicSpec(topic, 3)])
    assert other not in admin.topics()


@pytest.mark.parametrize("name", ["my run/1", "☃", "a" * 250, ""])
def test_a_name_that_kafka_does_not_allow_is_refused(lab: Lab, name: str) -> None:
    with pytest.raises(BrokerError, match="topic"):
        lab.admin().create([TopicSpec(name, 1)])


def test_deleted_topics_are_gone_and_can_be_deleted_again(lab: Lab) -> None:
    topic, admin = lab.topic(), lab.admin()
    admin.delete([topic, lab.unique("missing")])
    assert topic not in admin.topics()
    admin.delete([topic])
    with pytest.raises(TopicMissing, match=topic):
        admin.bounds(topic)


def test_a_topic_created_again_begins_at_zero(lab: Lab) -> None:
    topic, producer, admin = lab.topic(), lab.producer(), lab.admin()
    write(producer, topic, 0, b"x", b"y")
    admin.delete([topic])
    admin.create([TopicSpec(topic, 1)])
    assert admin.bounds(topic) == {0: Bounds(0, 0)}


def test_bounds_follow_what_is_written_and_trimmed(lab: Lab) -> None:
    topic, producer, admin = lab.topic(partitions=2), lab.producer(), lab.admin()
    write(producer, topic, 0, b"a", b"b", b"c")
    write(producer, topic, 1, b"d")
    assert admin.bounds(topic) == {0: Bounds(0, 3), 1: Bounds(0, 1)}
    admin.trim(topic, {0: 2})
    admin.trim(topic, {0: 1})
    assert admin.bounds(topic) == {0: Bounds(2, 3), 1: Bounds(0, 1)}


def test_a_healthy_topic_takes_records_and_a_missing_one_is_named(lab: Lab) -> None:
    admin, missing = lab.admin(), lab.unique("missing")
    assert admin.why_not_writable(lab.topic(partitions=2)) == []
    with pytest.raises(TopicMissing, match=missing):
        admin.why_not_writable(missing)


def test_trimming_beyond_the_end_or_a_missing_partition_is_refused(lab: Lab) -> None:
    topic, admin = lab.topic(), lab.admin()
    with pytest.raises(BrokerError, match=rf"{topic}\[0\].* to 1"):
        admin.trim(topic, {0: 1})
    with pytest.raises(TopicMissing, match=topic):
        admin.trim(topic, {5: 0})
    with pytest.raises(TopicMissing):
        admin.trim(lab.unique("missing"), {0: 0})


def test_settings_of_topics_can_be_read_back(lab: Lab) -> None:
    admin, missing = lab.admin(), lab.unique("missing")
    (ledger,) = [spec for spec in run_topics(lab.unique("run"), 1) if spec.name.endswith("ledger")]
    admin.create([ledger])
    assert ledger.config.items() <= admin.configs([ledger.name])[ledger.name].items()
    assert admin.configs([]) == {}
    with pytest.raises(TopicMissing):
        admin.configs([missing])


def test_topics_can_be_asked_for_by_name(lab: Lab) -> None:
    topic, admin, missing = lab.topic(partitions=2), lab.admin(), lab.unique("missing")
    assert admin.topics([topic, missing]) == {topic: 2}
    assert admin.topics([]) == {}

"""Topic names are safe in every Kafka, and retention fits each stream's use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftline.broker.topics import (
    MAX_TOPIC_CHARS,
    Stream,
    check_prefix,
    check_run_name,
    parse_topic,
    run_topics,
    topic_name,
)
from driftline.errors import UsageError

_LONGEST = MAX_TOPIC_CHARS - len("driftline..parameters")
legal_runs = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}", fullmatch=True)


@pytest.mark.parametrize("run", ["a", "7", "digits-2", "Run_3", "x" * _LONGEST])
def test_legal_names_pass_unchanged(run: str) -> None:
    assert check_run_name(run) == run
    assert all(len(spec.name) <= MAX_TOPIC_CHARS for spec in run_topics(run, 1))


@pytest.mark.parametrize("run", ["", "my run/1", "a.b", "-a", "_a", "café", "☃", "a\n", "a b", "..", "a" * 228 + "é"])
def test_an_illegal_name_is_refused_with_value_rule_and_example(run: str) -> None:
    with pytest.raises(UsageError, match=r"must start with a letter or digit.*an example is") as caught:
        check_run_name(run)
    assert repr(run) in str(caught.value)


def test_a_name_too_long_is_refused_with_its_length_and_the_limit() -> None:
    with pytest.raises(UsageError, match=rf"has {_LONGEST + 1} characters: at most {_LONGEST}"):
        check_run_name("x" * (_LONGEST + 1))


def test_a_longer_prefix_leaves_less_room_for_the_run() -> None:
    check_run_name("x" * (_LONGEST - 5), "team-driftline"[:14])
    with pytest.raises(UsageError, match="at most"):
        check_run_name("x" * (_LONGEST - 4), "team-driftline"[:14])


@pytest.mark.parametrize("prefix", ["", ".a", "a.", "a b", "-a"])
def test_an_illegal_prefix_is_refused(prefix: str) -> None:
    with pytest.raises(UsageError, match="topic prefix"):
        check_prefix(prefix)


@given(legal_runs, st.sampled_from(Stream), st.sampled_from(["driftline", "team-a.driftline"]))
def test_a_name_splits_back_into_run_and_stream(run: str, stream: Stream, prefix: str) -> None:
    assert parse_topic(topic_name(run, stream, prefix), prefix) == (run, stream)


@pytest.mark.parametrize(
    "name", ["driftline.a", "driftline.a.b", "driftline.a.b.deltas", "other.a.deltas", "deltas", ""]
)
def test_topics_of_other_programs_are_not_parsed(name: str) -> None:
    assert parse_topic(name) is None


@given(legal_runs, legal_runs)
def test_no_two_runs_collide_where_kafka_writes_dots_as_underscores(one: str, other: str) -> None:
    names = [{spec.name.replace(".", "_") for spec in run_topics(run, 1)} for run in (one, other)]
    assert one == other or not names[0] & names[1]


def test_only_sharded_streams_have_several_partitions() -> None:
    partitions = {parse_topic(spec.name): spec.partitions for spec in run_topics("r", 4)}
    assert partitions == {
        ("r", Stream.DELTAS): 4,
        ("r", Stream.EVENTS): 1,
        ("r", Stream.LEDGER): 1,
        ("r", Stream.PARAMETERS): 4,
        ("r", Stream.SNAPSHOTS): 4,
    }


def test_ledger_and_deltas_are_kept_for_ever_and_only_snapshots_are_compacted() -> None:
    config = {spec.name.rpartition(".")[2]: spec.config for spec in run_topics("r", 1)}
    for stream in ("deltas", "ledger"):
        assert (config[stream]["retention.ms"], config[stream]["retention.bytes"]) == ("-1", "-1")
    assert [name for name in config if config[name]["cleanup.policy"] == "compact"] == ["snapshots"]
    assert all(each["message.timestamp.type"] == "LogAppendTime" for each in config.values())
    assert all(each["unclean.leader.election.enable"] == "false" for each in config.values())


def test_partitions_must_be_positive() -> None:
    with pytest.raises(UsageError, match="0 partitions"):
        run_topics("r", 0)

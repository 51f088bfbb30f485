"""Findings about a Kafka, from facts, and the commands that an administrator has to run."""

import dataclasses
import os
import shlex
import socket
from typing import Any

import pytest
from click.testing import CliRunner

from driftline.broker.kafka.admin import Address
from driftline.broker.topic_check import topic_differences
from driftline.broker.topics import run_topics
from driftline.cli import main
from driftline.config.problems import Problems
from driftline.observe.doctor.examine import clock_ahead_s, why_unreachable
from driftline.observe.doctor.findings import NOTE, OK, PROBLEM, Facts, Finding, findings, missing_rights
from driftline.observe.doctor.rights import PLACEHOLDERS, ROLES, commands, heading, read_principals, rights_of
from driftline.testing import ManualClock
from driftline.testing.memory import MemoryBroker

NODE = Address(1, "kafka-1", 9092)
SETTINGS = {
    "message.max.bytes": "1048588",
    "replica.fetch.max.bytes": "1048576",
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "default.replication.factor": "1",
}
SOUND = Facts(answer_s=0.1, client="librdkafka", addresses=(NODE,), settings=SETTINGS, clock_ahead_s=0.01)


def said(**changes: Any) -> list[Finding]:
    """Return what is no good news about a sound Kafka with something changed."""
    facts = dataclasses.replace(SOUND, **changes)
    return [one for one in findings(facts) if one.level != OK]


def test_a_sound_kafka_has_no_findings_but_ok() -> None:
    """And each thing that was looked at is mentioned."""
    assert said() == []
    assert {"answer", "address", "limits", "groups", "copies", "clock"} == {one.subject for one in findings(SOUND)}


WRONG: list[tuple[dict[str, object], str, str]] = [
    ({"unreachable": {NODE: "that name does not resolve from here"}}, PROBLEM, "advertised as kafka-1:9092, and that"),
    ({"settings": SETTINGS | {"message.max.bytes": "500000"}}, NOTE, "at least 1000128 is needed; the topics of a run"),
    ({"settings": SETTINGS | {"replica.fetch.max.bytes": "65536"}}, NOTE, "replica.fetch.max.bytes is 65536"),
    ({"settings": SETTINGS | {"group.min.session.timeout.ms": "10000"}}, PROBLEM, "at most 6000 is needed"),
    ({"settings": SETTINGS | {"group.max.session.timeout.ms": "5000"}}, PROBLEM, "at least 6000 is needed"),
    (
        {
            "settings": SETTINGS
            | {"group.coordinator.rebalance.protocols": "consumer", "group.consumer.session.timeout.ms": "45000"}
        },
        NOTE,
        "a dead one is noticed after 45 s",
    ),
    ({"addresses": (NODE, Address(2, "b", 1))}, NOTE, "default.replication.factor is 1: a run is lost"),
    ({"settings": None, "settings_problem": "no right"}, NOTE, "not examined: no right"),
    ({"clock_ahead_s": 3 * 3600.0}, PROBLEM, "this machine's clock is 3.0 h ahead of Kafka's; set it by NTP"),
    ({"clock_ahead_s": -90.0}, PROBLEM, "this machine's clock is 1.5 min behind Kafka's"),
    ({"clock_ahead_s": 5.0}, NOTE, "5.00 s ahead of Kafka's"),
    ({"clock_ahead_s": None, "clock_problem": "no topic may be made"}, NOTE, "not compared: no topic may be made"),
]


@pytest.mark.parametrize(("changes", "level", "text"), WRONG, ids=[text for _, _, text in WRONG])
def test_each_problem_has_its_level_and_its_words(changes: dict[str, object], level: str, text: str) -> None:
    """Only what keeps a run from working is a problem."""
    (found,) = said(**changes)
    assert found.level == level
    assert text in found.text


def test_rights_are_held_against_each_role() -> None:
    """Of topics that exist; a client that can be nothing is a problem."""
    everything = {f"{right.kind} {right.name}": {right.operation} for right in rights_of("worker", "r")}
    for role in ("server", "reader"):
        for right in rights_of(role, "r"):
            everything.setdefault(f"{right.kind} {right.name}", set())
    facts = dataclasses.replace(SOUND, run="r", operations={name: frozenset(may) for name, may in everything.items()})
    assert missing_rights(facts, "worker") == []
    levels = {
        one.text.split()[1]: one.level for one in findings(facts) if one.subject == "rights" and "lacks" in one.text
    }
    assert levels == {"server": NOTE, "evaluator": NOTE, "reader": NOTE, "owner": NOTE}
    nothing = dataclasses.replace(facts, operations=dict.fromkeys(everything, frozenset[str]()))
    assert {one.level for one in findings(nothing) if one.subject == "rights"} == {PROBLEM}


def test_topics_that_do_not_fit_are_a_problem() -> None:
    """With the command that changes them."""
    specs = run_topics("r", 4)
    configs = {specs[0].name: {"retention.ms": "5"}}
    facts = dataclasses.replace(SOUND, run="r", differences=topic_differences(specs, {}, configs))
    assert any(one.level == PROBLEM and "kafka-configs.sh" in one.text for one in findings(facts))


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (5, "5 of 5 topics of run r are there and fit"),
        (2, "2 of 5 topics of run r are there and fit, the others could be made"),
    ],
)
def test_existing_topics_are_counted(there: int, said: str) -> None:
    """And others are spoken of only if there are any."""
    names = [f"topic {spec.name}" for spec in run_topics("r", 4)[:there]]
    facts = dataclasses.replace(SOUND, run="r", operations=dict.fromkeys(names, frozenset[str]()))
    assert [one.text for one in findings(facts) if one.subject == "topics"] == [said]


@pytest.mark.parametrize("hours", [-5, 0, 7])
def test_the_clocks_are_compared_by_a_record_and_nothing_stays_behind(hours: int) -> None:
    """Hours ahead, hours behind; the topic of the probe is gone."""
    kafka_s = 1_700_000_000.0
    broker = MemoryBroker(ManualClock().now_s, epoch_ms=round(kafka_s * 1000))
    ahead_s = clock_ahead_s(broker, lambda: kafka_s + hours * 3600)
    assert ahead_s == pytest.approx(hours * 3600, abs=1.0)
    assert broker.admin().topics() == {}


def test_an_advertised_address_is_tried() -> None:
    """By name and by connection."""
    assert why_unreachable(Address(1, "no-such-host.invalid", 9092)) == "that name does not resolve from here"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert why_unreachable(Address(1, "127.0.0.1", port)) == ""
    assert "no connection is possible there (127.0.0.1: " in why_unreachable(Address(1, "127.0.0.1", port))


def test_the_administrators_commands_name_every_topic_and_right_once() -> None:
    """For the principals that were named, and words in capitals for the others."""
    problems = Problems()
    named = read_principals(["worker=User:ada", "server=User:CN=box,O=us"], problems)
    assert not problems.found
    lines = commands("r", 6, named, "kafka:9093")
    assert len(lines) == len(set(lines))
    assert [line.split()[0] for line in lines[:5]] == ["kafka-topics.sh"] * 5
    for role in ROLES:
        for right in rights_of(role, "r"):
            assert right.command(named[role], "kafka:9093") in lines
    assert any("User:READER" in line for line in lines)
    assert heading(named).endswith("; --principal ROLE=PRINCIPAL names EVALUATOR, READER, OWNER:")
    assert (
        heading(dict.fromkeys(ROLES, "User:ada"))
        == "An administrator runs those of these commands that are not done yet:"
    )
    assert all(shlex.split(line)[2] == "kafka:9093" for line in lines)
    assert PLACEHOLDERS.keys() == set(ROLES)


@pytest.mark.parametrize(
    ("pair", "said"), [("boss=User:a", "'boss' is no role"), ("worker=ada", "'ada' is no principal")]
)
def test_a_wrong_principal_is_refused_with_an_example(pair: str, said: str) -> None:
    """Beside everything else that is wrong."""
    env = {name: None for name in os.environ if name.startswith("DRIFTLINE_")}
    words = ["doctor", "a/b", "--principal", pair, "--partitions", "0", "--bootstrap-servers", "127.0.0.1:9"]
    done = CliRunner().invoke(main, words, env=env)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "=User:ada" in done.stderr
    assert "run name 'a/b'" in done.stderr

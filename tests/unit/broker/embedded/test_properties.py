"""The properties of one node: addresses, limits, and text that Java reads back."""

import re

import pytest

from driftline.broker.embedded.cluster import NodeAddress
from driftline.broker.embedded.properties import node_properties, render

ONE = (NodeAddress(1, 20001, 20002),)
THREE = (NodeAddress(1, 20001, 20002), NodeAddress(2, 20003, 20004), NodeAddress(3, 20005, 20006))


def unescape(text: str) -> str:
    """Read an escaped word as java.util.Properties does."""
    units = re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), text)
    plain = re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], units)
    return plain.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


def test_a_node_listens_on_the_loopback_address_only() -> None:
    """No other machine can reach it."""
    told = node_properties(ONE[0], ONE)
    addresses = [told["listeners"], told["advertised.listeners"], told["controller.quorum.voters"]]
    hosts = {host for text in addresses for host in re.findall(r"(?://|@)([^:,]*):", text)}
    assert hosts == {"127.0.0.1"}


def test_message_sizes_are_left_at_kafkas_defaults() -> None:
    """What fits this broker fits any: no setting that limits a message is changed."""
    told = node_properties(ONE[0], ONE)
    assert not {name for name in told if "message.max" in name or "fetch.max" in name or "request.max" in name}


def test_topics_are_never_created_by_accident_and_times_are_the_brokers() -> None:
    """A misspelt topic is an error; a record's time is its append time."""
    told = node_properties(ONE[0], ONE)
    assert told["auto.create.topics.enable"] == "false"
    assert told["log.message.timestamp.type"] == "LogAppendTime"


def test_group_timeouts_respect_their_own_minimums() -> None:
    """Otherwise Kafka exits at the start."""
    told = {name: int(value) for name, value in node_properties(ONE[0], ONE).items() if value.isdecimal()}
    for what in ("session.timeout", "heartbeat.interval"):
        assert told[f"group.consumer.{what}.ms"] >= told[f"group.consumer.min.{what}.ms"]
    assert told["group.consumer.session.timeout.ms"] > told["group.consumer.heartbeat.interval.ms"]


@pytest.mark.parametrize(("peers", "replicas", "in_sync"), [(ONE, "1", "1"), (THREE, "3", "2")])
def test_replication_follows_the_number_of_nodes(peers: tuple[NodeAddress, ...], replicas: str, in_sync: str) -> None:
    """One node keeps one copy; three keep three and accept a write when two have it."""
    told = node_properties(peers[-1], peers)
    assert told["node.id"] == str(len(peers))
    assert told["default.replication.factor"] == told["offsets.topic.replication.factor"] == replicas
    assert told["min.insync.replicas"] == in_sync
    assert len(told["controller.quorum.voters"].split(",")) == len(peers)


def test_extra_settings_replace_ours() -> None:
    """A caller may replace any of them."""
    assert node_properties(ONE[0], ONE, {"num.io.threads": "8"})["num.io.threads"] == "8"


@pytest.mark.parametrize("value", ["plain", "a b", "a=b\\c", "größe", "line\nbreak", "日本 \U0001f600", "~/a,b: c#!"])
def test_any_text_survives_the_properties_file(value: str) -> None:
    """The file is ASCII, and Java reads the same text."""
    text = render({"k": value})
    assert text.isascii()
    assert text.count("\n") == 1
    assert unescape(text.rstrip("\n").partition("=")[2]) == value

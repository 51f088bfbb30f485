"""How Kafka's group protocols differ: what a returning member owns, and how soon a death is noticed."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.kafka.settings import GroupProtocol
from driftline.broker.port import Assigned, GroupReader, Revoked, Start, TopicSpec
from driftline.errors import BrokerError
from tests.contract.support import DEADLINE_S, settle, until

pytestmark = pytest.mark.kafka

LONG_S = 60.0
"""A session that no test here lives to see the end of."""

MEMBER = """
import sys
from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.port import Assigned, Start
servers, topic, group = sys.argv[1:]
reader = KafkaBroker(KafkaSettings(servers)).group_reader(topic, group, "dies", Start.END)
while True:
    if isinstance(reader.poll(0.1), Assigned):
        print("owner", flush=True)
"""

Join = Callable[[str], GroupReader]


@pytest.fixture
def topic(kafka_bootstrap: str, unique_name: Callable[[str], str]) -> str:
    """A topic of four partitions."""
    name = unique_name("topic")
    admin = KafkaBroker(KafkaSettings(kafka_bootstrap)).admin()
    admin.create([TopicSpec(name, 4)])
    admin.close()
    return name


@pytest.fixture
def static(kafka_bootstrap: str, unique_name: Callable[[str], str], topic: str) -> Iterator[Join]:
    """Joins one group as a static member."""
    settings = KafkaSettings(kafka_bootstrap, session_timeout_s=LONG_S, group_protocol=GroupProtocol.STATIC)
    group, readers = unique_name("group"), []

    def join(member: str) -> GroupReader:
        readers.append(KafkaBroker(settings).group_reader(topic, group, member, Start.END))
        return readers[-1]

    yield join
    for reader in readers:
        reader.close()


@pytest.mark.parametrize("member", ["server-1", "Ärger mit: dem 2. Server"])
def test_a_static_member_that_comes_back_has_its_partitions_again(static: Join, member: str) -> None:
    """Long before its session ends, and without disturbing the other members; names are as free as those of servers."""
    readers, owned = {"stays": static("stays"), member: static(member)}, dict[str, set[int]]()
    _share(readers, owned)
    readers.pop(member).close()
    returned = static(member)
    deadline_s = time.monotonic() + DEADLINE_S
    while not isinstance(found := returned.poll(0.05), Assigned):
        assert time.monotonic() < deadline_s
        assert not isinstance(readers["stays"].poll(0.05), Assigned | Revoked)
    assert set(found.partitions) == owned[member]


def _share(readers: dict[str, GroupReader], owned: dict[str, set[int]]) -> None:
    owned |= {name: set() for name in readers}
    deadline_s = time.monotonic() + DEADLINE_S
    while any(len(partitions) != 2 for partitions in owned.values()):
        assert time.monotonic() < deadline_s, owned
        for name, reader in readers.items():
            match reader.poll(0.02):
                case Assigned(partitions):
                    owned[name] |= set(partitions)
                case Revoked(partitions):
                    owned[name] -= set(partitions)
                case _:
                    pass


def test_of_two_static_members_of_one_name_the_earlier_ends_with_the_reason(static: Join) -> None:
    """A process that counted as dead and was replaced must not go on beside its successor."""
    earlier = static("server-1")
    until(earlier, Assigned)
    later = static("server-1")
    until(later, Assigned)
    with pytest.raises(BrokerError, match="with the same name: give each process its own --name"):
        until(earlier, Assigned)
    assert not isinstance(later.poll(0.5), Revoked)


def test_on_the_embedded_broker_a_killed_member_is_replaced_within_moments(
    kafka_bootstrap: str, unique_name: Callable[[str], str], topic: str
) -> None:
    """The protocol is chosen automatically: a classic member would hold its partitions for six seconds.

    A busy machine gets half of that.
    """
    group = unique_name("group")
    reader = KafkaBroker(KafkaSettings(kafka_bootstrap)).group_reader(topic, group, "stays", Start.END)
    owned: dict[str, set[int]] = {"stays": set()}
    everything = {"stays": {0, 1, 2, 3}}
    try:
        settle({"stays": reader}, owned, everything)
        command = [sys.executable, "-c", MEMBER, kafka_bootstrap, topic, group]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
            until(reader, Revoked)
            assert other.stdout is not None
            assert other.stdout.readline() == b"owner\n"
            other.kill()
            began_s = time.monotonic()
        owned["stays"] = everything["stays"] - set(until(reader, Assigned).partitions)
        assert time.monotonic() - began_s < 3.0
    finally:
        reader.close()

"""Nodes of a broker that faults hit twice: what a later fault does is not what an earlier one undoes."""

import signal
import threading
from collections.abc import Callable
from typing import cast

import pytest

from driftline.broker.embedded import EmbeddedBroker
from driftline.broker.embedded.process import Launch
from driftline.broker.kafka import KafkaBroker
from driftline.errors import EmbeddedBrokerError
from driftline.launch.nodes import Nodes


class Three:
    """Three nodes that start at once; ``before`` is called before each start, and may let it fail."""

    nodes = (1, 2, 3)

    def __init__(self) -> None:
        self.launches = {number: Launch(number, f"first-{number}", aot=False) for number in self.nodes}
        self.before: Callable[[int], None] = lambda _number: None
        self.starts: list[int] = []
        self.is_used = False

    def running(self, number: int) -> Launch | None:
        return self.launches.get(number)

    def signal(self, number: int, sent: signal.Signals) -> Launch | None:
        return self.launches.pop(number, None) if sent is signal.SIGKILL else self.launches.get(number)

    def revive(self, number: int) -> None:
        self.starts.append(number)
        self.before(number)
        self.launches.setdefault(number, Launch(number, f"later-{len(self.starts)}", aot=False))

    def start(self) -> None:
        self.is_used = True
        for number in self.nodes:
            self.revive(number)

    def release(self) -> None:
        self.is_used = False


@pytest.fixture
def three() -> Three:
    """All of them run."""
    return Three()


@pytest.fixture
def nodes(three: Three) -> Nodes:
    """Be those who disturb them."""
    return Nodes(cast("EmbeddedBroker", three), cast("KafkaBroker", None), "r")


@pytest.mark.parametrize("used", [False, True])
def test_starting_all_nodes_again_keeps_whether_they_are_in_use(three: Three, nodes: Nodes, used: bool) -> None:  # noqa: FBT001 - a parameter
    """Nodes that another command uses stay in use; others end with the command that started them."""
    three.is_used = used
    for name in nodes.find("brokers"):
        assert nodes.signal(name, signal.SIGKILL)
    nodes.revive(nodes.find("brokers"))
    assert three.starts == [1, 2, 3]
    assert three.is_used is used


def test_a_node_that_runs_again_is_not_ended_by_its_own_undoing(three: Three, nodes: Nodes) -> None:
    """Another command has started it meanwhile, as the whole broker's start does."""
    assert nodes.signal("broker-2", signal.SIGKILL)
    three.revive(2)
    again = three.running(2)
    nodes.revive(["broker-2"])
    assert three.running(2) is again


def test_a_node_that_is_killed_while_it_starts_is_left_to_the_later_undoing(three: Three, nodes: Nodes) -> None:
    """Its start fails, and that is no failure of the earlier fault."""

    def killed(number: int) -> None:
        three.launches[number] = Launch(number, "dies", aot=False)
        nodes.signal(f"broker-{number}", signal.SIGKILL)
        raise EmbeddedBrokerError("node 1 of the broker ended while it started")

    nodes.signal("broker-1", signal.SIGKILL)
    three.before = killed
    nodes.revive(["broker-1"])
    assert three.running(1) is None
    three.before = lambda _number: None
    nodes.revive(["broker-1"])
    assert three.running(1) is not None


def test_a_start_that_fails_over_another_nodes_death_is_tried_again(three: Three, nodes: Nodes) -> None:
    """A node is ready when it knows the others; one of these is killed just then."""
    failures = ["once"]

    def other_dies(_number: int) -> None:
        if failures:
            failures.pop()
            nodes.signal("broker-3", signal.SIGKILL)
            raise EmbeddedBrokerError("not by the deadline")

    nodes.signal("broker-1", signal.SIGKILL)
    three.before = other_dies
    nodes.revive(["broker-1"])
    assert three.starts == [1, 1]
    assert three.running(1) is not None


def test_a_start_that_fails_by_itself_is_a_failure(three: Three, nodes: Nodes) -> None:
    """It is reported with the fault."""

    def fails(_number: int) -> None:
        raise EmbeddedBrokerError("no")

    nodes.signal("broker-1", signal.SIGKILL)
    three.before = fails
    with pytest.raises(EmbeddedBrokerError, match="no"):
        nodes.revive(["broker-1"])


def test_a_node_that_was_asked_to_end_is_waited_for(three: Three, nodes: Nodes) -> None:
    """SIGTERM takes a while; nothing is started before."""
    nodes.signal("broker-1", signal.SIGTERM)
    timer = threading.Timer(0.2, three.launches.pop, (1,))
    timer.start()
    nodes.revive(["broker-1"])
    timer.join()
    assert three.running(1) == Launch(1, "later-1", aot=False)

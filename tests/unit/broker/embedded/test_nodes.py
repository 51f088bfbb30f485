"""A broker of three nodes, with the small program of test_lifetime in the JVMs' place."""

import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from driftline.broker.embedded import EmbeddedBroker, cluster, nodes, process
from driftline.broker.embedded.cluster import MAX_NODES, check_number
from driftline.cli.broker import _watch
from driftline.errors import EmbeddedBrokerError, UsageError
from tests.unit.broker.embedded.test_lifetime import address_of, fake, home, until, user

pytestmark = pytest.mark.slow

__all__ = ["fake", "home"]


def make(home: Path, nodes: int | None = 3, *, port: int | None = None) -> EmbeddedBroker:
    """Return a broker that makes no cache afterwards."""
    return EmbeddedBroker(home, nodes=nodes, port=port, prepare=False)


def states(broker: EmbeddedBroker) -> list[str]:
    """Return the states of the nodes, in order."""
    return [node.state for node in broker.status().nodes]


def launches(home: Path) -> list[process.Launch]:
    """Return the launches of the nodes of a home."""
    found = [process.load_launch(home / "broker" / f"node-{number}" / "process.json") for number in (1, 2, 3)]
    return [launch for launch in found if launch is not None]


def no() -> bool:
    """Refuse to move."""
    return False


def test_three_nodes_live_and_end_together(fake: Path, home: Path) -> None:
    """Each has its own process, all are bootstrap servers, and all end with the last user."""
    with make(home) as ours:
        seen = ours.status()
        assert (seen.state, ours.nodes) == ("ready", (1, 2, 3))
        assert len({node.pid for node in seen.nodes}) == 3
        assert seen.bootstrap_servers == ",".join(node.address for node in seen.nodes)
    assert states(ours) == ["stopped"] * 3
    assert ours.status().state == "stopped"
    assert fake.exists()


def test_all_nodes_end_after_their_user_was_killed(fake: Path, home: Path) -> None:
    """Side by side, each by its own watchdog: three that take two seconds each end in less than six."""
    with make(home):
        pass
    (fake / "slow").touch()
    with user(home, fake) as only:
        assert address_of(only).count(",") == 2
        old = launches(home)
        only.kill()
    before = time.monotonic()
    until(lambda: not any(map(process.is_running, old)), "the nodes end after their user")
    assert time.monotonic() - before < 5.5


def test_a_start_waits_while_nodes_end(fake: Path, home: Path) -> None:
    """All nodes run afterwards, and none of them is an old one."""
    with make(home):
        pass
    (fake / "slow").touch()
    with user(home, fake) as only:
        address_of(only)
        old = launches(home)
        only.kill()
    time.sleep(1.0)  # the watchdogs have seen it
    assert [process.is_running(launch) for launch in old] == [True, True, True]
    (fake / "slow").unlink()
    with make(home) as ours:
        assert states(ours) == ["ready"] * 3
        assert not {launch.pid for launch in old} & {node.pid for node in ours.status().nodes}


@pytest.mark.parametrize("broken", [1, 3])
def test_a_killed_node_is_brought_back_alone(fake: Path, home: Path, broken: int) -> None:
    """At its address, without touching the others."""
    with make(home) as ours:
        before = ours.status()
        assert ours.kill(broken)
        assert not ours.kill(broken)
        seen = ours.status()
        assert seen.state == "degraded"
        assert [node.node for node in seen.nodes if node.state == "died"] == [broken]
        ours.revive(broken)
        after = ours.status()
        assert (after.state, after.bootstrap_servers) == ("ready", before.bootstrap_servers)
        changed = [old.node for old, new in zip(before.nodes, after.nodes, strict=True) if old.pid != new.pid]
        assert changed == [broken]
    assert fake.exists()


def test_in_the_foreground_a_dead_node_is_named_once(
    fake: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command and the other nodes go on until all have ended."""
    looks = iter(["kill", "", "", "stop"])

    def pause(_seconds: float) -> None:
        match next(looks):
            case "kill":
                ours.kill(2)
            case "stop":
                make(home).stop()

    ours = make(home)
    ours.start()
    _watch(ours, pause)
    said = capsys.readouterr().err.splitlines()
    assert said == ["node 2 died; `driftline broker start` brings it back", "the broker was stopped by another process"]
    assert fake.exists()


def test_a_start_brings_back_every_missing_node(fake: Path, home: Path) -> None:
    """First two of three, then all."""
    with make(home) as ours:
        servers = ours.bootstrap_servers
        ours.kill(1)
        ours.kill(3)
        assert states(ours) == ["died", "ready", "died"]
        assert ours.start() == servers
        assert states(ours) == ["ready"] * 3
        assert ours.kill()
        assert ours.status().state == "died"
        assert ours.start() == servers
        assert ours.status().state == "ready"
    assert fake.exists()


def test_one_node_of_three_starts_although_it_cannot_serve_yet(fake: Path, home: Path) -> None:
    """The second makes a majority, so its start waits until both serve."""
    with make(home) as ours:
        ours.kill()
        ours.revive(2)
        assert [node.running for node in ours.status().nodes] == [False, True, False]
        ours.revive(3)
        assert states(ours)[1:] == ["ready", "ready"]
    assert fake.exists()


def test_the_number_of_nodes_is_kept(fake: Path, home: Path) -> None:
    """Another number is refused, whether the broker runs or not."""
    with make(home):
        assert len(make(home, None).start().split(",")) == 3
        with pytest.raises(UsageError, match=r"was made with 3 nodes.*with 1: leave the number out"):
            make(home, 1).start()
    with pytest.raises(UsageError, match="was made with 3 nodes"):
        make(home, 5).start()
    with make(home, None) as ours:
        assert ours.nodes == (1, 2, 3)
    assert fake.exists()


def test_a_broker_of_one_node_does_not_become_one_of_three(fake: Path, home: Path) -> None:
    """It holds one copy of each record."""
    with make(home, None) as ours:
        assert ours.nodes == (1,)
    with pytest.raises(UsageError, match=r"was made with 1 node .*--home"):
        make(home, 3).start()
    assert fake.exists()


@pytest.mark.parametrize("nodes", [-1, 0, 2, 4, 9])
def test_an_impossible_number_of_nodes_is_refused_with_the_possible_ones(nodes: int) -> None:
    """Before any file is written."""
    with pytest.raises(UsageError, match=rf"{nodes} nodes cannot.*1, 3, 5 or 7"):
        EmbeddedBroker(Path("nowhere"), nodes=nodes)
    assert check_number(MAX_NODES) == 7


@pytest.mark.parametrize("act", [EmbeddedBroker.kill, EmbeddedBroker.revive])
def test_a_missing_node_is_refused_with_the_existing_ones(
    fake: Path, home: Path, act: Callable[[EmbeddedBroker, int], object]
) -> None:
    """Or with the hint that the broker was never started."""
    with pytest.raises(UsageError, match="never started"):
        act(make(home), 1)
    with make(home) as ours, pytest.raises(UsageError, match="no node 4; its nodes are 1, 2, 3"):
        act(ours, 4)
    assert fake.exists()


def test_a_failed_start_ends_only_the_nodes_it_started(fake: Path, home: Path) -> None:
    """Nodes that ran before go on."""
    with make(home) as ours:
        ours.kill(2)
        (fake / "fails").touch()
        with pytest.raises(EmbeddedBrokerError, match=r"(?s)node 2 of the broker ended while.*does not want to"):
            ours.revive(2)
        assert states(ours) == ["ready", "stopped", "ready"]
        (fake / "fails").unlink()
        ours.revive(2)


def test_nodes_that_ignore_sigterm_are_killed_together(fake: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One time-out holds for all of them."""
    monkeypatch.setattr(nodes, "_ALONE_S", 60.0)
    (fake / "stubborn").touch()
    ours = make(home)
    ours.start()
    before = time.monotonic()
    assert ours.stop(timeout_s=1.0)
    assert 1.0 <= time.monotonic() - before < 3
    assert not ours.status().running


def test_a_port_of_a_dead_node_in_use_by_another_process_is_named(fake: Path, home: Path) -> None:
    """The other nodes look for the node there, so it does not move."""
    with make(home) as ours:
        ours.kill(3)
        port = int(ours.status().nodes[2].address.rpartition(":")[2])
        with (
            socket.create_server(("127.0.0.1", port)),
            pytest.raises(EmbeddedBrokerError, match=rf"port {port} of node 3.*broker stop"),
        ):
            ours.revive(3)
        ours.revive(3)
        assert ours.status().state == "ready"
    assert fake.exists()


def test_with_a_given_port_the_other_nodes_may_move(fake: Path, home: Path) -> None:
    """This is what the error advises when another process uses one of their ports."""
    with make(home) as ours:
        before = ours.bootstrap_servers.split(",")
    with socket.create_server(("127.0.0.1", int(before[1].rpartition(":")[2]))):
        kept = EmbeddedBroker(home, keep=True, prepare=False)
        with pytest.raises(EmbeddedBrokerError, match="broker start --port PORT"):
            kept.start()
        port = cluster.choose_port()
        after = EmbeddedBroker(home, keep=True, port=port, prepare=False).start().split(",")
        assert kept.stop()
    assert after[0] == f"127.0.0.1:{port}"
    assert after[1] not in before
    assert after[2] == before[2]
    assert fake.exists()


def test_nodes_do_not_share_a_port() -> None:
    """Not even when the user asks for it."""
    known = cluster.new_cluster(3).nodes
    with pytest.raises(EmbeddedBrokerError, match="belongs to another node"):
        cluster.settle_address(known[0], known[1].broker_port, 0.0, may_move=no, others=cluster.ports_of(known[1:]))
    taken = cluster.choose_port()
    with socket.create_server(("127.0.0.1", taken)):
        kept = cluster.NodeAddress(1, known[0].broker_port, taken)
        moved = cluster.settle_address(kept, None, 0.0, may_move=no, others=cluster.ports_of(known[1:]))
    assert moved.controller_port not in {taken, *cluster.ports_of(known[1:])}

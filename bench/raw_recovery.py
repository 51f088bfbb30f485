"""Time that Kafka alone needs when a group member dies: the same clients and settings, without driftline."""

import multiprocessing
import time
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from driftline.broker.embedded import EmbeddedBroker
from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.port import Producer, Record, Start, TopicSpec
from driftline.errors import BrokerError

TOPIC, GROUP = "bench.raw-recovery", "bench.raw-recovery.group"
MEMBERS = 3
WAIT_S = 60.0
EVERY_S = 0.005
CALM_S = 3.0
"""Between two deaths."""


class _Members:
    """Members of one consumer group, each a process that says which partition it has read something of."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap = bootstrap_servers
        self._context = multiprocessing.get_context("spawn")
        self.processes: dict[str, BaseProcess] = {}
        self.pipes: dict[Connection, str] = {}

    def start(self, name: str) -> None:
        """Start one."""
        here, there = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_member, args=(self._bootstrap, name, there), daemon=True)
        process.start()
        there.close()
        self.processes[name], self.pipes[here] = process, name

    def records_read(self) -> list[tuple[str, int]]:
        """Return who has read something of which partition since this was asked last."""
        found = []
        for pipe in wait(list(self.pipes), EVERY_S):
            if isinstance(pipe, Connection):
                try:
                    found.append((self.pipes[pipe], pipe.recv()))
                except EOFError:
                    del self.pipes[pipe]
        return found

    def end(self) -> None:
        """Kill all."""
        for process in self.processes.values():
            process.kill()
            process.join(WAIT_S)


def _member(bootstrap_servers: str, name: str, pipe: Connection) -> None:
    reader = KafkaBroker(KafkaSettings(bootstrap_servers)).group_reader(TOPIC, GROUP, name, Start.END)
    while True:
        found = reader.poll(1.0)
        if isinstance(found, Record):
            pipe.send(found.partition)


def raw_takeover_s(bootstrap_servers: str, kills: int) -> list[float]:
    """Kill the member of a group that owns a partition; return the seconds until another one has read of it."""
    broker = KafkaBroker(KafkaSettings(bootstrap_servers))
    admin = broker.admin()
    admin.create([TopicSpec(TOPIC, 2)])
    admin.close()
    members, producer, taken_s = _Members(bootstrap_servers), broker.producer(), list[float]()
    try:
        for number in range(MEMBERS):
            members.start(f"member-{number}")
        for _ in range(kills):
            owner = _reader_of(0, members, producer, without="", calm_s=CALM_S)
            members.processes[owner].kill()
            killed_s = time.monotonic()
            _reader_of(0, members, producer, without=owner, calm_s=0.0)
            taken_s.append(time.monotonic() - killed_s)
            members.start(owner)
    finally:
        members.end()
        producer.close()
    return taken_s


def _reader_of(partition: int, members: _Members, producer: Producer, *, without: str, calm_s: float) -> str:
    """Write, and return who has read something of a partition after ``calm_s`` seconds."""
    began_s = time.monotonic()
    while time.monotonic() - began_s < WAIT_S + calm_s:
        producer.send(TOPIC, partition, b"x")
        readers = [name for name, read in members.records_read() if read == partition and name != without]
        if readers and time.monotonic() - began_s >= calm_s:
            return readers[-1]
    raise TimeoutError(f"no member has read {TOPIC}[{partition}] for {WAIT_S:.0f} s")


def raw_leader_s(nodes: EmbeddedBroker, kills: int) -> list[float]:
    """Kill the leader of a partition; return the seconds until a record written afterwards is acknowledged."""
    broker = KafkaBroker(KafkaSettings(nodes.bootstrap_servers))
    admin, producer, taken_s = broker.admin(), broker.producer(), list[float]()
    admin.create([TopicSpec(TOPIC, 1, {"min.insync.replicas": "2"})])
    try:
        for _ in range(kills):
            leader = None
            while leader is None:
                leader = admin.leader(TOPIC, 0)
            _acknowledged_s(producer)
            nodes.kill(leader)
            taken_s.append(_acknowledged_s(producer))
            nodes.revive(leader)
            time.sleep(CALM_S)
    finally:
        producer.close()
        admin.close()
    return taken_s


def _acknowledged_s(producer: Producer) -> float:
    began_s, answers = time.monotonic(), list[BrokerError | None]()
    producer.send(TOPIC, 0, b"x", on_delivery=answers.append)
    while not answers:
        producer.poll(EVERY_S)
        if time.monotonic() - began_s > WAIT_S:
            raise TimeoutError(f"{TOPIC} took no record for {WAIT_S:.0f} s")
    return time.monotonic() - began_s

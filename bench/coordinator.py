"""How fast the coordinator decides, and what a version costs in the ledger.

The pure core alone: no broker, no tensor. Workers and the server are stood in for by the events that they would send,
made outside of the time that counts. What counts is everything that the coordinator's process does with them: judging
events, deciding, encoding the record, and folding it once it is read back.

``python -m bench.coordinator`` prints one JSON object.
"""

import json
import random
import time
from collections.abc import Iterable, Iterator

import numpy as np

from bench.conditions import conditions
from driftline.broker.topics import Stream
from driftline.consumers.coordinator.coordinator import Coordinator
from driftline.ledger.run_state import RunState
from driftline.producers.proposal import Offer, propose
from driftline.schemas.codec import decode
from driftline.schemas.digests import contribution_root
from driftline.schemas.effects import Effect, Send
from driftline.schemas.model.layout import Layout, Segment
from driftline.schemas.records import (
    Contribution,
    Event,
    GroupId,
    PartitionPosition,
    Proposal,
    Ready,
    Receipt,
    ServerState,
    ShardDigest,
    ShardReceipt,
    Snapshot,
    Version,
)
from driftline.schemas.run.config import RuleConfig, RunConfig
from driftline.schemas.run.consistency import Consistency

SERVER = "server-1"
INCARNATION = b"s" * 16
DIGEST = b"d" * 32
PARTITIONS = 4
WORKERS = (4, 256)


class _Leadership:
    """One coordinator, its ledger, and the CPU time of the work that counts."""

    def __init__(self, workers: int, versions: int) -> None:
        layout = Layout((Segment("weight", (), (PARTITIONS,), "float32", "parameter", 0, 0),), PARTITIONS)
        config = RunConfig(
            name="bench-coordinator",
            workers=workers,
            steps=versions,
            partitions=PARTITIONS,
            rule=RuleConfig(name="sgd", groups=({"lr": 0.1},)),
            consistency=Consistency(),
        )
        self.offer = Offer(config=config, layout=layout, masters=np.zeros(PARTITIONS, np.float32))
        self.state = RunState()
        self.coordinator = Coordinator(SERVER, INCARNATION, self.state, random.Random(0))  # noqa: S311 - no secret
        self.spent_s = 0.0
        self.versions: list[int] = []
        self._offset = 0

    def begin(self) -> None:
        """Start a term and the run, and let every worker join."""
        self.coordinator.on_assigned()
        self.coordinator.on_ledger_caught_up()
        self.write(self.coordinator.on_timer(60.0))
        proposed = propose(self.offer, b"r" * 16, "worker-0", b"w" * 16)
        proposal = decode(proposed.event.value)
        if isinstance(proposal, Proposal):
            self.deliver(proposal)
        for send in proposed.snapshots:
            snapshot = decode(send.value)
            if isinstance(snapshot, Snapshot) and send.value is not None:
                self.write(self.coordinator.on_snapshot(snapshot, bytes(send.value)))
        self.deliver(self.applied())
        for worker in range(self.offer.config.workers):
            self.deliver(Ready(run=self.run, worker=f"worker-{worker}", incarnation=_incarnation(worker), version=0))

    @property
    def run(self) -> bytes:
        """UUID of the run."""
        return self.state.start.run if self.state.has_begun else b""

    def deliver(self, event: Event) -> None:
        """Bring one event before the coordinator, and read back what it writes."""
        began_s = time.process_time()
        effects = self.coordinator.on_event(event)
        self.spent_s += time.process_time() - began_s
        self.write(effects)

    def write(self, effects: Iterable[Effect]) -> None:
        """Append the coordinator's ledger records, read them back, and perform the effects that follow."""
        waiting = list(effects)
        while waiting:
            effect = waiting.pop(0)
            if isinstance(effect, Send) and effect.stream is Stream.LEDGER:
                value = b"" if effect.value is None else bytes(effect.value)
                began_s = time.process_time()
                folded = self.state.read(self._offset, value)
                waiting += self.coordinator.on_ledger(folded)
                self.spent_s += time.process_time() - began_s
                self._offset += 1
                if isinstance(folded.record, Version):
                    self.versions.append(len(value))

    def applied(self) -> ServerState:
        """Return the word of a server that has applied and published the head."""
        version = self.state.version
        digests = (ShardDigest(shard=shard, version=version, state=DIGEST, masters=DIGEST) for shard in range(4))
        return ServerState(
            run=self.run,
            server=SERVER,
            incarnation=INCARNATION,
            version=version,
            head=self.state.heads[version],
            partitions=tuple(PartitionPosition(partition=one, position=0) for one in range(PARTITIONS)),
            shards=tuple(digests),
            failure="",
        )

    def clock(self, clock: int) -> Iterator[Event]:
        """Yield what the workers and their server say of one clock, one contribution a worker."""
        base, head = self.state.version, self.state.heads[self.state.version]
        for group in list(self.state.groups):
            yield Contribution(
                run=self.run,
                group=group,
                clock=clock,
                base_version=base,
                base_head=head,
                weight=64.0,
                loss=1.0,
                cursor=clock,
                shards=PARTITIONS,
                root=contribution_root([DIGEST] * PARTITIONS),
            )
            yield self._receipt(group, clock)

    def _receipt(self, group: GroupId, clock: int) -> Receipt:
        shards = (ShardReceipt(shard=one, partition=one, offset=clock, digest=DIGEST) for one in range(PARTITIONS))
        return Receipt(
            run=self.run,
            server=SERVER,
            incarnation=INCARNATION,
            group=group,
            clock=clock,
            shards=tuple(shards),
            refusal="",
        )


def coordinator_speed(versions: int = 60) -> dict[str, float]:
    """Let coordinators decide over 4 and over 256 workers in lock-step.

    Returns:
        ``coordinator_decisions_per_s_<workers>``: ledger records a second of CPU time; ``coordinator_events_per_s_…``:
        events judged a second; ``ledger_bytes_per_version_<workers>``: size of a `Version` record. The names without
        a number are those of 4 workers.
    """
    found: dict[str, float] = {}
    for workers in WORKERS:
        found |= _measure(workers, versions)
    return found | {
        "coordinator_decisions_per_s": found["coordinator_decisions_per_s_4"],
        "ledger_bytes_per_version": found["ledger_bytes_per_version_4"],
    }


def _measure(workers: int, versions: int) -> dict[str, float]:
    leadership = _Leadership(workers, versions)
    leadership.begin()
    before, events, leadership.spent_s = leadership.state.next_offset, 0, 0.0
    for clock in range(1, versions + 1):
        for event in leadership.clock(clock):
            leadership.deliver(event)
            events += 1
        leadership.deliver(leadership.applied())
        events += 1
        if leadership.state.version != clock:
            raise RuntimeError(f"{workers} workers: version {leadership.state.version} after clock {clock}")
    return {
        f"coordinator_decisions_per_s_{workers}": (leadership.state.next_offset - before) / leadership.spent_s,
        f"coordinator_events_per_s_{workers}": events / leadership.spent_s,
        f"ledger_bytes_per_version_{workers}": sum(leadership.versions) / len(leadership.versions),
    }


def _incarnation(worker: int) -> bytes:
    return worker.to_bytes(16, "big")


if __name__ == "__main__":
    print(json.dumps({**coordinator_speed(), "conditions": conditions({})}, indent=2))

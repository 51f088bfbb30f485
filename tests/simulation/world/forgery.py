"""Bytes that no state machine of this run would write now: rubbish, another run's records, void ledger records."""

import dataclasses
from collections.abc import Callable

import numpy as np

from driftline.broker.port import Payload
from driftline.broker.topics import Stream
from driftline.schemas.codec import encode
from driftline.schemas.digests import seal
from driftline.schemas.effects import Send
from driftline.schemas.model.tensors import encode_fp32, pack_presence
from driftline.schemas.records import (
    NO_HASH,
    Checkpoint,
    Delta,
    EvaluationReport,
    Event,
    Heartbeat,
    Leave,
    LedgerRecord,
    Parameters,
    PayloadRecord,
    Proposal,
    Ready,
    Receipt,
    Rejection,
    RunEnd,
    ServerState,
    Snapshot,
    TermStart,
)
from tests.simulation.run.log import Landed
from tests.simulation.world.world import World

KEY = b"forged"
NEWEST = 64
ANY_AGE = 0.3
"""Probability that a record of any age is taken, instead of one of the newest."""

FAR = 1000
"""Versions by which another run may be ahead."""


def send(world: World, stream: Stream, partition: int, value: Payload | None) -> None:
    """Put forged bytes into the log."""
    world.log.append(Send(stream, partition, value, KEY), world.now_s, forged=True)


def rubbish(world: World) -> bool:
    """Append bytes that are no record, or a record that belongs elsewhere."""
    rng = world.rng
    stream, partition = rng.choice(list(world.log.ends))
    recent = _recent(world, lambda one: one.value is not None)
    cut = recent.value[: rng.randrange(len(recent.value))] if recent and recent.value else b"\xc3\x01"
    elsewhere = recent.value if recent and recent.stream is not stream else b"elsewhere"
    send(world, stream, partition, rng.choice((None, b"", rng.randbytes(30), cut, elsewhere)))
    return True


def foreign(world: World) -> bool:
    """Append what another run under the same name has left behind, or still writes."""
    recent = _recent(world, lambda one: one.stream is not Stream.LEDGER and not one.forged)
    record = None if recent is None else world.promises.decoded(recent.value)
    other = world.rng.randbytes(16)
    if world.rng.random() < ANY_AGE:  # whatever is there: a worker of another run wants to join this one
        ready = Ready(run=other, worker=world.rng.choice(world.scenario.names), incarnation=other, version=0)
        send(world, Stream.EVENTS, 0, encode(ready))
        return True
    if recent is None or record is None or isinstance(record, LedgerRecord):
        return False
    if isinstance(record, PayloadRecord):
        value, _ = seal(other, _shifted(record, world.rng.choice((0, 0, FAR))))
        send(world, recent.stream, recent.partition, value)
    else:
        send(world, recent.stream, recent.partition, encode(_renamed(dataclasses.replace(record, run=other), other)))
    return True


def _renamed(event: Event, incarnation: bytes) -> Event:
    match event:
        case Ready() | Heartbeat() | ServerState() | Proposal() | Leave() | Receipt() | EvaluationReport():
            return dataclasses.replace(event, incarnation=incarnation)
        case _:
            return event


def _shifted(record: PayloadRecord, by: int) -> PayloadRecord:
    match record:
        case Delta():
            return dataclasses.replace(record, clock=record.clock + by)
        case Parameters() | Snapshot():
            return dataclasses.replace(record, version=record.version + by)


def void(world: World) -> bool:
    """Append a ledger record that must not count: an old one once more, an old term, or a wrong parent."""
    now, rng = world.promises.ledger.now, world.rng
    if now.term == 0:
        return False
    terms_and_parents = [(now.term - 1, now.head), (now.term, rng.randbytes(32)), (now.term + 1, now.head)]
    term, parent = rng.choice(terms_and_parents)
    version = now.version
    records: list[LedgerRecord] = [
        RunEnd(term=term, parent=parent, version=version, reason="forged", failure="forged", states=()),
        TermStart(
            term=rng.randint(0, now.term),
            parent=now.head,
            nonce=NO_HASH[:16],
            coordinator="x",
            incarnation=NO_HASH[:16],
        ),
    ]
    records += [
        Rejection(term=term, parent=parent, group=group, clock=member.clock + 1, reason="forged")
        for group, member in world.promises.ledger.members.items()
    ]
    official = world.promises.ledger.checkpoint
    if official is not None:
        records.append(dataclasses.replace(_lying(official, world), term=term, parent=parent))
    old = world.log.read((Stream.LEDGER, 0), rng.randrange(world.log.ends[Stream.LEDGER, 0]))
    again = old.value if old is not None and isinstance(world.promises.decoded(old.value), LedgerRecord) else None
    send(world, Stream.LEDGER, 0, again if again and rng.random() < 0.5 else encode(rng.choice(records)))
    return True


def _lying(official: Checkpoint, world: World) -> Checkpoint:
    """Return a checkpoint of the same version with another state, or with a state that cannot be."""
    if not official.state or world.rng.random() < 0.5:
        return official
    [state] = official.state
    lies = (
        {"leases": ()},
        {"groups": state.groups[1:]},
        {"head": world.promises.ledger.now.head},
        {"next_offset": state.next_offset + world.rng.choice((-1, 1))},
        {"start_offset": world.rng.randrange(-1, 9)},
    )
    return dataclasses.replace(official, state=(dataclasses.replace(state, **world.rng.choice(lies)),))


def claim(world: World) -> bool:
    """Append a TermStart of a candidate that is gone: it ends the leadership, and no process leads the term."""
    rng = world.rng
    record = TermStart(
        term=world.promises.ledger.now.term + rng.randint(1, 3),
        parent=rng.randbytes(32),
        nonce=rng.randbytes(16),
        coordinator="gone",
        incarnation=rng.randbytes(16),
    )
    send(world, Stream.LEDGER, 0, encode(record))
    return True


def conflicting(world: World) -> bool:
    """Append another delta under the identity of one that a worker has written, or will write next."""
    ledger, layout, rng = world.promises.ledger, world.problem.layout, world.rng
    if not ledger.members or ledger.start is None:
        return False
    group, member = rng.choice(list(ledger.members.items()))
    shard = rng.randrange(layout.shard_count)
    start, stop = layout.shard_range(shard)
    record = Delta(
        digest=NO_HASH,
        group=group,
        clock=max(1, member.clock + rng.choice((0, 1, 1))),
        shard=shard,
        base_version=ledger.now.version,
        codec="fp32",
        elements=stop - start,
        presence=pack_presence([True] * len(layout.pieces(shard))),
        payload=encode_fp32(np.full(stop - start, rng.random(), np.float32)),
    )
    value, _ = seal(ledger.start.run, record)
    send(world, Stream.DELTAS, layout.partition_of(shard), value)
    return True


def duplicate(world: World) -> bool:
    """Append a record of ours once more, as a producer does that was not told of its success; some come very late."""
    one = _recent(world, lambda landed: not landed.forged and landed.stream is not Stream.SNAPSHOTS)
    if one is None:
        return False
    send_again = Send(one.stream, one.partition, one.value)
    world.log.append(send_again, world.now_s)
    return True


def _recent(world: World, wanted: Callable[[Landed], bool]) -> Landed | None:
    newest = len(world.landed) if world.rng.random() < ANY_AGE else NEWEST
    by_type: dict[str, list[Landed]] = {}
    for one in world.landed[-newest:]:
        if wanted(one):  # rare types matter as much as frequent ones
            by_type.setdefault(type(world.promises.decoded(one.value)).__name__, []).append(one)
    return world.rng.choice(by_type[world.rng.choice(list(by_type))]) if by_type else None

"""Whatever stands in the log, as long as it can be written there: it stops no core, and rubbish changes no bit.

The records come from hypothesis. Some are rubbish; others are twisted, that is, made to look like those of this run:
its UUID, its groups, small numbers, sealed digests, settings that nearly fit.
"""

import copy
import dataclasses
import json
from functools import cache
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from driftline.broker.topics import SHARDED, Stream
from driftline.errors import IntegrityError
from driftline.ledger.run_state import RunState
from driftline.schemas.codec import encode
from driftline.schemas.digests import seal
from driftline.schemas.records import (
    AnyRecord,
    Delta,
    Event,
    GroupId,
    Heartbeat,
    Leave,
    LedgerRecord,
    Parameters,
    PayloadRecord,
    Proposal,
    Receipt,
    RunEnd,
    ServerState,
    Skip,
    Snapshot,
    TermStart,
)
from driftline.schemas.run.config_json import run_config_to_json
from tests.support.stage import CONFIG, LAYOUT, PARTITIONS, Stage
from tests.support.strategies import RECORD_TYPES, any_record, records_of

pytestmark = pytest.mark.slow

RUN = b"r" * 16
HUGE = (-1, 2**31, 2**62, 2**63 - 1, -(2**63))

quick = settings(deadline=None, max_examples=30, phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink))
"""A whole run is played in every example, so there are few of them, and no tracing."""

streams = st.sampled_from(list(Stream))
small = st.integers(-1, 6) | st.sampled_from(HUGE)


@cache
def _half_way() -> Stage:
    stage = Stage()
    stage.play(2)
    return stage


def half_way() -> Stage:
    """Return a run that has reached version 2."""
    return copy.deepcopy(_half_way())


def partition_of(stream: Stream, number: int) -> int:
    """Return a partition that the stream has."""
    return number % PARTITIONS if stream in SHARDED else 0


def put(stage: Stage, record: AnyRecord, stream: Stream, number: int) -> None:
    """Put a record into the log as it is; payload records with the digest that a member of this run would give them."""
    value = seal(RUN, record)[0] if isinstance(record, PayloadRecord) else encode(record)
    stage.append(stream, partition_of(stream, number), bytes(value))


# -- rubbish ---------------------------------------------------------------------------------------------------------

foreign = any_record().map(lambda record: bytes(encode(record)))
rubbish = (
    st.none() | st.binary(max_size=60) | foreign | foreign.flatmap(lambda value: st.just(value[: len(value) // 2]))
)


@cache
def undisturbed() -> str:
    """Return the digest of the run's end when nothing happens to it."""
    return Stage().end()


@quick
@given(st.lists(st.tuples(streams, st.integers(0, 3), rubbish), min_size=1, max_size=12))
def test_rubbish_and_records_of_other_runs_change_no_bit(values: list[tuple[Stream, int, bytes | None]]) -> None:
    """Text, tombstones, half records, records of strangers, terms of any height: the run ends as it would have."""
    stage = half_way()
    for stream, number, value in values:
        stage.append(stream, partition_of(stream, number), value)
    assert stage.end() == undisturbed()
    assert {finish.failure for finish in stage.finishes.values()} == {""}


# -- records that look like ours -------------------------------------------------------------------------------------


def _json_near(text: str) -> st.SearchStrategy[str]:
    """Return JSON with one value of the first level exchanged."""
    values: st.SearchStrategy[object] = st.sampled_from(
        [0, -1, 1_000_000, 1e308, "", "x", None, [], [[]], {}, {"name": "sgd", "groups": [{}]}]
    )
    raw: dict[str, object] = json.loads(text)
    keys = st.sampled_from(sorted(raw))
    changed = st.tuples(keys, values).map(lambda change: json.dumps({**raw, change[0]: change[1]}))
    return st.just(text) | st.text(max_size=10) | changed


@st.composite
def twisted(draw: st.DrawFn, kind: type[AnyRecord], stage: Stage) -> Any:
    """Return a record that looks like one of this run, as far as a stranger could make it, and a little further."""
    return draw(_twist(draw(records_of(kind)), _pools(stage)))


def _pools(stage: Stage) -> dict[str, st.SearchStrategy[Any]]:
    """Return what a field of a name may hold."""
    state = stage.worker.state
    numbers = ("clock", "version", "base_version", "shard", "partition", "offset", "staleness", "raised")
    return dict[str, st.SearchStrategy[Any]].fromkeys(numbers, small) | {
        "run": st.just(RUN),
        "group": st.sampled_from([*state.groups, GroupId(10**6, 0), GroupId(-1, 0)]),
        "incarnation": st.sampled_from([b"w" * 16, b"s" * 16, b"x" * 16]),
        "worker": st.sampled_from(["worker-1", "stranger", "", "a" * 200]),
        "member": st.sampled_from(["worker-1", "stranger", "evaluator"]),
        "role": st.sampled_from(["worker", "server", "evaluator"]),
        "head": st.sampled_from([*state.heads.values(), bytes(32)]),
        "base_head": st.sampled_from([*state.heads.values(), bytes(32)]),
        "parent": st.just(state.chain.head),
        "term": st.sampled_from([state.chain.term, state.chain.term + 1, *HUGE]),
        "weight": st.floats() | st.just(3.0),
        "elements": st.sampled_from([5, 10, -1, 2**40]),
        "payload": st.sampled_from([bytes(20), b"\xff" * 20, bytes(19), b""]),
        "presence": st.sampled_from([b"\x01", b"\x00", b"\xff", b""]),
        "config": _json_near(run_config_to_json(CONFIG)),
        "layout": _json_near(LAYOUT.to_json()),
    }


@st.composite
def _twist(draw: st.DrawFn, record: Any, pools: dict[str, st.SearchStrategy[Any]]) -> Any:
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if field.name in pools:
            changes[field.name] = draw(pools[field.name])
        elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            changes[field.name] = tuple(draw(_twist(one, pools)) for one in value)
    return dataclasses.replace(record, **changes)


def _home(record: AnyRecord) -> Stream:
    match record:
        case Delta():
            return Stream.DELTAS
        case Parameters():
            return Stream.PARAMETERS
        case Snapshot():
            return Stream.SNAPSHOTS
    return Stream.LEDGER if isinstance(record, LedgerRecord) else Stream.EVENTS


events_and_payloads = [kind for kind in RECORD_TYPES if not issubclass(kind, LedgerRecord)]


def drive(stage: Stage, ticks: int = 40) -> None:
    """Let the run go on, or come to its end."""
    for _ in range(ticks):
        if len(stage.finishes) == len(stage.cores):
            return
        stage.tick()
        stage.work()


@quick
@given(st.data())
def test_no_event_and_no_payload_stops_a_core(data: st.DataObject) -> None:
    """They may cost a clock, a member or the run; they never raise, and what the coordinator writes makes sense."""
    stage = half_way()
    for kind in data.draw(st.lists(st.sampled_from(events_and_payloads), min_size=1, max_size=8)):
        record = data.draw(twisted(kind, stage))
        put(stage, record, _home(record), data.draw(st.integers(0, 3)))
        stage.settle()
    drive(stage)
    state = RunState()
    for record_read in stage.log[Stream.LEDGER, 0]:
        state.read(record_read.offset, record_read.value)
    assert state.chain.valid > 0
    assert state.version == CONFIG.steps or state.ended is not None or stage.finishes


@quick
@given(st.data())
def test_a_ledger_record_that_counts_and_cannot_be_ends_everybody_with_one_reason(data: st.DataObject) -> None:
    """No core goes on with a state of its own, and none raises."""
    stage = half_way()
    kinds = [kind for kind in RECORD_TYPES if issubclass(kind, LedgerRecord)]
    record = data.draw(twisted(data.draw(st.sampled_from(kinds)), stage))
    put(stage, record, Stream.LEDGER, 0)
    stage.settle()
    drive(stage, 20)
    contradictions = {name: one.failure for name, one in stage.finishes.items() if "contradicts" in one.reason}
    state = RunState()
    contradiction = ""
    for found in stage.log[Stream.LEDGER, 0]:
        try:
            state.read(found.offset, found.value)
        except IntegrityError as error:
            contradiction = str(error)
            break
    assert set(contradictions.values()) == ({contradiction} if contradiction else set())
    assert len(contradictions) == (len(stage.cores) if contradiction else 0)


@quick
@given(st.data())
def test_no_proposal_stops_a_server_before_there_is_a_run(data: st.DataObject) -> None:
    """Settings, layouts and digests of any kind; the worker's own proposal is still the one that counts."""
    stage = Stage()
    for _ in range(data.draw(st.integers(1, 6))):
        strange = data.draw(twisted(Proposal, stage))
        put(stage, dataclasses.replace(strange, run=data.draw(st.binary(min_size=16, max_size=16))), Stream.EVENTS, 0)
    assert stage.end() == undisturbed()


def test_terms_of_any_height_leave_a_higher_one() -> None:
    """A huge term is no reason to give up, and the highest of all does not count."""
    stage = half_way()
    for term in (2**62, 2**63 - 1, 2**62 + 2, 2**63 - 2):
        strange = TermStart(term=term, parent=bytes(32), nonce=bytes(16), coordinator="x", incarnation=bytes(16))
        put(stage, strange, Stream.LEDGER, 0)
    assert stage.end() == undisturbed()
    assert stage.worker.state.chain.term == 2**62 + 1
    assert stage.worker.state.chain.void == 3


def test_a_reason_that_fills_an_event_still_fits_into_the_ledger() -> None:
    """A failure with many words ends the run all the same."""
    stage = half_way()
    strange = ServerState(
        run=RUN, server="x", incarnation=bytes(16), version=0, head=bytes(32), partitions=(), shards=(),
        failure="no " * 300_000,
    )  # fmt: skip
    put(stage, strange, Stream.EVENTS, 0)
    drive(stage)
    ended = stage.worker.state.ended
    assert isinstance(ended, RunEnd)
    assert ended.failure.startswith("no no no")
    assert len(ended.failure) < 3_000


def said_by_stranger(number: int) -> list[Event]:
    """Return events of an unknown member and of a group that was never made."""
    name, incarnation, group = f"m{number}", number.to_bytes(16, "big"), GroupId(10**9, number)
    return [
        Heartbeat(
            run=RUN, member=name, incarnation=incarnation, role="evaluator", version=0, clock=0, waiting_share=0.0
        ),
        Leave(run=RUN, worker=name, incarnation=incarnation, reason=""),
        Skip(run=RUN, group=group, clock=1, base_version=0, base_head=bytes(32), cursor=0, reason=""),
        Receipt(run=RUN, server=name, incarnation=incarnation, group=group, clock=1, shards=(), refusal="no"),
    ]


def test_what_strangers_say_is_forgotten() -> None:
    """Thousands of unknown members, and clocks of groups that were never made, leave nothing behind."""
    stage = half_way()
    coordinator = stage.server.coordinator
    for number in range(4_500):  # each table has room for 4,096
        for event in said_by_stranger(number):
            put(stage, event, Stream.EVENTS, 0)
    stage.settle()
    for _ in range(CONFIG.gone_after_ticks + 2):
        stage.tick()
    evidence = coordinator.evidence
    assert len(evidence.last_seen) < 10
    assert len(evidence.evaluators) <= 1
    assert not evidence.leaving
    assert max(len(evidence.offers), len(evidence.receipts), len(evidence.refusals)) < 5_000

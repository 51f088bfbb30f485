"""``driftline show``: what is in the log, said right, whatever is in it."""

import dataclasses
import json
from collections.abc import Iterator

import numpy as np
import pytest

from driftline.broker.port import Record
from driftline.broker.reading import until_end
from driftline.broker.topics import SHARDED, Stream, topic_name
from driftline.cli.screens.records import lines_of
from driftline.errors import RunRefused, UsageError
from driftline.observe.records.annotated_ledger import AnnotatedLedger, read_annotated_ledger
from driftline.observe.records.entry_text import describe_entry
from driftline.observe.records.lookup import read_difference, read_record
from driftline.observe.records.record_view import RecordView, view_record
from driftline.observe.records.selection import FORMS, OneVersion, RecordPosition, TwoVersions, parse_selection
from driftline.observe.records.version_view import check_version, view_version
from driftline.schemas.codec import decode, encode
from driftline.schemas.digests import seal
from driftline.schemas.model.tensors import encode_fp32
from driftline.schemas.records import Delta, Grant, Lease, Publish, Version
from driftline.schemas.records.identity import GroupId
from driftline.schemas.records.sample_range import SampleRange
from driftline.testing.memory import MemoryBroker
from tests.support.small_ledger import whole_run, write
from tests.support.small_model import PARTITIONS, small_run

RUN = "small"


@pytest.fixture(scope="module")
def broker() -> MemoryBroker:
    """A finished run of two workers, two servers and three versions. No test changes it."""
    run = small_run(RUN)
    run.play()
    return run.broker


@pytest.fixture(scope="module")
def ledger(broker: MemoryBroker) -> AnnotatedLedger:
    return read_annotated_ledger(broker, RUN)


def shown(broker: MemoryBroker, position: str) -> RecordView:
    """Look at a record as the command does."""
    wanted = parse_selection(position)
    assert isinstance(wanted, RecordPosition)
    at, found = read_record(broker, RUN, wanted)
    return view_record(at, found, read_annotated_ledger(broker, RUN))


def viewed(
    value: bytes | None, ledger: AnnotatedLedger, position: str = "deltas/0@7", key: bytes | None = None
) -> RecordView:
    """View a value at a position where it was not read from."""
    wanted = parse_selection(position)
    assert isinstance(wanted, RecordPosition)
    topic = topic_name(RUN, wanted.stream)
    return view_record(wanted, Record(topic, wanted.partition, wanted.offset, key, value, 0), ledger)


def everything(broker: MemoryBroker) -> Iterator[tuple[RecordPosition, Record]]:
    """Yield every record of the run; the second worker's proposal was not chosen, and left tombstones."""
    for stream in Stream:
        for partition in range(PARTITIONS if stream in SHARDED else 1):
            for found in until_end(broker, topic_name(RUN, stream), partition, 0):
                if found.value is not None:
                    yield RecordPosition(stream, partition, found.offset), found


def a_delta(broker: MemoryBroker) -> bytes:
    found = read_record(broker, RUN, RecordPosition(Stream.DELTAS, 0, 0))[1].value
    assert found is not None
    return found


# -- what is asked for -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("17", OneVersion(17)),
        ("head", OneVersion(None)),
        ("16..17", TwoVersions(16, 17)),
        ("0..head", TwoVersions(0, None)),
        ("ledger@12", RecordPosition(Stream.LEDGER, 0, 12)),
        ("events/0@-1", RecordPosition(Stream.EVENTS, 0, -1)),
        ("deltas/3@100", RecordPosition(Stream.DELTAS, 3, 100)),
    ],
)
def test_each_form_is_understood(text: str, wanted: object) -> None:
    assert parse_selection(text) == wanted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("leger@2", "did you mean ledger?"),
        ("things@2", "there are deltas, events, ledger, parameters, snapshots"),
        ("deltas@3", "write for example deltas/0@3"),
        ("v17", FORMS),
        ("1...2", FORMS),
        ("", FORMS),
        ("ledger@" + "9" * 40, FORMS),
    ],
)
def test_anything_else_is_refused_with_what_would_do(text: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_selection(text)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("position", "words"),
    [
        ("ledger@999", "ledger@999: there are offsets 0 to 10"),
        ("ledger@-99", "there are offsets 0 to 10"),
        ("deltas/9@0", "deltas has partitions 0 to 1"),
    ],
)
def test_a_position_that_is_not_there_is_answered_with_those_that_are(
    broker: MemoryBroker, position: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        shown(broker, position)


def test_deleted_records_are_reported_as_deleted() -> None:
    """A trimmed partition is no short one."""
    run = small_run("trimmed")
    run.play()
    run.broker.admin().trim(topic_name("trimmed", Stream.DELTAS), {0: 4})
    with pytest.raises(UsageError, match="there are offsets 4 to 5, what was before offset 4 has been deleted"):
        read_record(run.broker, "trimmed", RecordPosition(Stream.DELTAS, 0, 1))
    run.broker.admin().trim(topic_name("trimmed", Stream.DELTAS), {0: 6})
    with pytest.raises(UsageError, match="nothing is there; the next record will be deltas/0@6"):
        read_record(run.broker, "trimmed", RecordPosition(Stream.DELTAS, 0, -1))


def test_an_offset_from_the_end_is_shown_as_one_from_the_beginning(broker: MemoryBroker) -> None:
    seen = shown(broker, "ledger@-1")
    assert (seen.position, seen.type) == ("ledger@10", "RunEnd")


# -- records ---------------------------------------------------------------------------------------------------------


def test_every_record_of_a_sound_run_is_shown_as_sound(broker: MemoryBroker, ledger: AnnotatedLedger) -> None:
    """Also as JSON, and as lines that a terminal can print."""
    kinds, foreign = set(), 0
    for position, found in everything(broker):
        seen = view_record(position, found, ledger)
        kinds.add(seen.type)
        assert not seen.problem
        assert not any(word in seen.verdict for word in ("does not", "drop it", "refuse"))
        is_foreign = seen.verdict == "it is not part of this run: its proposal was not chosen"
        foreign += is_foreign
        if seen.payload is not None:
            assert (seen.payload.digest, seen.payload.not_finite) == ("wrong" if is_foreign else "right", 0)
        written = json.loads(json.dumps(dataclasses.asdict(seen), allow_nan=False))
        assert (written["position"], written["place"]) == (str(position), str(position))
        assert all(line.isprintable() for line in lines_of(seen))
    assert foreign == PARTITIONS  # the snapshots of the proposal that was not chosen carry another UUID
    assert kinds >= {"Delta", "Contribution", "Receipt", "Version", "Parameters", "ServerState", "Snapshot", "RunStart"}


def test_a_delta_says_what_became_of_it_and_what_is_in_it(broker: MemoryBroker) -> None:
    seen = shown(broker, "deltas/1@2")
    record = decode(read_record(broker, RUN, RecordPosition(Stream.DELTAS, 1, 2))[1].value)
    assert isinstance(record, Delta)
    numbers = np.frombuffer(bytes(record.payload), "<f4").astype(np.float64)
    assert seen.verdict == "clock 2 of ada went into version 2 with coefficient 0.6666667, staleness 0"
    assert seen.payload is not None
    assert (seen.payload.low, seen.payload.high) == (numbers.min(), numbers.max())
    assert seen.payload.norm == pytest.approx(float(np.linalg.norm(numbers)))
    assert seen.fields["present"] == ["weight", "bias"]


def test_a_changed_byte_shows_in_digest_and_verdict(broker: MemoryBroker, ledger: AnnotatedLedger) -> None:
    value = bytearray(a_delta(broker))
    value[-1] ^= 1
    seen = viewed(bytes(value), ledger)
    assert seen.payload is not None
    assert seen.payload.digest == "wrong"
    assert seen.verdict == "servers do not take it: the delta is not what its digest says"


def test_numbers_that_are_none_are_counted_and_left_out_of_the_range(
    broker: MemoryBroker, ledger: AnnotatedLedger
) -> None:
    """A delta of a worker whose loss has exploded: its digest is right, and no server wants it."""
    record = decode(a_delta(broker))
    assert isinstance(record, Delta)
    numbers = np.array([np.nan, np.inf, -2.0, *[0.0] * (record.elements - 3)], np.float32)
    broken = dataclasses.replace(record, payload=encode_fp32(numbers))
    value, _ = seal(ledger.state.start.run, broken)
    seen = viewed(bytes(value), ledger)
    assert seen.payload is not None
    assert (seen.payload.digest, seen.payload.not_finite, seen.payload.low, seen.payload.norm) == (
        "right",
        2,
        -2.0,
        2.0,
    )
    assert "servers refuse it: not finite: weight in shard 0" in seen.verdict
    assert any("not finite" in line for line in lines_of(seen))


@pytest.mark.parametrize(
    ("cut", "problem", "verdict"),
    [
        (slice(0, 0), "an empty value", "stays where it is"),
        (slice(0, 6), "6 bytes, fewer than the 10 of marker and schema fingerprint", "stays where it is"),
        (slice(0, 60), "Delta", "it begins as a Delta"),
        (slice(1, None), "no Avro single-object marker", "stays where it is"),
    ],
)
def test_bytes_that_are_no_record_are_explained(
    broker: MemoryBroker, ledger: AnnotatedLedger, cut: slice, problem: str, verdict: str
) -> None:
    """The reason, what they begin as, and how they look."""
    value = a_delta(broker)[cut]
    seen = viewed(value, ledger)
    assert (seen.type, seen.size) == (None, len(value))
    assert problem in seen.problem
    assert verdict in seen.verdict
    assert bytes.fromhex(seen.first_bytes) == value[:64]
    assert any(line.startswith("0000  ") for line in lines_of(seen)) == bool(value)


def test_a_tombstone_and_its_key_are_shown(ledger: AnnotatedLedger) -> None:
    seen = viewed(None, ledger, "snapshots/0@9", b"0/0/master/ab")
    assert (seen.size, seen.key) == (None, "0/0/master/ab")
    assert "compaction" in seen.verdict
    assert viewed(None, ledger, key=b"\x00\x1b[2J").key == "001b5b324a"


def test_a_record_in_a_foreign_stream_is_named_as_such(broker: MemoryBroker, ledger: AnnotatedLedger) -> None:
    assert viewed(a_delta(broker), ledger, "parameters/0@0").verdict.startswith(
        "a Delta does not belong into parameters"
    )


def test_a_shard_in_a_foreign_partition_is_named_as_such(broker: MemoryBroker, ledger: AnnotatedLedger) -> None:
    assert viewed(a_delta(broker), ledger, "deltas/1@0").verdict.endswith("shard 0 does not live in partition 1")


# -- the ledger ------------------------------------------------------------------------------------------------------


def test_void_records_say_why() -> None:
    """One of a term that is over, and one whose parent is no head any more."""
    broker, written = MemoryBroker(), whole_run()
    head, term = written.chain.head, written.chain.term
    written.append(Publish(term=term, parent=bytes(32), version=3, states=()))
    written.append(Publish(term=0, parent=head, version=3, states=()))
    written.values.append(b"rubbish")
    write(broker, "told", written.values)
    ledger = read_annotated_ledger(broker, "told")
    words = [describe_entry(entry, ledger) for entry in ledger.entries]
    assert f"a Publish, which does not count: its parent 0000000000000000 is not the head {head.hex()[:16]}" in words
    assert "a Publish, which does not count: it is of term 0, and the term is 1" in words
    assert words[-1].startswith("bytes, which is no record: no Avro single-object marker")
    assert "a TermStart, which does not count: term 1 does not follow term 1" in words


def test_every_decision_is_one_line() -> None:
    broker = MemoryBroker()
    write(broker, "told", whole_run().values)
    ledger = read_annotated_ledger(broker, "told")
    assert [describe_entry(entry, ledger) for entry in ledger.entries if entry.counts] == [
        "term 1: server-1 coordinates",
        "the run starts, as worker-1 proposed: 4 shards",
        "worker-1, worker-2 join",
        "version 1 of 2 contributions, staleness 0, loss 0.5000, published",
        "version 2 of 1 contribution, 1 skip, staleness 0, loss 0.5000, published",
        "clock 3 of worker-2 is rejected: not finite",
        "worker-2 is removed: no heartbeat in 12 ticks",
        "version 3 of 1 contribution, staleness 0, loss 0.5000, published",
        "version 3 measured: accuracy 0.7500, odd nan",
        "the run ends: reached version 3",
    ]


def test_a_ledger_that_contradicts_itself_can_still_be_looked_at() -> None:
    """The record that contradicts says so, and later records say that they are not read."""
    broker, written = MemoryBroker(), whole_run()
    written.version(7)
    written.version(8)
    write(broker, "told", written.values)
    ledger = read_annotated_ledger(broker, "told")
    last, behind = list(ledger.entries)[-2:]
    assert last.note.startswith("contradicts the ledger: ledger offset")
    assert behind.note == "is not read: the ledger contradicts itself before it"
    assert ledger.state.version == 3


# -- versions --------------------------------------------------------------------------------------------------------


def test_a_version_names_its_contributions_and_their_weights(ledger: AnnotatedLedger) -> None:
    seen = view_version(RUN, 2, ledger)
    assert [(one.worker, one.clock, one.base_version, one.staleness) for one in seen.uses] == [
        ("ada", 2, 1, 0),
        ("bob", 2, 1, 0),
    ]
    assert [one.coefficient for one in seen.uses] == pytest.approx([2 / 3, 1 / 3])
    assert seen.payload_bytes == 2 * 18 * 4
    assert isinstance(ledger.entries[seen.offset].record, Version)
    assert (seen.digest, seen.published) == (ledger.state.states[2].state.hex(), True)
    text = "\n".join(lines_of(seen))
    assert "the last ones at deltas/0@3, deltas/1@3" in text
    assert json.loads(json.dumps(dataclasses.asdict(seen), allow_nan=False))["metrics"].keys() == {"distance"}


def test_samples_are_shown_whole(ledger: AnnotatedLedger) -> None:
    """A lease that does not say of which samples says nothing."""
    samples = (SampleRange(epoch=3, start=1244, count=192), SampleRange(epoch=4, start=0, count=96))
    grants = tuple(Grant(group=GroupId(2, 1), samples=one) for one in samples)
    text = "\n".join(lines_of(viewed(encode(Lease(term=1, parent=bytes(32), grants=grants)), ledger, "ledger@3")))
    assert "epoch 3 start 1244 count 192" in text
    assert "epoch 4 start 0 count 96" in text


def test_version_0_is_that_of_the_runs_start(ledger: AnnotatedLedger) -> None:
    seen = view_version(RUN, 0, ledger)
    assert (seen.offset, seen.uses, seen.published) == (1, (), True)
    assert lines_of(seen)


def test_a_version_that_there_is_not_is_answered_with_those_there_are(ledger: AnnotatedLedger) -> None:
    assert check_version(None, ledger.state) == 3
    with pytest.raises(UsageError, match="no version 4: the run has 0 to 3"):
        check_version(4, ledger.state)
    with pytest.raises(UsageError, match="has not started"):
        check_version(None, AnnotatedLedger().state)


def test_the_difference_is_what_the_update_did(broker: MemoryBroker, ledger: AnnotatedLedger) -> None:
    """SGD subtracts lr (2/3 of ada's gradient + 1/3 of bob's): computed here from the deltas alone."""
    seen = read_difference(broker, RUN, ledger.state, (1, 2))
    step = np.zeros(18)
    for position, found in everything(broker):
        record = decode(found.value)
        if position.stream is Stream.DELTAS and isinstance(record, Delta) and record.clock == 2:
            share = 2 / 3 if ledger.name(record.group) == "ada" else 1 / 3
            step[9 * record.shard :][:9] += 0.5 * share * np.frombuffer(bytes(record.payload), "<f4")
    weight, bias = seen.segments
    assert (weight.norm, bias.norm) == pytest.approx((np.linalg.norm(step[:15]), np.linalg.norm(step[15:])), rel=1e-5)
    assert seen.norm == pytest.approx(np.linalg.norm(step), rel=1e-5)
    assert seen.largest == pytest.approx(np.abs(step).max(), rel=1e-5)
    assert (weight.changed, weight.same_bits, seen.same_bits) == (15, False, False)
    assert any(line.startswith("bias ") for line in lines_of(seen))


def test_a_version_and_itself_have_the_same_bits(broker: MemoryBroker, ledger: AnnotatedLedger) -> None:
    seen = read_difference(broker, RUN, ledger.state, (2, 2))
    assert (seen.same_bits, seen.changed, seen.norm, seen.largest) == (True, 0, 0.0, 0.0)
    assert "the same bits" in lines_of(seen)[0]


def test_parameters_that_retention_has_deleted_are_missed_by_name() -> None:
    run = small_run("trimmed")
    run.play()
    run.broker.admin().trim(topic_name("trimmed", Stream.PARAMETERS), {1: 2})
    ledger = read_annotated_ledger(run.broker, "trimmed")
    with pytest.raises(RunRefused, match="parameters of version 1 are not in the log"):
        read_difference(run.broker, "trimmed", ledger.state, (1, 2))


def test_a_version_that_was_never_published_has_no_difference() -> None:
    """Those around it have."""
    broker, written = MemoryBroker(), whole_run()
    write(broker, "told", written.values)
    ledger = read_annotated_ledger(broker, "told")
    ledger.state.publish_points.discard(2)
    with pytest.raises(UsageError, match="version 2 was applied and not published; published were 1 and 3"):
        read_difference(broker, "told", ledger.state, (2, 3))

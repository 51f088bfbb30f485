"""Every change of a log is found, with its place; what only looks like one is not."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest

from driftline.broker.topics import Stream
from driftline.errors import Undecodable
from driftline.ledger.follower import Model
from driftline.producers.deltas import Gradient
from driftline.replay.verify.verifier import Verifier
from driftline.schemas.codec import decode, encode
from driftline.schemas.model.tensors import decode_fp32
from driftline.schemas.records import Delta, Membership, Parameters, PayloadBytes, Snapshot, TermStart, Version
from driftline.testing import run_in_process
from driftline.testing.memory import MemoryBroker
from tests.support.verifiable import PARTITIONS, Log, bad, compute, offer, trained

STEPS = 6


@pytest.fixture(scope="module")
def _clean() -> Log:
    return trained(steps=STEPS)


@pytest.fixture
def log(_clean: Log) -> Log:
    """A copy of the log of a whole run: 2 workers, 6 versions, 4 shards."""
    return _clean.copy()


def delta_at(log: Log, version: int, shard: int, use: int = 0) -> tuple[int, Delta]:
    """Find a delta that a version uses; shard s of this model lives in partition s."""
    record = next(one for _, one in log.find(Stream.LEDGER, 0, Version) if one.version == version)
    wanted = (record.uses[use].group, record.uses[use].clock)
    return next((at, one) for at, one in log.find(Stream.DELTAS, shard, Delta) if (one.group, one.clock) == wanted)


def changed(payload: PayloadBytes) -> bytes:
    """Return a payload with other numbers: the second one is another."""
    numbers = decode_fp32(payload, len(payload) // 4).copy()
    numbers[1] += np.float32(0.5)
    return bytes(numbers.tobytes())


# -- nothing wrong ---------------------------------------------------------------------------------------------------


def test_a_clean_run_is_proven_and_every_publish_point_was_compared(log: Log) -> None:
    report = log.verify()
    assert report.is_proven
    assert report.first_bad is None
    assert (report.version, report.versions, report.equal, report.unproven) == (STEPS, STEPS + 1, STEPS + 1, 0)
    assert report.counts["deltas_used"] == STEPS * 2 * PARTITIONS
    assert report.counts["parameters_equal"] == (STEPS + 1) * PARTITIONS


def test_a_run_with_several_shards_in_a_partition_is_proven() -> None:
    big = trained("big", workers=1, steps=2, partitions=2, sizes={"a": 700_000, "b": 500_000})
    report = big.verify()
    assert report.is_proven
    assert report.counts["parameters_equal"] == 3 * 5


def test_published_parameters_that_are_gone_are_not_missed(log: Log) -> None:
    for partition in range(PARTITIONS):
        del log.values[Stream.PARAMETERS, partition][: partition * 3]
    assert log.verify().is_proven


def test_resent_deltas_and_rubbish_are_counted(log: Log) -> None:
    for partition in range(PARTITIONS):
        deltas = log.values[Stream.DELTAS, partition]
        deltas += [deltas[0], None, b"rubbish", deltas[-1], log.ledger[0]]
    report = log.verify()
    assert report.is_proven
    assert (report.counts["deltas_duplicates"], report.counts["deltas_undecodable"]) == (8, 12)


def test_another_valid_delta_of_one_identity_is_an_alarm_and_changes_nothing(log: Log) -> None:
    offset, delta = delta_at(log, 2, shard=1)
    log.values[Stream.DELTAS, 1].append(b"")
    end = len(log.values[Stream.DELTAS, 1]) - 1
    log.reseal(Stream.DELTAS, 1, end, dataclasses.replace(delta, payload=changed(delta.payload)))
    report = log.verify()
    assert report.is_proven
    (alarm,) = report.alarms
    assert (alarm.partition, alarm.offset, alarm.first_offset, alarm.shard) == (1, end, offset, 1)


def test_a_broken_copy_beside_a_good_one_is_only_counted(log: Log) -> None:
    for stream, partition in ((Stream.DELTAS, 1), (Stream.PARAMETERS, 2)):
        values = log.values[stream, partition]
        values.append(values[3])
        log.flip(stream, partition, 3)
    # The good copy of the delta is now behind what its version records, so only the parameters can be healed that way.
    assert bad(log.verify()).stream is Stream.DELTAS
    log.flip(Stream.DELTAS, 1, 3)
    report = log.verify()
    assert report.is_proven
    assert report.counts["parameters_unsound"] == 1


@pytest.mark.parametrize("at", range(1, 12))
def test_a_forged_version_that_builds_on_another_head_is_void_wherever_it_stands(log: Log, at: int) -> None:
    """Readers ignore it, and so does the proof, as long as the ledger goes on behind it or has ended."""
    forged = next(one for _, one in log.find(Stream.LEDGER, 0, Version))
    end = len(log.ledger)
    for place in (at, end):
        if place > end:
            continue
        # Group ids are ledger offsets, so nothing can be put in before the joins.
        joined, _ = next(log.find(Stream.LEDGER, 0, Membership))
        copy = log.copy()
        copy.ledger.insert(max(place, joined + 1), encode(dataclasses.replace(forged, parent=b"x" * 32)))
        report = copy.verify()
        assert report.is_proven, report.first_bad
        assert report.counts["ledger_void"] == 1


def test_a_claim_of_a_term_by_a_process_that_is_gone_is_legal(log: Log) -> None:
    """A candidate may write its TermStart and die; what the old coordinator then has under way is void."""
    claim = TermStart(term=2, parent=b"x" * 32, nonce=bytes(16), coordinator="gone", incarnation=bytes(16))
    log.ledger.append(encode(claim))
    report = log.verify()
    assert report.is_proven
    assert report.term == 2


# -- deltas ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "shard", "use"), [(1, 0, 0), (3, 2, 1), (STEPS, 3, 0)])
def test_a_flipped_bit_in_a_delta_is_found_where_it_is(log: Log, version: int, shard: int, use: int) -> None:
    offset, delta = delta_at(log, version, shard, use)
    log.flip(Stream.DELTAS, shard, offset)
    report = log.verify()
    found = bad(report)
    assert (found.verdict, found.stream, found.partition, found.offset) == (
        "integrity",
        Stream.DELTAS,
        shard,
        offset,
    )
    assert (found.version, found.shard, found.clock) == (version, shard, delta.clock)
    assert "not what its digest says" in found.found
    assert report.numerically_equal
    assert report.equal == report.versions == version


@pytest.mark.parametrize("at", [0, 5, 10, 42, 43, 44])
def test_a_flipped_bit_in_the_header_of_a_delta_is_found_too(log: Log, at: int) -> None:
    """It then claims to be another one, or none at all; the place is told by what is missing."""
    offset, _ = delta_at(log, 2, shard=1)
    log.flip(Stream.DELTAS, 1, offset, at)
    found = bad(log.verify())
    assert (found.stream, found.partition, found.version, found.shard) == (Stream.DELTAS, 1, 2, 1)
    assert str(offset) in f"{found.offset} {found.found}"


def test_an_exchanged_delta_with_a_right_digest_does_not_hash_to_its_root(log: Log) -> None:
    """What was published tells which of the contribution's deltas it is, and the tensor."""
    offset, delta = delta_at(log, 3, shard=2)
    log.reseal(Stream.DELTAS, 2, offset, dataclasses.replace(delta, payload=changed(delta.payload)))
    report = log.verify()
    found = bad(report)
    assert (found.stream, found.partition, found.offset) == (Stream.DELTAS, 2, offset)
    assert (found.version, found.shard, found.segment, found.clock) == (3, 2, "second.weight", delta.clock)
    assert "root" in found.problem
    assert not report.numerically_equal
    assert report.equal == 3


def test_an_exchanged_delta_is_found_without_published_parameters(log: Log) -> None:
    offset, delta = delta_at(log, 3, shard=2)
    log.reseal(Stream.DELTAS, 2, offset, dataclasses.replace(delta, payload=changed(delta.payload)))
    for partition in range(PARTITIONS):
        log.values[Stream.PARAMETERS, partition].clear()
    found = bad(log.verify())
    assert (found.stream, found.partition, found.version, found.clock) == (Stream.DELTAS, None, 3, delta.clock)


def test_a_removed_delta_is_found(log: Log) -> None:
    offset, delta = delta_at(log, 4, shard=0, use=1)
    del log.values[Stream.DELTAS, 0][offset]
    found = bad(log.verify())
    assert (found.stream, found.partition, found.version, found.shard) == (Stream.DELTAS, 0, 4, 0)
    assert (found.clock, found.problem) == (delta.clock, "a delta that a version uses is missing")


def test_deltas_in_another_order_are_found(log: Log) -> None:
    """A version records the position behind what it uses."""
    early, _ = delta_at(log, 2, shard=1)
    late, _ = delta_at(log, 5, shard=1)
    deltas = log.values[Stream.DELTAS, 1]
    deltas[early], deltas[late] = deltas[late], deltas[early]
    found = bad(log.verify())
    assert (found.stream, found.partition, found.offset) == (Stream.DELTAS, 1, late)
    assert (found.version, found.shard) == (2, 1)


def test_a_missing_delta_does_not_make_the_rest_pile_up() -> None:
    long = trained("long", workers=1, steps=40)
    offset, _ = delta_at(long, 3, shard=1)
    del long.values[Stream.DELTAS, 1][offset]
    most = 0

    def watched(values: list[bytes | None]) -> Iterator[tuple[int, bytes | None]]:
        nonlocal most
        for at, value in enumerate(values):
            most = max(most, len(proof.owned.held))
            yield at, value

    verifier = Verifier()
    for at, value in enumerate(long.ledger):
        verifier.on_ledger(at, value)
    for proof in verifier.on_ledger_end():
        streams = (long.values[stream, proof.owned.partition] for stream in (Stream.SNAPSHOTS, Stream.PARAMETERS))
        snapshots, parameters = (iter(list(enumerate(values))) for values in streams)
        proof.prove(snapshots, watched(long.values[Stream.DELTAS, proof.owned.partition]), parameters)
    assert 1 <= most <= 9
    assert bad(verifier.report()).version == 3


# -- version 0 and published parameters ------------------------------------------------------------------------------


def test_a_changed_version_0_is_found(log: Log) -> None:
    offset, _ = next(log.find(Stream.SNAPSHOTS, 2, Snapshot))
    log.flip(Stream.SNAPSHOTS, 2, offset)
    report = log.verify()
    found = bad(report)
    assert (found.stream, found.partition, found.offset, found.version, found.shard) == (
        Stream.SNAPSHOTS,
        2,
        offset,
        0,
        2,
    )
    assert (report.versions, report.equal) == (0, 0)


def test_a_version_0_that_is_gone_is_found(log: Log) -> None:
    log.values[Stream.SNAPSHOTS, 3].clear()
    found = bad(log.verify())
    assert (found.stream, found.partition, found.offset, found.shard) == (Stream.SNAPSHOTS, 3, None, 3)


def parameters_at(log: Log, version: int, shard: int) -> tuple[int, Parameters]:
    """Find the parameters of a version."""
    return next(one for one in log.find(Stream.PARAMETERS, shard, Parameters) if one[1].version == version)


def test_changed_parameters_are_found(log: Log) -> None:
    offset, _ = parameters_at(log, 3, shard=1)
    log.flip(Stream.PARAMETERS, 1, offset)
    report = log.verify()
    found = bad(report)
    assert (found.verdict, found.stream, found.partition, found.offset) == ("integrity", Stream.PARAMETERS, 1, offset)
    assert (found.version, found.shard) == (3, 1)
    assert report.numerically_equal
    assert report.equal == report.versions == STEPS + 1


def test_other_parameters_with_a_right_digest_are_found_with_tensor_and_element(log: Log) -> None:
    offset, record = parameters_at(log, 3, shard=1)
    log.reseal(Stream.PARAMETERS, 1, offset, dataclasses.replace(record, payload=changed(record.payload)))
    found = bad(log.verify())
    assert (found.stream, found.offset, found.version, found.shard) == (Stream.PARAMETERS, offset, 3, 1)
    assert found.segment == "second.weight"  # the shard begins with the last number of the two tensors before it
    assert found.expected.startswith("element 0 = ")
    assert "bits" in found.found


def test_minus_zero_is_not_zero(log: Log) -> None:
    """Compared are bytes, not numbers."""
    offset, record = parameters_at(log, 0, shard=0)
    zero = decode_fp32(record.payload, record.elements).copy()
    assert zero[2] == 0.0
    zero[2] = -zero[2]
    log.reseal(Stream.PARAMETERS, 0, offset, dataclasses.replace(record, payload=zero.tobytes()))
    found = bad(log.verify())
    assert (found.version, found.segment) == (0, "first.weight")
    assert (found.expected, found.found) == ("element 2 = 0.0 (bits 00000000)", "-0.0 (bits 80000000)")


def test_parameters_that_come_late_are_compared_as_well(log: Log) -> None:
    """A server that takes over may publish an older version behind a newer one."""
    values = log.values[Stream.PARAMETERS, 0]
    offset, record = parameters_at(log, 2, shard=0)
    values.append(values[offset])
    assert log.verify().counts["parameters_equal"] == (STEPS + 1) * PARTITIONS + 1
    log.reseal(Stream.PARAMETERS, 0, len(values) - 1, dataclasses.replace(record, payload=changed(record.payload)))
    found = bad(log.verify())
    assert (found.stream, found.offset, found.version) == (Stream.PARAMETERS, len(values) - 1, 2)


# -- runs that prove nothing, or fail --------------------------------------------------------------------------------


def test_an_empty_ledger_proves_nothing() -> None:
    empty = Log({(stream, 0): [] for stream in Stream})
    report = empty.verify()
    assert (report.versions, report.equal, report.first_bad, report.is_proven) == (0, 0, None, False)


def test_a_run_that_left_the_finite_numbers_is_proven_up_to_there() -> None:
    """The failure is reproduced; no digest of it was ever recorded."""
    broker = MemoryBroker()

    def huge(worker: str, model: Model, cursor: int) -> Gradient:
        gradient = compute(worker, model, cursor)
        if cursor == 3:
            gradient.flat[5] = 3e38
        return gradient

    run_in_process(broker, offer("huge", 2, STEPS), ["a", "b"], huge)
    report = Log.of(broker, "huge").verify()
    assert report.is_proven, report.first_bad
    assert report.ended
    assert (report.version, report.versions, report.unproven) == (4, 4, 1)


def test_what_is_not_a_record_raises_nothing(log: Log) -> None:
    """Whatever stands in a topic, there is a report."""
    with pytest.raises(Undecodable):
        decode(b"\xc3\x01 rubbish")
    for place in log.values:
        log.values[place] = [b"\xc3\x01 rubbish", None, *log.values[place][::2]]
    assert not log.verify().is_proven

"""Every change of a ledger is found, with its place, but that of its last record: for it a head was kept."""

import dataclasses
from collections.abc import Callable

import pytest

from driftline.broker.topics import Stream
from driftline.replay.verify.ledger import LedgerProof
from driftline.schemas.codec import decode, encode
from driftline.schemas.records import LedgerRecord, Parameters, RunEnd, StateDigest, TermStart, Version
from driftline.schemas.records.identity import NO_HASH
from tests.support.verifiable import PARTITIONS, Log, bad, trained

STEPS = 6


@pytest.fixture(scope="module")
def _clean() -> Log:
    return trained(steps=STEPS)


@pytest.fixture
def log(_clean: Log) -> Log:
    """A copy of the log of a whole run: 2 workers, 6 versions, 4 shards."""
    return _clean.copy()


def third(change: Callable[[Version], Version]) -> Callable[[LedgerRecord], LedgerRecord]:
    """Return a change of version 3 alone."""
    return lambda record: change(record) if isinstance(record, Version) and record.version == 3 else record


# -- the ledger ------------------------------------------------------------------------------------------------------


def test_every_changed_ledger_record_but_the_last_is_found_where_it_is(log: Log) -> None:
    for offset in range(len(log.ledger) - 1):
        copy = log.copy()
        copy.flip(Stream.LEDGER, 0, offset)
        found = bad(copy.verify())
        assert (found.verdict, found.stream, found.offset) == ("integrity", Stream.LEDGER, offset), found


def test_every_byte_of_a_ledger_record_counts(log: Log) -> None:
    offset, record = next((at, one) for at, one in log.find(Stream.LEDGER, 0, Version) if one.version == 3)
    for at in range(len(encode(record))):
        copy = log.copy()
        copy.flip(Stream.LEDGER, 0, offset, at)
        proof = LedgerProof()
        for place, value in enumerate(copy.ledger):
            proof.read(place, value)
        proof.end()
        assert proof.findings.first is not None
        assert proof.findings.first.offset in (offset, offset - 1)  # a record that reads otherwise may itself be void


def test_a_changed_last_record_is_found_by_a_head_that_was_kept(log: Log) -> None:
    """Nothing in the ledger stands behind it."""
    head = log.verify().head
    offset, end = next(log.find(Stream.LEDGER, 0, RunEnd))
    log.ledger[offset] = encode(dataclasses.replace(end, reason="another"))
    assert log.verify().is_proven
    found = bad(log.verify(head))
    assert (found.stream, found.problem) == (Stream.LEDGER, "the ledger does not pass through the expected head")


def test_a_removed_ledger_record_is_found(log: Log) -> None:
    for offset in range(3, len(log.ledger) - 1):
        copy = log.copy()
        del copy.ledger[offset]
        found = bad(copy.verify())
        assert (found.stream, found.offset) == (Stream.LEDGER, offset - 1)


def test_two_ledger_records_in_the_wrong_order_are_found(log: Log) -> None:
    for offset in range(len(log.ledger) - 1):
        copy = log.copy()
        copy.ledger[offset], copy.ledger[offset + 1] = copy.ledger[offset + 1], copy.ledger[offset]
        assert bad(copy.verify()).stream is Stream.LEDGER


def test_a_term_put_in_between_is_found(log: Log) -> None:
    """It makes what the honest coordinator wrote void."""
    claim = TermStart(term=2, parent=b"x" * 32, nonce=bytes(16), coordinator="mallory", incarnation=bytes(16))
    log.ledger.insert(5, encode(claim))
    found = bad(log.verify())
    assert (found.stream, found.offset) == (Stream.LEDGER, 5)


def test_a_ledger_that_was_cut_is_found_by_what_was_published(log: Log) -> None:
    offset = next(at for at, one in log.find(Stream.LEDGER, 0, Version) if one.version == 4)
    del log.ledger[offset:]
    found = bad(log.verify())
    assert (found.stream, found.version) == (Stream.PARAMETERS, 4)
    assert "another ledger" in found.problem


def test_a_run_that_goes_on_is_proven_up_to_the_end_that_its_ledger_has(log: Log) -> None:
    """The newest version has no recorded digest yet; deltas of later ones are not used yet."""
    offset = next(at for at, one in log.find(Stream.LEDGER, 0, Version) if one.version == 4)
    del log.ledger[offset:]
    for partition in range(PARTITIONS):
        published = [at for at, one in log.find(Stream.PARAMETERS, partition, Parameters) if one.version < 4]
        values = log.values[Stream.PARAMETERS, partition]
        log.values[Stream.PARAMETERS, partition] = [values[at] for at in published]
    report = log.verify()
    assert report.is_proven
    assert not report.ended
    assert (report.versions, report.equal + report.unproven) == (4, 4)
    assert report.counts["deltas_unused"] == 3 * 2 * PARTITIONS


def test_a_wrong_recorded_digest_in_an_intact_chain_is_a_numeric_difference(log: Log) -> None:
    """The last digest stands in the last record, so no head that was seen before changes."""

    def wrong(record: LedgerRecord) -> LedgerRecord:
        if not isinstance(record, RunEnd):
            return record
        (state,) = [one for one in record.states if one.version == STEPS]
        return dataclasses.replace(record, states=(dataclasses.replace(state, state=b"?" * 32),))

    log.rechain(wrong)
    report = log.verify()
    found = bad(report)
    assert (report.integrity, report.numerically_equal) == (True, False)
    assert (found.verdict, found.stream, found.version) == ("numeric", Stream.LEDGER, STEPS)
    assert isinstance(decode(log.ledger[found.offset or 0]), RunEnd)
    assert found.expected.startswith(f"state {(b'?' * 32).hex()}")
    assert report.different == 1


def test_a_rewritten_chain_contradicts_what_was_published(log: Log) -> None:
    log.rechain(third(lambda record: dataclasses.replace(record, learning_rates=(0.5,))))
    report = log.verify()
    assert bad(report).stream is Stream.PARAMETERS
    assert (bad(report).version, report.integrity, report.numerically_equal) == (3, False, False)
    assert report.equal == 3


def test_a_record_that_contradicts_the_ledger_before_it_is_found(log: Log) -> None:
    log.rechain(third(lambda record: dataclasses.replace(record, version=7)))
    report = log.verify()
    assert bad(report).stream is Stream.LEDGER
    assert "version 7 follows version 2" in bad(report).found
    assert report.counts["ledger_unread"] > 0


def test_a_version_that_contradicts_the_settings_is_found(log: Log) -> None:
    log.rechain(third(lambda record: dataclasses.replace(record, learning_rates=())))
    found = bad(log.verify())
    assert (found.stream, found.problem) == (Stream.LEDGER, "the ledger contradicts itself")
    assert "0 learning rates for 1 parameter groups" in found.found


def test_a_digest_of_a_version_to_come_is_found(log: Log) -> None:
    states = (StateDigest(version=5, state=NO_HASH, parameters=NO_HASH),)
    log.rechain(third(lambda record: dataclasses.replace(record, states=states)))
    assert "does not exist yet" in bad(log.verify()).problem


# -- heads -----------------------------------------------------------------------------------------------------------


def test_a_head_that_was_kept_is_found_at_its_record(log: Log) -> None:
    head = log.verify().head
    for expect in (head, head[:16], head.upper()):
        report = log.verify(expect)
        assert report.is_proven
        assert report.expected_head is not None
        assert (report.expected_head.offset, report.expected_head.record) == (len(log.ledger) - 1, "RunEnd")
    middle = log.copy()
    del middle.ledger[6:]
    earlier = log.verify(middle.verify().head).expected_head
    assert earlier is not None
    assert earlier.offset == 5


def test_a_head_of_another_ledger_is_not_found(log: Log) -> None:
    found = bad(log.verify("ab" * 32))
    assert (found.stream, found.expected) == (Stream.LEDGER, "a head " + "ab" * 32)

"""Logs that a release has written fold for ever, to the same bits."""

from pathlib import Path

import pytest

from driftline.broker.topics import Stream
from driftline.schemas.records import Checkpoint, Delta, Lease, Rejection, Version
from tests.recorded import fold, read, recordings


@pytest.mark.parametrize("path", recordings(), ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_a_recorded_log_gives_the_bits_that_it_gave_when_it_was_written(path: Path) -> None:
    """Every version recomputed from its deltas; nothing here was made by the code under test."""
    expected, log = read(path)
    report = log.verify()
    assert report.first_bad is None
    assert report.is_proven
    assert report.version == expected.version
    assert report.versions == expected.version + 1
    assert report.equal == len(expected.states)
    assert report.counts == expected.counts
    state = fold(log)
    assert state.chain.head.hex() == expected.head
    assert {str(version): one.state.hex() for version, one in state.states.items()} == expected.states


def test_recorded_logs_hold_what_is_worth_keeping() -> None:
    modes, kinds = set[str](), set[type]()
    for path in recordings():
        _, log = read(path)
        config = fold(log).config
        modes.add(config.consistency.mode)
        for kind in (Version, Rejection, Lease):
            kinds |= {type(one) for _, one in log.find(Stream.LEDGER, 0, kind)}
        kinds |= {type(one) for _, one in log.find(Stream.LEDGER, 0, Checkpoint) if one.state}
        kinds |= {type(one) for _, one in log.find(Stream.DELTAS, 0, Delta)}
    assert modes >= {"sync", "ssp", "buffered", "async"}
    assert kinds == {Version, Rejection, Lease, Checkpoint, Delta}


def test_a_changed_byte_of_a_recorded_log_is_found() -> None:
    """So that the test above can fail."""
    _, log = read(recordings()[0])
    offset, _ = next(log.find(Stream.DELTAS, 0, Delta))
    log.flip(Stream.DELTAS, 0, offset)
    assert not log.verify().is_proven

"""Names of runs and members: the first free ones, and those of members that are gone."""

import pytest

from driftline.errors import RunRefused
from driftline.runs.catalogue import find_members
from driftline.runs.naming import unused_names, unused_run_name
from driftline.testing.memory import MemoryBroker
from tests.support.small_ledger import Ledger, whole_run, write


def test_a_default_name_gets_the_first_free_number() -> None:
    """Reserved names are not free."""
    broker = MemoryBroker()
    assert unused_run_name(broker, "digits") == "digits"
    for run in ("digits", "digits-2"):
        write(broker, run, [])
    assert unused_run_name(broker, "digits") == "digits-3"
    assert unused_run_name(broker, "digits", {"digits-3"}) == "digits-4"


def test_a_run_that_ended_is_refused_with_the_way_out() -> None:
    """Nothing can be added to it."""
    broker = MemoryBroker()
    write(broker, "told", whole_run().values)
    with pytest.raises(RunRefused, match=r"ended at version 3 .*runs delete told"):
        find_members(broker, "told")


def test_a_run_without_live_workers_is_joined_under_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that its workers read the data that they would have read."""
    monkeypatch.setattr("driftline.runs.catalogue.LISTEN_S", 0.1)
    broker = MemoryBroker()
    write(broker, "told", Ledger().start().values)
    existing = find_members(broker, "told")
    assert existing is not None
    assert unused_names("worker", 2, existing.workers) == ("worker-1", "worker-2")
    assert unused_names("worker", 2, {"worker-1"}) == ("worker-2", "worker-3")
    assert find_members(broker, "no-such-run") is None

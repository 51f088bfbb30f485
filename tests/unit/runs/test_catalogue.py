"""Runs are listed, found and deleted by name."""

import pytest

from driftline.errors import RunRefused, UsageError
from driftline.ledger.entering.reading import check_run_exists, no_such_run, run_names
from driftline.runs.catalogue import examine_deletion, list_runs
from driftline.runs.commands import delete_run
from driftline.testing.memory import MemoryBroker
from tests.support.small_ledger import G1, use, whole_run, write


def test_runs_are_listed_and_one_that_cannot_be_read_does_not_hide_the_others() -> None:
    """It is listed with its problem."""
    broker = MemoryBroker()
    write(broker, "told", whole_run().values)
    write(broker, "empty", [])
    write(broker, "odd", whole_run().version(4, use(G1, 4)).values)
    entries = {one.run: one for one in list_runs(broker, print)}
    assert [(one.run, one.state, one.version) for one in (entries["empty"], entries["told"])] == [
        ("empty", "empty", 0),
        ("told", "ended", 3),
    ]
    assert entries["odd"].state == "unreadable"
    assert "Version outside of a running run" in entries["odd"].problem


def test_a_message_about_many_runs_says_how_many_it_leaves_out() -> None:
    """Otherwise a reader takes the list for the whole."""
    names = [f"run-{index:02}" for index in range(30)]
    assert str(no_such_run("xyz", names)).endswith("run-18, run-19 and 10 more")
    assert str(no_such_run("xyz", names[:20])).endswith("run-18, run-19")


def test_a_run_that_does_not_exist_is_answered_with_a_near_one() -> None:
    """Or with all there are."""
    broker = MemoryBroker()
    write(broker, "digits-2", [])
    with pytest.raises(RunRefused, match=r"no run 'digit-2'; did you mean digits-2\?"):
        check_run_exists(broker, "digit-2")
    with pytest.raises(RunRefused, match="the runs there are: digits-2"):
        examine_deletion(broker, "xyz")
    with pytest.raises(UsageError, match="'a/b' is not usable"):
        check_run_exists(broker, "a/b")


def test_deleting_takes_the_five_topics_of_this_run_alone() -> None:
    """A run whose name begins alike stays."""
    broker = MemoryBroker()
    write(broker, "told", whole_run().values)
    write(broker, "told-2", whole_run().values)
    assert examine_deletion(broker, "told").what == "ended, at version 3"
    assert len(delete_run(broker, "told")) == 5
    assert run_names(broker) == ["told-2"]
    assert len(broker.admin().topics()) == 5

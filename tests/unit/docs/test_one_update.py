"""The page about one update is what the program makes, to the last digest."""

from tests.one_update.page import one_update
from tests.one_update.trace import traced
from tests.one_update.way import BESIDE, stops
from tests.support import ROOT

BROKER = "src/driftline/testing/memory/"
"""Here in place of Kafka."""

PAGE = ROOT / "docs" / "one-update.md"


def test_the_page_is_that_of_the_run() -> None:
    """It changes when records, digests or words do; then: python -m tests.one_update > the page."""
    assert PAGE.read_text() == one_update(), "make it again: python -m tests.one_update > docs/one-update.md"


def test_two_runs_give_the_same_page() -> None:
    """Nothing in it depends on time, chance or the order of threads."""
    assert one_update() == one_update()


def test_a_gradient_passes_at_most_35_modules() -> None:
    """Each once; more would be a way that one person cannot keep in mind."""
    modules = [stop.module for stop in stops()]
    assert len(modules) == len(set(modules)) <= 35


def test_the_way_is_that_of_a_real_update() -> None:
    """Every named function runs, and every module that runs is on the way or beside it."""
    ran = {module: names for module, names in traced().items() if not module.startswith(BROKER)}
    assert [stop for stop in stops() if stop.function not in ran.get(stop.module, ())] == []
    beside = {module for modules in BESIDE.values() for module in modules}
    on_the_way = {stop.module for stop in stops()}
    assert not on_the_way & beside
    assert ran.keys() - on_the_way - beside == set()

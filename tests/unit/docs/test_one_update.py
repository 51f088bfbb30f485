"""The page "one update as decoded records" is what the program makes, to the last digest."""

from tests.one_update import one_update
from tests.support import ROOT

PAGE = ROOT / "docs" / "one-update.md"


def test_the_page_is_that_of_the_run() -> None:
    """It changes when records, digests or words do; then: python -m tests.one_update > the page."""
    assert PAGE.read_text() == one_update(), "make it anew: python -m tests.one_update > docs/one-update.md"


def test_two_runs_give_the_same_page() -> None:
    """Nothing in it depends on time, chance or the order of threads."""
    assert one_update() == one_update()

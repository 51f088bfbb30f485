"""Two thousand seeds, spread over files so that every process of a parallel test command gets its share."""

from collections.abc import Callable

import pytest

from tests.simulation.run.scenario import MIN_KINDS
from tests.simulation.seeds.progress import blocks
from tests.simulation.seeds.runner import run_block
from tests.simulation.seeds.tally import Tally, tally_from_json

SEEDS = 2000
SEEDS_A_FILE = 250
MIN_EVENTS = 500

PROPERTY = "simulated"
"""Name under which a test's report carries what its seeds add up to."""

Record = Callable[[str, object], None]


def seeds_from(first: int) -> pytest.MarkDecorator:
    """Give a test the blocks of one file's seeds, one after the other."""
    seeds = list(blocks(range(first, first + SEEDS_A_FILE)))
    return pytest.mark.parametrize("block", seeds, ids=[f"{block.start}-{block.stop - 1}" for block in seeds])


def check_seeds(block: range, record_property: Record) -> None:
    """Simulate seeds: each keeps every promise, through enough events and kinds of faults."""
    tally = run_block(block)
    record_property(PROPERTY, tally.to_json())
    replay = [f"{what}\nreplay: python -m tests.simulation --seed {seed}" for seed, what in tally.failed.items()]
    assert not tally.failed, "\n".join(replay)
    assert tally.seeds == len(block)
    assert tally.fewest_events is not None
    assert tally.fewest_events >= MIN_EVENTS
    assert tally.fewest_kinds is not None
    assert tally.fewest_kinds >= MIN_KINDS


def counted(reports: list[pytest.TestReport]) -> Tally:
    """Add up what the seeds of many tests did."""
    total = Tally()
    for report in reports:
        for name, value in report.user_properties:
            if name == PROPERTY:
                total.add(tally_from_json(str(value)))
    return total

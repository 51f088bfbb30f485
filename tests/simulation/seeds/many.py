"""Two thousand seeds, in blocks that the processes of a parallel test command share."""

from collections.abc import Callable

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.simulation.run.scenario import MIN_KINDS
from tests.simulation.seeds.runner import run_block
from tests.simulation.seeds.tally import Tally, tally_from_json

SEEDS = 1_600
MIN_EVENTS = 500

PROPERTY = "simulated"
"""Name under which a test's report carries what its seeds add up to."""

Record = Callable[[str, object], None]


def block_id(block: range) -> str:
    """Return the name of a test of a block."""
    return f"seeds {block.start}-{block.stop - 1}"


class FilesThenSeeds(LoadFileScheduling):  # type: ignore[misc] # xdist has no types
    """Gives each process one file of tests after the other, and blocks of seeds one by one.

    Units with few tests come last: so the blocks even out when the processes end.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if "[seeds " in nodeid else super()._split_scope(nodeid)


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

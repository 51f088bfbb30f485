"""Seeds 500 to 749 keep every promise."""

from tests.simulation.seeds.many import Record, check_seeds, seeds_from


@seeds_from(500)
def test_seeds_keep_every_promise(block: range, record_property: Record) -> None:
    check_seeds(block, record_property)

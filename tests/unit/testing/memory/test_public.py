"""``driftline.testing``: what users import for their own tests works as its page shows."""

import doctest

import driftline.testing
from driftline.testing.memory import MemoryBroker


def test_the_example_of_the_package_runs_as_shown() -> None:
    outcome = doctest.testmod(driftline.testing)
    assert outcome.attempted >= 10
    assert outcome.failed == 0


def test_the_public_broker_is_the_one_that_the_contract_tests_check() -> None:
    assert driftline.testing.MemoryBroker is MemoryBroker

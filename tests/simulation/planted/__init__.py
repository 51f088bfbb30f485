"""Bugs put into the state machines on purpose: the simulation must find each of `ALL`.

Each is a handful of overridden methods, and data to the test that runs them.
"""

from tests.simulation.planted.leases import LEASES
from tests.simulation.planted.ledger import LEDGER
from tests.simulation.planted.recovery import RECOVERY
from tests.simulation.planted.sends import SENDS
from tests.simulation.planted.settling import SETTLING
from tests.simulation.planted.shards import SHARDS
from tests.simulation.planted.states import STATES

ALL = (*LEDGER, *SETTLING, *SHARDS, *SENDS, *LEASES, *RECOVERY, *STATES)

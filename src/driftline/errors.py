"""The error tree.

Every error that a user can see says what is wrong, the value, and what to do. Its class says which side is wrong and
whether trying again can help:

    DriftlineError
    ├── UsageError            the command line or an argument is wrong              exit 2
    ├── ConfigError           the configuration is wrong, all problems at once      exit 2
    ├── IntegrityError        the log is not what its digests say                   exit 3
    ├── BrokerError           Kafka answered with an error, or not at all
    │   ├── BrokerUnreachable     no answer from the address                        retriable
    │   ├── DeliveryFailed        a record was not acknowledged in time             retriable
    │   ├── TopicMissing          a topic does not exist
    │   ├── RightMissing          Kafka's access rules (ACLs) forbid it
    │   └── EmbeddedBrokerError   the broker on this machine cannot start or stop
    ├── RecordError           one record is unusable; the reader goes on
    │   ├── Undecodable           bytes that are not a driftline record
    │   └── NotEncodable          a record that breaks its schema
    └── RunError
        ├── RunRefused            this process does not fit the run
        ├── RunEnded              the run is over
        ├── MemberRemoved         the ledger removed this member
        ├── NonFiniteState        an update would make the model non-finite
        └── WaitTimeout           a wait reached its deadline; says for what         retriable
"""

from collections.abc import Sequence
from typing import ClassVar


class DriftlineError(Exception):
    """Base of every error that driftline raises on purpose."""

    exit_code: ClassVar[int] = 1
    retriable: ClassVar[bool] = False


class UsageError(DriftlineError):
    """A command line or an argument is wrong."""

    exit_code = 2


class ConfigError(DriftlineError):
    """The configuration is wrong. Lists every problem, not only the first."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class IntegrityError(DriftlineError):
    """The log is not what its digests say."""

    exit_code = 3


class BrokerError(DriftlineError):
    """Kafka answered with an error, or not at all."""


class BrokerUnreachable(BrokerError):
    """No broker answers at the address."""

    retriable = True


class DeliveryFailed(BrokerError):
    """A record was not acknowledged in time; it may or may not be in the log."""

    retriable = True


class TopicMissing(BrokerError):
    """A topic does not exist."""


class RightMissing(BrokerError):
    """Kafka's access rules (ACLs) forbid it. The message names the user, the right, and the command that grants it."""


class EmbeddedBrokerError(BrokerError):
    """The broker on this machine cannot start or stop."""


class RecordError(DriftlineError):
    """One record is unusable; the reader counts it and goes on."""


class Undecodable(RecordError):
    """Bytes that are not a driftline record."""


class NotEncodable(RecordError):
    """A record that breaks its schema."""


class RunError(DriftlineError):
    """Something is wrong with the run as a whole."""


class RunRefused(RunError):
    """This process does not fit the run: another model, other settings, no such run."""

    exit_code = 2


class RunEnded(RunError):
    """The run is over; nothing more can be contributed."""


class MemberRemoved(RunError):
    """The ledger removed this member from the run."""


class NonFiniteState(RunError):
    """An update would make the model non-finite; the run stops before it is written."""


class WaitTimeout(RunError):
    """A wait reached its deadline. The message says what it waited for."""

    retriable = True

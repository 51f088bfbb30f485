"""What a finished state machine means for the command that ran it."""

from collections.abc import Mapping

from driftline.errors import DriftlineError, IntegrityError, MemberRemoved, RunError, RunRefused
from driftline.schemas.effects import Finish

_ERRORS: Mapping[str, type[DriftlineError]] = {
    "the log contradicts itself": IntegrityError,
    "refused": RunRefused,
    "removed": MemberRemoved,
}


def check_finish(finish: Finish) -> None:
    """Return if a state machine finished well.

    Raises:
        RunError: it did not; the class decides the exit code.
        IntegrityError: the log is not what its digests say.
    """
    if finish.failure:
        raise _ERRORS.get(finish.reason, RunError)(finish.failure)

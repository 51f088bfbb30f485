"""What a finished state machine means for the command that ran it."""

from collections.abc import Mapping

from driftline.errors import DriftlineError, IntegrityError, MemberRemoved, RunError, RunRefused
from driftline.schemas.effects import Finish

_ERRORS: Mapping[str, type[DriftlineError]] = {
    "the log contradicts itself": IntegrityError,
    "refused": RunRefused,
    "removed": MemberRemoved,
}


OTHER_PROCESS = (
    ". Another process is at work under this name: a run knows its workers by name, so give each process its own"
)


def check_finish(finish: Finish) -> None:
    """Return if a state machine finished well.

    Raises:
        RunError: it did not; the class decides the exit code.
        IntegrityError: the log is not what its digests say.
    """
    if finish.failure:
        error = _ERRORS.get(finish.reason, RunError)
        # A worker that was removed for another reason joins again.
        raise error(finish.failure + (OTHER_PROCESS if error is MemberRemoved else ""))

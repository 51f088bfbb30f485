"""``state_dict`` of an optimizer whose state is in Kafka: where it is, not what it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driftline.errors import RunRefused, UsageError

KEY = "driftline"


@dataclass(frozen=True, slots=True)
class RunPosition:
    """A version of a run, where the state of an optimizer is.

    Attributes:
        run: its name.
        uuid: its UUID, hex.
        version: that the parameters are of.
        fingerprint: of the model's layout, hex.
    """

    run: str
    uuid: str
    version: int
    fingerprint: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, which any checkpoint can hold."""
        return {"run": self.run, "uuid": self.uuid, "version": self.version, "fingerprint": self.fingerprint}


def check_state(state: Mapping[str, Any], here: RunPosition, head: int) -> None:
    """Return if a saved state belongs to this run.

    Args:
        state: what ``state_dict()`` once returned.
        here: where this optimizer is.
        head: the run's newest version.

    Raises:
        UsageError: it is the state of another optimizer.
        RunRefused: it is of another run, of another model, or of a version that this run has not reached.
    """
    found = state.get(KEY)
    if not isinstance(found, Mapping) or not set(here.to_dict()) <= set(found):
        raise UsageError(
            "this is not the state of a driftline.Optimizer: moments and step counts of a run live in its log, and "
            "those of another optimizer cannot be put there. Load the model's weights instead, before the Optimizer "
            "that starts the run is made"
        )
    if found["uuid"] != here.uuid:
        raise RunRefused(
            f"the saved state is of run {found['run']} ({found['uuid'][:8]}), this is run {here.run} "
            f"({here.uuid[:8]}): to go on with that one, name it in the Optimizer's address; to begin a new run from "
            f"its weights, load the model's weights before the Optimizer is made"
        )
    if found["fingerprint"] != here.fingerprint:
        raise RunRefused(f"the saved state of run {found['run']} is of another model: its layout is not this one's")
    if found["version"] > head:
        raise RunRefused(
            f"the saved state is of version {found['version']}, but run {here.run} is at version {head}: this log is "
            f"not the one that the state was saved with, or it has lost its end"
        )

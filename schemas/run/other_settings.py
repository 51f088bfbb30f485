"""Why a member with other settings cannot join a run: what differs, and the ways out."""

from collections.abc import Iterable

SETTINGS = "other settings"
SETTINGS_OR_MODEL = "other settings or another model"


def exists_otherwise(run: str, what: str, differences: Iterable[str]) -> str:
    """Return the words of a refusal, line by line.

    Args:
        run: name of the run.
        what: `SETTINGS` or `SETTINGS_OR_MODEL`, whichever were compared.
        differences: one a line.
    """
    listing = "\n".join(f"  {one}" for one in differences)
    ways_out = f"to join it, make these agree; or choose another name, or delete it: driftline runs delete {run}"
    return f"run {run!r} exists with {what}:\n{listing}\n{ways_out}"

"""Names of workers, servers and evaluators: what is legal, on a command line and in a record alike."""

from typing import Final

MAX_NAME_CHARS: Final = 64


def is_member_name(name: str) -> bool:
    """Whether a member can be called so: such a name can be printed, be a file's name, and sum up in one record."""
    return (
        1 <= len(name) <= MAX_NAME_CHARS
        # Neither control characters nor lone surrogates are printable.
        and name.isprintable()
        and name == name.strip()
        and not name.startswith(".")
        and not set(name) & {"/", "\\"}
    )

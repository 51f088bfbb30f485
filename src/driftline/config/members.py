"""Names of workers and servers: what is legal, and what the default is."""

import os
import socket

from driftline.errors import UsageError
from driftline.schemas.records.identity import MAX_NAME_CHARS, is_member_name


def check_member_name(name: str, role: str) -> str:
    """Return ``name`` if a worker or server can be called so.

    Raises:
        UsageError: names the value, the rule and an example.
    """
    if is_member_name(name):
        return name
    shown = repr(name) if len(name) <= MAX_NAME_CHARS else f"{name[:MAX_NAME_CHARS]!r}… ({len(name)} characters)"
    raise UsageError(
        f'{role} name {shown} is not usable: it must have 1 to {MAX_NAME_CHARS} printable characters, without "/" and '
        f'"\\", no "." as the first and no space as the first or last; an example is "{role}-1"'
    )


def own_name(role: str) -> str:
    """Return a name that no other process of this role has, and that says where it runs."""
    host = "".join(letter for letter in socket.gethostname().partition(".")[0] if letter.isalnum() or letter == "-")
    return f"{role}-{host[:32] or 'host'}-{os.getpid()}"

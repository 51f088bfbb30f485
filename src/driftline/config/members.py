"""Names of workers and servers: what is legal, and what the default is."""

import os
import socket

from driftline.errors import UsageError
from driftline.schemas.records.identity import MAX_NAME_CHARS, is_member_name

_HOST_CHARS = 44
"""Of 64: room is left for the role and the process id, or for a number."""


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


def own_host() -> str:
    """Return this machine's name, domain included, as far as it can be part of a member's name.

    Two machines may have one name in two domains; workers of one name would push each other out.
    """
    host = "".join(letter for letter in socket.gethostname() if letter.isalnum() or letter in "-.")
    return host.strip("-.")[:_HOST_CHARS].rstrip("-.") or "host"


def own_name(role: str) -> str:
    """Return a name that no other process of this role has, and that says where it runs."""
    return f"{role}-{own_host()}-{os.getpid()}"

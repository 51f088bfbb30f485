"""docker-compose.yml as Compose reads it: variables put in, anchors resolved."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from tests.support import ROOT

FILE = ROOT / "docker-compose.yml"
OURS = re.compile(r"driftline-(server|worker)")
_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?::-([^}]*))?\})")


def described(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the file's content with ``environment`` put in; nothing is taken from this process's environment."""
    found: dict[str, Any] = yaml.safe_load(interpolated(FILE.read_text(), environment or {}))
    return found


def interpolated(text: str, environment: Mapping[str, str]) -> str:
    """Replace ``${NAME}``, ``${NAME:-default}`` and ``$$`` as Compose does; an empty variable counts as none."""

    def value(match: re.Match[str]) -> str:
        escaped, name, default = match.groups()
        return "$" if escaped else environment.get(name) or default or ""

    return _VARIABLE.sub(value, text)


def role_command(service: Mapping[str, Any]) -> list[str]:
    """Return what a service of one of our images gives to `driftline`, with a name as ``as-member`` makes it."""
    entrypoint, command = service.get("entrypoint", ["driftline"]), service.get("command", [])
    match entrypoint:
        case ["driftline"]:
            return list(command)
        case ["as-member", role, *words]:
            return [role, "--name", f"{role}-1", *words, *command]
    raise AssertionError(f"{entrypoint} is no entry into our images")

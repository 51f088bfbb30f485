"""The commands by which an administrator lets a run into a Kafka: its topics, and the rights of its roles."""

from collections.abc import Iterable, Mapping

from driftline.broker.topic_check import create_command
from driftline.broker.topics import run_topics
from driftline.config.problems import Problems
from driftline.observe.doctor.rights import ROLES, rights_of

PLACEHOLDERS: Mapping[str, str] = {role: f"User:{role.upper()}" for role in ROLES}
"""Principals that were not named, by role."""


def read_principals(pairs: Iterable[str], problems: Problems) -> dict[str, str]:
    """Return role → principal, from ``role=Type:name``."""
    named = dict(PLACEHOLDERS)
    for pair in pairs:
        role, _, principal = pair.partition("=")
        if role not in ROLES:
            problems.add(
                f"--principal {pair!r}: {role!r} is no role; write one of {', '.join(ROLES)}, as worker=User:ada"
            )
        elif not principal.partition(":")[2]:
            problems.add(f"--principal {pair!r}: {principal!r} is no principal; an example is {role}=User:ada")
        else:
            named[role] = principal
    return named


def heading(principals: Mapping[str, str]) -> str:
    """Return the line above the commands; it explains the placeholders in capitals, if there are any."""
    unnamed = [role for role in ROLES if principals[role] == PLACEHOLDERS[role]]
    meant = "; --principal ROLE=PRINCIPAL says who is " + ", ".join(map(str.upper, unnamed)) if unnamed else ""
    return f"An administrator runs, as far as it is not done yet{meant}:"


def commands(run: str, partitions: int, principals: Mapping[str, str], bootstrap_servers: str) -> list[str]:
    """Return every command: topics first, then the rights of each role."""
    topics = [create_command(spec, bootstrap_servers) for spec in run_topics(run, partitions)]
    rights = [right.command(principals[role], bootstrap_servers) for role in ROLES for right in rights_of(role, run)]
    return topics + list(dict.fromkeys(rights))

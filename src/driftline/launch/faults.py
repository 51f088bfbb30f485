"""Faults as data: what happens to which process of a run, at which version, for how long. Text in, text out.

A script is faults with commas between them::

    kill server-1@200, pause worker-3@350 for 10s, stop broker-2@400, kill everything@500 for ever

``kill`` is SIGKILL and ``stop`` SIGTERM; after the time that ``for`` names, the process is started again as a new
incarnation. ``pause`` is SIGSTOP, and SIGCONT after that time.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from driftline.errors import ConfigError

LATER_S = 1.0
"""Default of ``for``: seconds until a process is started again or resumed."""

MAX_VERSION = 2**53
MAX_FOR_S = 86_400.0


class Action(StrEnum):
    """What happens."""

    KILL = "kill"
    STOP = "stop"
    PAUSE = "pause"


COORDINATOR = "coordinator"
LEADER = "leader"
CONTROLLER = "controller"
SERVERS = "servers"
WORKERS = "workers"
BROKERS = "brokers"
EVERYTHING = "everything"

TARGETS = (COORDINATOR, LEADER, CONTROLLER, SERVERS, WORKERS, BROKERS, EVERYTHING)
"""Words for processes that are found when the fault happens."""

ROLES = ("server", "worker", "broker")
"""Roles of targets with a number."""

OF_BROKER = (LEADER, CONTROLLER, BROKERS, EVERYTHING)
"""Words that name nodes of the broker; the broker must be one that this command started."""

_FAULT = re.compile(r"(?P<action>\S+)\s+(?P<target>[^@]*?)\s*@\s*(?P<version>\S+)(\s+for\s+(?P<length>.+))?")
_NUMBERED = re.compile(rf"(?P<role>{'|'.join(ROLES)})-(?P<number>[1-9][0-9]{{0,5}})")
_LENGTH = re.compile(r"(?P<number>[0-9]{1,9}(\.[0-9]{1,6})?)\s*(?P<unit>ms|s|m)")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0}
_EVER = "ever"
_SHAPE = "a fault is ACTION TARGET@VERSION, such as: kill server-1@200 for 5s"
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        target: a word of `TARGETS`, or a role and a number.
        version: the fault happens as soon as the ledger has it.
        for_s: seconds until it is undone; None for never.
    """

    action: Action
    target: str
    version: int
    for_s: float | None = LATER_S

    def __str__(self) -> str:
        """Write it as a script does."""
        length = "" if self.for_s == LATER_S else f" for {'ever' if self.for_s is None else f'{self.for_s:g}s'}"
        return f"{self.action} {self.target}@{self.version}{length}"

    @property
    def needs_broker(self) -> bool:
        """Whether it may happen to a node of the broker."""
        return self.target in OF_BROKER or self.target.startswith("broker-")


def parse_script(text: str) -> tuple[Fault, ...]:
    """Read a script: faults in any order, separated by commas or line ends.

    Returns:
        The faults, by version.

    Raises:
        ConfigError: lists everything that is wrong, of every fault.
    """
    faults, problems = read_script(text)
    if problems:
        raise ConfigError(problems)
    return faults


def read_script(text: str) -> tuple[tuple[Fault, ...], list[str]]:
    """Read a script as `parse_script` does; return the faults that are understood, and the problems of the others."""
    problems: list[str] = []
    parts = [part.strip() for part in re.split(r"[,\n]", text)]
    faults = [_fault(part, problems) for part in parts if part]
    if not faults:
        problems.append(f"there is no fault in it; {_SHAPE}")
    return tuple(sorted((one for one in faults if one is not None), key=lambda one: one.version)), problems


def _fault(text: str, problems: list[str]) -> Fault | None:
    found = _FAULT.fullmatch(text)
    if found is None:
        problems.append(f"{_short(text)!r}: {_SHAPE}")
        return None
    wrong: list[str] = []
    action = _action(found["action"], wrong)
    target = _target(" ".join(found["target"].split()), wrong)
    version = _version(found["version"], wrong)
    for_s = LATER_S if found["length"] is None else _length(found["length"].strip(), wrong)
    problems += [f"{_short(text)!r}: {problem}" for problem in wrong]
    return None if wrong else Fault(action, target, version, for_s)


def _action(word: str, wrong: list[str]) -> Action:
    try:
        return Action(word)
    except ValueError:
        wrong.append(f"{_short(word)!r} is no action; {_near(word, list(Action))}")
        return Action.KILL


def _target(words: str, wrong: list[str]) -> str:
    word = words.removeprefix("all ")
    plural = word in (SERVERS, WORKERS, BROKERS)
    if (plural or (word == words and word in TARGETS)) or _NUMBERED.fullmatch(words):
        return word
    wrong.append(f"{_short(words)!r} is no target; {_near(words, [*TARGETS, *(f'{role}-1' for role in ROLES)])}")
    return EVERYTHING


def _version(word: str, wrong: list[str]) -> int:
    if word.isascii() and word.isdecimal() and len(word) < len(str(MAX_VERSION)):
        return int(word)
    wrong.append(f"{_short(word)!r} is no version: give a whole number from 0 on")
    return 0


def _length(words: str, wrong: list[str]) -> float | None:
    if words == _EVER:
        return None
    found = _LENGTH.fullmatch(words)
    length_s = 0.0 if found is None else float(found["number"]) * _UNITS_S[found["unit"]]
    if 0.0 < length_s <= MAX_FOR_S:
        return length_s
    wrong.append(f"{_short(words)!r} is no time: give one such as 500ms, 10s or 2m, of at most a day, or: for ever")
    return LATER_S


def _near(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def target_problems(
    faults: Iterable[Fault], *, servers: Sequence[str], workers: Sequence[str], nodes: Sequence[str], last: int | None
) -> list[str]:
    """Return the problems of faults that cannot happen.

    Args:
        faults: of a script.
        servers: names of the servers that there will be.
        workers: names of the workers.
        nodes: names of the broker's nodes; none if this command does not start them.
        last: the run's last version; None if it is not known.
    """
    problems = []
    for fault in faults:
        known = {"server": servers, "worker": workers, "broker": nodes}
        numbered = _NUMBERED.fullmatch(fault.target)
        if fault.needs_broker and not nodes:
            problems.append(f"'{fault}': no broker is started here, and only what is started here may be disturbed")
        elif numbered and fault.target not in known[numbered["role"]]:
            problems.append(f"'{fault}': there is no {fault.target}; there are {', '.join(known[numbered['role']])}")
        if last is not None and fault.version >= last:
            problems.append(f"'{fault}': the run ends at version {last}; name an earlier one")
    return problems

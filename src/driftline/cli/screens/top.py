"""How a frame of ``driftline top`` looks: as much as fits, the most wanted first."""

import time
from collections.abc import Iterable, Sequence
from typing import TypeVar

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from driftline.cli.screens.tables import NOTHING, ranges, run_facts
from driftline.observe.run.top_view import LedgerLine, TopServer, TopView, TopWorker

PLAIN_COLUMNS = 120
GAP = "  "
LEAST_COLUMN = 8
HEADING = 2
"""Lines of a table beside its rows: a blank one, and the names of the columns."""

FIRST_ROWS = (2, 2, 3)
"""Rows that workers, servers and ledger get before any of them gets more."""

_STYLES = {"live": "green", "done": "dim", "left": "dim", "silent": "yellow", "removed": "red"}
_STATES = {"running": "green", "failed": "bold red", "ended": "bold"}

Row = TypeVar("Row")


def plain_lines(seen: TopView) -> list[str]:
    """Return one frame as plain lines, for where there is no screen."""
    console = Console(width=PLAIN_COLUMNS, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(frame(seen, PLAIN_COLUMNS))
    return [line.rstrip() for line in captured.get().splitlines()]


def frame(seen: TopView, width: int, height: int | None = None, quiet_s: float = 0.0) -> RenderableType:
    """Return one frame.

    Args:
        seen: what it shows.
        width: of the screen.
        height: lines of the screen; None shows everything.
        quiet_s: seconds without a new record, if that is worth a line.
    """
    foot = [] if height is None else [_line("q quits", "dim")]
    head = _head(seen, quiet_s)[: None if height is None else max(1, height - len(foot))]
    room = None if height is None else max(0, height - len(head) - len(foot))
    shares = _share(room, len(seen.workers), len(seen.servers), len(seen.ledger))
    parts: list[RenderableType] = [*head]
    parts += _workers(seen, width, shares[0])
    parts += _servers(seen, width, shares[1])
    parts += _ledger(seen.ledger, width, shares[2])
    return Group(*parts, *foot)


def _share(room: int | None, workers: int, servers: int, lines: int) -> tuple[int, int, int]:
    """Divide lines between the three tables: how many rows each gets, of a small screen perhaps none."""
    if room is None:
        return workers, servers, lines
    shares = _Shares(room, (workers, servers, lines))
    for table, rows in enumerate(FIRST_ROWS):
        shares.give(table, rows)
    while shares.give(0, 2) or shares.give(1, 1):
        pass
    shares.give(2, lines)
    return shares.rows[0], shares.rows[1], shares.rows[2]


class _Shares:
    """Lines of a screen, handed out row by row."""

    def __init__(self, room: int, wanted: tuple[int, ...]) -> None:
        self.rows = [0 for _ in wanted]
        self._room, self._wanted = room, wanted

    def give(self, table: int, rows: int) -> bool:
        """Give a table more rows, as far as it wants them and there is room; return whether it got any."""
        before = self.rows[table]
        for _ in range(min(rows, self._wanted[table] - before)):
            cost = 1 if self.rows[table] else 1 + HEADING
            if cost > self._room:
                break
            self._room -= cost
            self.rows[table] += 1
        return self.rows[table] > before


# -- what is said of the run -----------------------------------------------------------------------------------------


def _head(seen: TopView, quiet_s: float) -> list[Text]:
    first = Text(no_wrap=True, overflow="ellipsis")
    first.append(seen.run, style="bold").append("  ").append(seen.state, style=_STATES.get(seen.state, "yellow"))
    steps = f"/{seen.steps}" if seen.steps else ""
    first.append(f"  version {seen.version}{steps}")
    if seen.epochs is not None and seen.epoch is not None:
        first.append(f"  epoch {min(seen.epoch + 1, seen.epochs)}/{seen.epochs}")
    if seen.versions_per_s is not None:
        first.append(f"  {seen.versions_per_s:.3g} versions/s")
    if seen.loss is not None:
        first.append(f"  loss {seen.loss:.4f}")
    if seen.mode is not None:
        first.append(f"  {seen.mode}, term {seen.term}", style="dim")
    lines = [first, *(_line(f"{name}  {words}") for name, words in run_facts(seen))]
    if seen.newcomers or seen.awaited:
        lines.append(_line(_coming(seen), "yellow"))
    if seen.ended is not None:
        lines.append(_line(seen.ended.failure or seen.ended.reason, "bold red" if seen.ended.failure else ""))
    if seen.failures:
        lines.append(_line("failures  " + ", ".join(f"{name} {value}" for name, value in seen.failures.items()), "red"))
    if seen.contradiction:
        lines.append(_line(f"the ledger contradicts itself: {seen.contradiction}", "bold red"))
    if quiet_s:
        lines.append(
            _line(f"nothing was written for {quiet_s:.0f} s: are all members gone, or is Kafka away?", "yellow")
        )
    return lines


def _coming(seen: TopView) -> str:
    names = ", ".join(seen.newcomers) or "no worker yet"
    return f"waiting for {seen.awaited} workers; here so far: {names}" if seen.awaited else f"about to join: {names}"


def _line(words: str, style: str = "") -> Text:
    return Text(words, style=style, no_wrap=True, overflow="ellipsis")


# -- tables ----------------------------------------------------------------------------------------------------------


def _table(
    width: int, head: Sequence[str], rows: Sequence[Sequence[Text]], flexible: Sequence[int], spare: Sequence[int]
) -> Table:
    """Return a table of one line a row; what is too wide is taken from the flexible columns, in this order.

    Where that is not enough, whole columns are left out, in the order of ``spare``: half a number says another one.
    """
    widths = {index: max([cell_len(name), *(row[index].cell_len for row in rows)]) for index, name in enumerate(head)}
    for index in spare:
        if _columns(min(one, LEAST_COLUMN) if at in flexible else one for at, one in widths.items()) <= width:
            break
        del widths[index]
    for index in flexible:
        if index in widths:
            less = _columns(widths.values()) - width
            widths[index] -= max(0, min(less, widths[index] - LEAST_COLUMN))
    table = Table(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="dim")
    for index, columns in widths.items():
        table.add_column(head[index], no_wrap=True, overflow="ellipsis", width=columns)
    for row in rows:
        table.add_row(*(row[index] for index in widths))
    return table


def _columns(widths: Iterable[int]) -> int:
    """Return how many columns of the screen a table takes."""
    each = list(widths)
    return sum(each) + len(GAP) * (len(each) - 1)


def _shown(rows: Sequence[Row], room: int) -> tuple[Sequence[Row], int]:
    """Return the rows that fit, and how many are left out; then the last line says so."""
    if len(rows) <= room:
        return rows, 0
    if room == 1:
        return rows[:1], 0
    return rows[: room - 1], len(rows) - room + 1


def _workers(seen: TopView, width: int, room: int) -> list[RenderableType]:
    if not room:
        return []
    # Those that need looking at come first, if not all fit: who is not live, then who is furthest behind.
    by_need = sorted(seen.workers, key=lambda one: (one.state == "live", one.clock))
    rows, left = _shown(seen.workers if len(seen.workers) <= room else by_need, room)
    head = ("worker", "state", "clock", "used", "stale", "behind", "waiting", "for")
    cells = [_worker_cells(one) for one in rows]
    return ["", _table(width, head, cells, (7, 0), (3, 4, 6, 5, 7)), *_left(left, "worker")]


def _worker_cells(one: TopWorker) -> list[Text]:
    share = NOTHING if one.waiting_share is None else f"{one.waiting_share:.0%}"
    waits_for = NOTHING if one.waits_for is None else ", ".join(one.waits_for) or "computes"
    return [
        Text(one.name),
        Text(one.state, style=_STYLES.get(one.state, "")),
        Text(str(one.clock)),
        Text(str(one.contributions)),
        Text(_number(one.staleness)),
        Text(_number(one.behind)),
        Text(share),
        Text(one.note or waits_for),
    ]


def _servers(seen: TopView, width: int, room: int) -> list[RenderableType]:
    if not room:
        return []
    by_need = sorted(seen.servers, key=lambda one: (one.state == "live", -one.lag))
    rows, left = _shown(seen.servers if len(seen.servers) <= room else by_need, room)
    head = ("server", "state", "version", "lag", "shards", "owned")
    cells = [_server_cells(one) for one in rows]
    return ["", _table(width, head, cells, (5, 0), (5, 4, 2)), *_left(left, "server")]


def _server_cells(one: TopServer) -> list[Text]:
    return [
        Text(one.name),
        Text(one.state, style=_STYLES.get(one.state, "")),
        Text(str(one.version)),
        Text(str(one.lag), style="yellow" if one.lag else ""),
        Text(str(len(one.shards))),
        Text(ranges(one.shards) or NOTHING),
    ]


def _left(number: int, thing: str) -> list[Text]:
    return [_line(f"… and {number} more {thing}{'' if number == 1 else 's'}", "dim")] if number else []


def _ledger(lines: Sequence[LedgerLine], width: int, room: int) -> list[RenderableType]:
    if not room:
        return []
    cells = [_ledger_cells(line) for line in lines[-room:]]
    return ["", _table(width, ("ledger", "time", "decision"), cells, (2,), (1,))]


def _ledger_cells(line: LedgerLine) -> list[Text]:
    clock = time.strftime("%H:%M:%S", time.localtime(line.timestamp_ms / 1000))
    return [Text(str(line.offset)), Text(clock), Text(line.words, style="" if line.counts else "red")]


def _number(value: int | None) -> str:
    return NOTHING if value is None else str(value)

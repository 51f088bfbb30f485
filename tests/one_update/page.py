"""The page about one update, made from a run: ``python -m tests.one_update``.

The run is the same to the last byte each time, so the page only changes when a record, a digest or a word does.
"""

import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from driftline.broker.reading import until_end
from driftline.broker.topics import Stream, topic_name
from driftline.cli.screens.records import lines_of
from driftline.errors import Undecodable
from driftline.observe.records.annotated_ledger import AnnotatedLedger, read_annotated_ledger
from driftline.observe.records.lookup import read_difference, read_record
from driftline.observe.records.record_view import view_record
from driftline.observe.records.selection import RecordPosition
from driftline.observe.records.version_view import view_version
from driftline.schemas.codec import decode
from driftline.schemas.records import AnyRecord, Contribution, Delta, Parameters, Receipt, ServerState, Use, Version
from driftline.testing.memory import MemoryBroker
from tests.one_update.way import lines, stops
from tests.support.small_model import PARTITIONS, small_run

RUN, WORKER, VERSION = "small", "ada", 2
SERVERS = ("server-1", "server-2")

INTRODUCTION = f"""\
# One update, record by record and module by module

This page follows one update through the log, record by record, as `driftline show` prints it, and then
[through the code](#the-way-through-the-code). The run is real and tiny: a model of eighteen numbers in {PARTITIONS}
shards, two workers (`ada`, and `bob` with half as many samples), two servers, SGD in lock-step. The update begins with
a gradient of `{WORKER}` and ends with version {VERSION}, in the order of
[the architecture page](architecture.md#one-update). A program makes this page, and a test compares it:

```console
$ python -m tests.one_update > docs/one-update.md
```
"""


class Page:
    """Collects the sections of the page."""

    def __init__(self) -> None:
        run = small_run(RUN, steps=3, servers=len(SERVERS))
        run.play()
        self._broker: MemoryBroker = run.broker
        self.ledger: AnnotatedLedger = read_annotated_ledger(run.broker, RUN)
        self._parts = [INTRODUCTION]

    def section(self, title: str, words: str) -> None:
        """Begin a section."""
        text = textwrap.fill(" ".join(words.split()), 120)
        self._parts.append(f"## {title}\n\n{text}\n")

    def record(self, stream: Stream, partition: int, is_it: Callable[[AnyRecord], bool]) -> None:
        """Show the first record of a partition that is the one."""
        place = RecordPosition(stream, partition, self._offset(stream, partition, is_it))
        self.shown(str(place), lines_of(view_record(*read_record(self._broker, RUN, place), self.ledger)))

    def _offset(self, stream: Stream, partition: int, is_it: Callable[[AnyRecord], bool]) -> int:
        return next(offset for offset, record in self._records(stream, partition) if is_it(record))

    def _records(self, stream: Stream, partition: int) -> Iterator[tuple[int, AnyRecord]]:
        for found in until_end(self._broker, topic_name(RUN, stream), partition, 0):
            try:
                yield found.offset, decode(found.value)
            except Undecodable:
                continue

    def difference(self) -> None:
        """Show what the update changed."""
        first, second = VERSION - 1, VERSION
        found = read_difference(self._broker, RUN, self.ledger.state, (first, second))
        self.shown(f"{first}..{second}", lines_of(found))

    def version(self) -> None:
        """Show the version as `driftline show` puts it together."""
        self.shown(str(VERSION), lines_of(view_version(RUN, VERSION, self.ledger)))

    def shown(self, what: str, lines: list[str]) -> None:
        """Add a command and what it prints."""
        self._parts.append("\n".join(["```console", f"$ driftline show {RUN} {what}", *lines, "```", ""]))

    def add(self, lines: Iterable[str]) -> None:
        """Add lines as they are."""
        self._parts.append("\n".join([*lines, ""]))

    def text(self) -> str:
        """Return the page."""
        return "\n".join(self._parts)


def one_update() -> str:
    """Return the page."""
    page = Page()
    use = next(one for one in page.ledger.state.versions[VERSION].uses if page.ledger.name(one.group) == WORKER)
    _towards_the_decision(page, use)
    _decision_and_after(page)
    page.section("The same, put together", "`driftline show` puts all of this together for a version:")
    page.version()
    page.section("What it changed", "Between two published versions, tensor by tensor:")
    page.difference()
    page.section(
        "The way through the code",
        f"""A gradient passes {len(stops())} modules. The table names the function of each that it passes first, in
        order. A test traces an update of a script and compares the table with what ran.""",
    )
    page.add(lines())
    return page.text()


def _towards_the_decision(page: Page, use: Use) -> None:
    page.section(
        "1. The worker's deltas",
        f"""`{WORKER}` computes a gradient on version {use.base_version} and cuts it into one `Delta` for each shard.
        Shard *s* is in partition *s*, because there are as many. The digest covers the run's UUID, the schema and
        every byte after it; the verdict shows what became of the clock.""",
    )
    for partition in range(PARTITIONS):
        page.record(Stream.DELTAS, partition, lambda one: isinstance(one, Delta) and _is(one, use))
    page.section(
        "2. The contribution",
        """Then it announces them. `root` is SHA-256 over the digests of the deltas above, in shard order; `weight` is
        the number of samples, and `base_head` the ledger's hash at the version that the gradient was computed on.""",
    )
    page.record(Stream.EVENTS, 0, lambda one: isinstance(one, Contribution) and _is(one, use))
    page.section(
        "3. The receipts",
        """The owner of each shard checks digest, place, size and finiteness, and reports where the delta is in the
        log. Each of the two servers owns one partition, so there are two receipts.""",
    )
    for server in SERVERS:
        page.record(Stream.EVENTS, 0, partial(_is_receipt, use, server))


def _decision_and_after(page: Page) -> None:
    page.section(
        "4. The decision",
        f"""The coordinator waits for both workers, as lock-step demands, and appends one record to the ledger: the
        contributions, their coefficients (32 and 16 of 48 samples), and the learning rate. From this moment on
        version {VERSION} exists. `positions` are the offsets after the last delta of each partition.""",
    )
    page.record(Stream.LEDGER, 0, lambda one: isinstance(one, Version) and one.version == VERSION)
    page.section(
        "5. The parameters",
        """Each server reads the ledger, sums the deltas in the order in which it lists them, steps its shard and
        publishes it. `head` is the ledger's hash after the record above: a reader that follows the run accepts no
        other.""",
    )
    for partition in range(PARTITIONS):
        page.record(Stream.PARAMETERS, partition, lambda one: isinstance(one, Parameters) and one.version == VERSION)
    page.section(
        "6. The digests",
        f"""Each server reports the digests of its shards. Once those of both servers are in, the next record of the
        ledger stores the digest of the whole state: it is among the `states` of version {VERSION + 1}.""",
    )
    page.record(Stream.EVENTS, 0, lambda one: isinstance(one, ServerState) and one.version == VERSION)
    page.record(Stream.LEDGER, 0, lambda one: isinstance(one, Version) and one.version == VERSION + 1)


def _is(record: Delta | Contribution | Receipt, use: Use) -> bool:
    return (record.group, record.clock) == (use.group, use.clock)


def _is_receipt(use: Use, server: str, record: AnyRecord) -> bool:
    return isinstance(record, Receipt) and record.server == server and _is(record, use)

"""Enters the ledger of a run on a real log, where `driftline.ledger.entering.entry` says."""

import logging
import time
from collections.abc import Iterator
from contextlib import closing

from driftline.broker.port import Broker, EndReached, Reader, Record
from driftline.broker.topics import Stream, topic_name
from driftline.errors import BrokerError, TopicMissing, WaitTimeout
from driftline.ledger.entering.entry import Search, Value, find_entry

log = logging.getLogger(__name__)

LOOK_S = 30.0
"""How long reading a block may take."""

_POLL_S = 0.2


def enter_ledger(broker: Broker, run: str) -> Search:
    """Look for where to begin to read the ledger of a run. Where that cannot be found out, it is the beginning.

    Raises:
        RightMissing: this client may not read the ledger.
    """
    topic = topic_name(run, Stream.LEDGER)
    try:
        with closing(broker.admin()) as admin:
            bounds = admin.bounds(topic)[0]
        with closing(broker.reader()) as reader:
            search = find_entry(lambda first, stop: _read(reader, topic, first, stop), bounds.begin, bounds.end)
    except TopicMissing:
        return Search(None, 0, 0, ())
    except (BrokerError, WaitTimeout) as error:  # whoever reads from the beginning waits, and says for what
        log.warning("no checkpoint of run %r can be looked for, its ledger is read from its beginning: %s", run, error)
        return Search(None, 0, 0, ())
    _say(run, search, bounds.end)
    return search


def _say(run: str, search: Search, end: int) -> None:
    for why in search.passed_over:
        log.warning("run %r: %s", run, why)
    if search.entry is not None:
        log.info(
            "run %r: begins at checkpoint %d, ledger offset %d of %d; %d records were looked at",
            run,
            search.entry.record.version,
            search.entry.offset,
            end,
            search.looked_at,
        )
    elif end > 0:
        log.info("run %r: reads the ledger from its beginning, there is no checkpoint to begin at", run)


def _read(reader: Reader, topic: str, first: int, stop: int) -> Iterator[Value]:
    reader.read(topic, 0, first)
    until_s = time.monotonic() + LOOK_S
    while time.monotonic() < until_s:
        found = reader.poll(_POLL_S)
        if isinstance(found, EndReached) or (isinstance(found, Record) and found.offset >= stop):
            return
        if isinstance(found, Record):
            yield found.offset, found.value
            if found.offset == stop - 1:
                return
    raise WaitTimeout(f"{topic}: offsets {first} to {stop} could not be read within {LOOK_S:.0f} s")

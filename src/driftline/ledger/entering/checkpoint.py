"""Enters the ledger of a run on a real log, where `driftline.ledger.entering.entry` says."""

import logging
from collections.abc import Iterator
from contextlib import closing

from driftline.broker.port import Broker, Reader
from driftline.broker.reading import records
from driftline.broker.topics import Stream, topic_name
from driftline.errors import BrokerError, TopicMissing, WaitTimeout
from driftline.ledger.entering.entry import Search, Value, find_entry

log = logging.getLogger(__name__)

LOOK_S = 30.0
"""How long reading a block may take while no record of it arrives."""


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
    except (BrokerError, WaitTimeout) as error:  # a reader from the beginning waits, and says for what
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
    for record in records(reader, topic, 0, first, stop_at=stop, timeout_s=LOOK_S):
        yield record.offset, record.value

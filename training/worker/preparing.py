"""The topics of a run: made, or used as an administrator made them, if they hold what a run needs."""

import logging

from driftline.broker.port import Broker
from driftline.broker.topic_check import topic_differences
from driftline.broker.topics import run_topics
from driftline.config.run_settings import RunSettings
from driftline.errors import ConfigError, RightMissing
from driftline.ledger.entering.remains import check_ledger_kept

log = logging.getLogger(__name__)


def prepare_topics(broker: Broker, settings: RunSettings) -> str:
    """Make the topics of a run as far as they are missing, and check those that are there.

    Returns:
        What was done, in a few words.

    Raises:
        ConfigError: topics that are there do not fit; lists every difference with what to do.
        RunRefused: they are what is left of a run whose ledger was lost.
        RightMissing: a topic may not be seen or made; says by whom, and how the right is given.
    """
    specs = run_topics(settings.run, settings.partitions)
    admin = broker.admin()
    try:
        found = admin.topics([spec.name for spec in specs])
        try:
            configs = admin.configs(sorted(found)) if found else {}
        except RightMissing as error:
            configs = {}
            log.info("the settings of the run's topics are not checked: %s", error)
        differences = topic_differences(specs, found, configs)
        if differences:
            raise ConfigError([str(one) for one in differences])
        admin.create(specs)
    finally:
        admin.close()
    check_ledger_kept(broker, settings.run)
    made = len(specs) - len(found)
    if not made:
        return f"its {len(specs)} topics are there and fit"
    return f"{made} topics made" + (f", {len(found)} used as they were found" if found else "")

"""The topics of a run, as a worker needs them: looked at, checked, and made as far as they are missing."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from driftline.broker.port import Admin, Broker
from driftline.broker.topic_check import topic_differences
from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.config.run_settings import RunSettings
from driftline.errors import ConfigError, RightMissing, TopicMissing
from driftline.ledger.entering.remains import check_ledger_kept

log = logging.getLogger(__name__)


class RunTopics:
    """The topics of a run, checked.

    Args:
        broker: where they are or will be.
        settings: of the run.

    Attributes:
        settings: with the number of partitions of the topics that are there, if none was chosen.

    Raises:
        ConfigError: topics that are there do not fit; lists every difference with what to do.
        RightMissing: this client may not see a topic; says who, and how to grant the right.
    """

    def __init__(self, broker: Broker, settings: RunSettings) -> None:
        deltas = topic_name(settings.run, Stream.DELTAS)
        with closing(broker.admin()) as admin:
            self._found = admin.topics([spec.name for spec in run_topics(settings.run, settings.partitions)])
            if settings.chosen is not None and "partitions" not in settings.chosen:
                settings = replace(settings, partitions=self._found.get(deltas, settings.partitions))
            self.settings = settings
            self._broker, self._specs = broker, run_topics(settings.run, settings.partitions)
            differences = topic_differences(self._specs, self._found, _configs(admin, sorted(self._found)))
        if differences:
            raise ConfigError([str(one) for one in differences])

    def create(self) -> str:
        """Create those that are missing.

        Returns:
            What was done, in a few words.

        Raises:
            RunRefused: the topics are what is left of a run whose ledger was lost.
            RightMissing: this client may not create a topic; says who, and how to grant the right.
        """
        with closing(self._broker.admin()) as admin:
            admin.create(self._specs)
        check_ledger_kept(self._broker, self.settings.run)
        made, found = len(self._specs) - len(self._found), len(self._found)
        if not made:
            return f"its {found} topics are there and fit"
        return f"{made} topics made" + (f", {found} used as they were found" if found else "")


def _configs(admin: Admin, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Return the settings of topics; none if they may not be read, or were made so recently that a node lacks them."""
    try:
        return admin.configs(names) if names else {}
    except (RightMissing, TopicMissing) as error:
        log.info("the settings of the run's topics are not checked: %s", error)
        return {}

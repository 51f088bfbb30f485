"""Turns librdkafka's errors into ours, in words that say what to do."""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore by convention and are public all the same

import logging
import time

from confluent_kafka import KafkaError

from driftline.broker.kafka.settings import KafkaSettings
from driftline.errors import BrokerError, BrokerUnreachable, DeliveryFailed, TopicMissing

_log = logging.getLogger(__name__)

MISSING = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
END_OF_PARTITION = KafkaError._PARTITION_EOF
POLLED_TOO_LATE = KafkaError._MAX_POLL_EXCEEDED
LOST = {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET}
AWAY = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._WAIT_COORD,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    # A partition whose leader is just being chosen: a new topic, or a fail-over. librdkafka marks none as retriable.
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
_REFUSED = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED}
_PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
_FORBIDDEN = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}

_REPEATED_AFTER_S = 10.0
_REPEATED_WITHIN_S = 120.0


def translated(error: KafkaError, what: str, settings: KafkaSettings) -> BrokerError:
    """Return our error for one of librdkafka's; ``what`` says what was being done, and to which topic."""
    said = settings.scrub(error.str())
    code = error.code()
    if code in MISSING:
        return TopicMissing(f"{what}: no such topic or partition ({said})")
    if code in AWAY:
        return BrokerUnreachable(f"{what}: no answer from Kafka at {settings.bootstrap_servers} ({said})")
    if code in _REFUSED:
        return BrokerError(
            f"{what}: Kafka at {settings.bootstrap_servers} refused the connection ({said}); check security.protocol, "
            f"the certificates and the credentials"
        )
    if code in _FORBIDDEN:
        return BrokerError(f"{what}: not allowed ({said}); an access rule (ACL) for this user is missing")
    return BrokerError(f"{what}: Kafka answered {error.name()} ({said})")


def undelivered(error: KafkaError, what: str, settings: KafkaSettings, last_word: str) -> BrokerError:
    """Return our error for a record that was not acknowledged."""
    if error.code() in MISSING | _FORBIDDEN:
        return translated(error, what, settings)
    if error.code() in {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}:
        return BrokerError(f"{what}: the broker refused its size; raise max.message.bytes of the topic to the default")
    if error.code() in _PURGED:
        why = f" ({last_word})" if last_word else ""
        return DeliveryFailed(f"{what} was not acknowledged before the producer was closed{why}")
    reason = settings.scrub(error.str()) + (f"; {last_word}" if last_word else "")
    return DeliveryFailed(
        f"{what} was not acknowledged within {settings.delivery_timeout_s:g} s, so it may or may not be in the log "
        f"({reason})"
    )


def unreachable(settings: KafkaSettings, timeout_s: float, last_word: str) -> BrokerUnreachable:
    """Return the error for a broker that did not answer in time."""
    # A refused connection or a name that does not resolve is reported. Silence means that somebody took the connection.
    why = (
        last_word or "the connection opens but nobody answers: a broker that hangs, or one that expects TLS or a login"
    )
    return BrokerUnreachable(
        f"no Kafka answers at {settings.bootstrap_servers} within {timeout_s:g} s ({why}); start one with "
        f"`driftline broker start`, or name another with --bootstrap-servers"
    )


class Faults:
    """Hears librdkafka's ``error_cb`` of one client, and knows whether the client is broken for good.

    A refused certificate or password is never fatal for librdkafka: it would try for ever in silence. But a handshake
    that a restarting broker cuts short looks the same, so a client that has worked before is given up only after a
    second refusal.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._broken: str | None = None
        self._worked = False
        self._refused_at_s: float | None = None
        self.last_word = ""
        """What librdkafka said last about a connection, without secrets."""

    def on_error(self, error: KafkaError) -> None:
        """Take what librdkafka tells ``error_cb``."""
        said = self._settings.scrub(error.str())
        _log.debug("Kafka client: %s (%s)", said, error.name())
        if error.fatal():
            self._broken = f"the Kafka client is broken for good: {said} ({error.name()})"
        elif error.code() in _REFUSED:
            self.last_word = said
            self._refuse(str(translated(error, "connecting", self._settings)))
        elif error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last_word = said

    def worked(self) -> None:
        """Note that the broker answered."""
        self._worked = True
        self._refused_at_s = None

    def check(self) -> None:
        """Return if the client is usable.

        Raises:
            BrokerError: it is broken for good.
        """
        if self._broken is not None:
            raise BrokerError(self._broken)

    def _refuse(self, message: str) -> None:
        now_s = time.monotonic()
        before_s = self._refused_at_s
        if before_s is None or now_s - before_s > _REPEATED_WITHIN_S:
            self._refused_at_s = now_s
        repeated = before_s is not None and _REPEATED_AFTER_S < now_s - before_s <= _REPEATED_WITHIN_S
        if repeated or not self._worked:
            self._broken = message

"""Turns librdkafka's errors into ours, in words that say what to do."""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore by convention and are public all the same

import logging
import time

from confluent_kafka import KafkaError

from driftline.broker.kafka.hints import NOT_AWAY, refusal_hint, silence_hint, user_of
from driftline.broker.kafka.rights import Right
from driftline.broker.kafka.settings import KafkaSettings
from driftline.errors import BrokerError, BrokerUnreachable, DeliveryFailed, RightMissing, TopicMissing

_log = logging.getLogger(__name__)

MISSING = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
END_OF_PARTITION = KafkaError._PARTITION_EOF
POLLED_TOO_LATE = KafkaError._MAX_POLL_EXCEEDED
BROKEN = {KafkaError._FATAL}
LOST = {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET}
AWAY = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._WAIT_COORD,
    # Only some of the brokers answered a question that goes to several: a starved Kafka does that.
    KafkaError._PARTIAL,
    # The node that was asked has left the cluster, or no node is known to lead: more than one of three are down.
    KafkaError._DESTROY_BROKER,
    KafkaError._UNKNOWN_BROKER,
    KafkaError._NODE_UPDATE,
    KafkaError._NOENT,
    KafkaError._WAIT_CACHE,
    KafkaError._RETRY,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.NOT_CONTROLLER,
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
RENEWABLE = {
    KafkaError._INCONSISTENT,
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    KafkaError.UNKNOWN_PRODUCER_ID,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
}
"""What ends an idempotent producer, and not the next one: records were given up of which a part may have arrived."""
_REFUSED = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED}
_PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
FORBIDDEN = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}

_SAME_NAME = "another process took part in this group under the same name since: give each a --name of its own"
_REPEATED_AFTER_S = 10.0
_REPEATED_WITHIN_S = 120.0


def translated(error: KafkaError, what: str, settings: KafkaSettings, needs: Right | None = None) -> BrokerError:
    """Return our error for one of librdkafka's.

    Args:
        error: librdkafka's.
        what: what was being done, and to which topic.
        settings: of the client.
        needs: the right that it takes, if Kafka should say that it is missing.
    """
    said = settings.scrub(error.str())
    code = error.code()
    if is_refusal(error):
        return BrokerError(
            f"{what}: Kafka at {settings.bootstrap_servers} refused the connection ({said}); "
            f"{settings.scrub(refusal_hint(said, settings.properties))}"
        )
    if code in MISSING:
        return TopicMissing(f"{what}: no such topic or partition ({said})")
    if code in AWAY:
        return BrokerUnreachable(f"{what}: no answer from Kafka at {settings.bootstrap_servers} ({said})")
    if code in FORBIDDEN:
        return forbidden(what, settings, needs or _usual_right(code), said)
    return BrokerError(f"{what}: Kafka answered {error.name()} ({said})")


def is_refusal(error: KafkaError) -> bool:
    """Whether the other side refuses us, and will do so again however long we try."""
    return error.code() in _REFUSED or (
        error.code() == KafkaError._TRANSPORT and NOT_AWAY.search(error.str()) is not None
    )


def forbidden(what: str, settings: KafkaSettings, needs: Right, said: str) -> RightMissing:
    """Return the error for a missing right: whose, to do what, and how it is given."""
    principal = user_of(settings.properties)
    known = principal if principal.startswith("User:") else "User:NAME"
    return RightMissing(
        f"{what}: {principal} has no right to {needs} ({said}); an administrator gives it with: "
        f"{needs.command(known, settings.bootstrap_servers)}"
    )


def _usual_right(code: int) -> Right:
    if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return Right("Read", "group", "GROUP")
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return Right("Describe", "topic", "TOPIC")
    return Right("IdempotentWrite", "cluster")


def undelivered(
    error: KafkaError, what: str, settings: KafkaSettings, last_word: str, needs: Right | None = None
) -> BrokerError:
    """Return our error for a record that was not acknowledged."""
    if error.code() in MISSING | FORBIDDEN:
        return translated(error, what, settings, needs)
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


def unreachable(
    settings: KafkaSettings, timeout_s: float, last_word: str, *, is_tls: bool | None = None
) -> BrokerUnreachable:
    """Return the error for a broker that did not answer in time; ``is_tls`` says whether it answers TLS, if known."""
    # A refused connection or a name that does not resolve is reported. Silence means that somebody took the connection.
    why = last_word or silence_hint(settings.properties, is_tls=is_tls)
    return BrokerUnreachable(
        f"no Kafka answers at {settings.bootstrap_servers} within {timeout_s:g} s ({why}); start one with "
        f"`driftline broker start`, or name another with --bootstrap-servers"
    )


class Faults:
    """Hears librdkafka's ``error_cb`` of one client, and knows whether the client is broken for good.

    A refused certificate or password is never fatal for librdkafka: it would try for ever in silence. But a handshake
    that a restarting broker cuts short looks the same, so a client that has worked before is given up only after a
    second refusal.

    Args:
        settings: of the client.
        renews: whether the owner makes a new client when this one has lost count of what it wrote; see ``spent``.
    """

    def __init__(self, settings: KafkaSettings, *, renews: bool = False) -> None:
        self._settings = settings
        self._renews = renews
        self.spent = ""
        """Why a new client is needed; empty while this one works."""
        self._broken: str | None = None
        self._worked = False
        self._refused_at_s: float | None = None
        self.closed = 0
        """How often every broker was found to be away, or closed the connection."""
        self.last_word = ""
        """What librdkafka said last about a connection, without secrets."""

    def on_error(self, error: KafkaError) -> None:
        """Take what librdkafka tells ``error_cb``."""
        said = self._settings.scrub(error.str())
        _log.debug("Kafka client: %s (%s)", said, error.name())
        if error.fatal() and self._renews and error.code() in RENEWABLE:
            self.spent = said
        elif error.fatal():
            self.give_up(error)
        elif is_refusal(error):
            self.last_word = said
            self._refuse(str(translated(error, "connecting", self._settings)))
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.closed += 1
        else:
            self.last_word = said

    def give_up(self, error: KafkaError) -> None:
        """Take a fatal error: from ``error_cb``, or a consumer's message, which does not say its cause but in words."""
        said = self._settings.scrub(error.str())
        why = f"; {_SAME_NAME}" if "fenced" in said else ""
        self._broken = f"the Kafka client is broken for good: {said} ({error.name()}){why}"

    @property
    def is_silent(self) -> bool:
        """Whether nothing was heard of any broker, neither an answer nor a reason why there is none."""
        return not (self._worked or self.last_word or self._broken)

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

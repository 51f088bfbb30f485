"""Turns librdkafka's errors into ours, with messages that say what to do."""

# ruff: noqa: SLF001 - librdkafka's own error codes begin with an underscore by convention and are public all the same

import logging
import shlex
import time
from dataclasses import dataclass

from confluent_kafka import KafkaError

from driftline.broker.kafka.hints import NOT_AWAY, refusal_hint, silence_hint, user_of
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
    # Only some of several brokers answered: an overloaded Kafka does that.
    KafkaError._PARTIAL,
    # The asked node has left the cluster, or no leader is known: more than one of three nodes are down.
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
    # The partition's leader is being elected: a new topic, or a failover. librdkafka marks none of these as retriable.
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
"""Errors that end an idempotent producer but not its successor: records that may have arrived in part were given up."""
_REFUSED = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED}
_PURGED = {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
FORBIDDEN = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}

_SAME_NAME = "another process joined this group with the same name: give each process its own --name"
_REPEATED_AFTER_S = 10.0
_REPEATED_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Right:
    """A right of Kafka's access rules (ACLs): an operation on a resource.

    Attributes:
        operation: as Kafka names it: ``Read``, ``Write``, ``Describe``, ``Create`` …
        kind: ``topic``, ``group`` or ``cluster``.
        name: of the topic or group; empty for the cluster.
    """

    operation: str
    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.operation} on {'the cluster' if self.kind == 'cluster' else f'{self.kind} {self.name}'}"

    def command(self, principal: str, bootstrap_servers: str) -> str:
        """Return the command with which an administrator gives this right to ``principal``."""
        where = ["--cluster"] if self.kind == "cluster" else [f"--{self.kind}", self.name]
        words = ["kafka-acls.sh", "--bootstrap-server", bootstrap_servers, "--add", "--allow-principal", principal]
        return shlex.join([*words, "--operation", self.operation, *where])


def translate(error: KafkaError, what: str, settings: KafkaSettings, needs: Right | None = None) -> BrokerError:
    """Return our error for one of librdkafka's.

    Args:
        error: librdkafka's error.
        what: the operation and its topic.
        settings: settings of the client.
        needs: the right that the operation takes; named if Kafka reports that it is missing.
    """
    reported = settings.scrub(error.str())
    code = error.code()
    if is_refusal(error):
        return BrokerError(
            f"{what}: Kafka at {settings.bootstrap_servers} refused the connection ({reported}); "
            f"{settings.scrub(refusal_hint(reported, settings.properties))}"
        )
    if code in MISSING:
        return TopicMissing(f"{what}: no such topic or partition ({reported})")
    if code in AWAY:
        return BrokerUnreachable(f"{what}: no answer from Kafka at {settings.bootstrap_servers} ({reported})")
    if code in FORBIDDEN:
        return missing_right(what, settings, needs or _usual_right(code), reported)
    return BrokerError(f"{what}: Kafka answered {error.name()} ({reported})")


def is_refusal(error: KafkaError) -> bool:
    """Whether the broker refuses this client for good: trying again cannot help."""
    return error.code() in _REFUSED or (
        error.code() == KafkaError._TRANSPORT and NOT_AWAY.search(error.str()) is not None
    )


def missing_right(what: str, settings: KafkaSettings, needs: Right, reported: str) -> RightMissing:
    """Return the error for a missing right: who lacks it, which one it is, and the command that gives it."""
    principal = user_of(settings.properties)
    known = principal if principal.startswith("User:") else "User:NAME"
    return RightMissing(
        f"{what}: {principal} has no right to {needs} ({reported}); an administrator grants it with: "
        f"{needs.command(known, settings.bootstrap_servers)}"
    )


def _usual_right(code: int) -> Right:
    if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return Right("Read", "group", "GROUP")
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return Right("Describe", "topic", "TOPIC")
    return Right("IdempotentWrite", "cluster")


def delivery_error(
    error: KafkaError, what: str, settings: KafkaSettings, last_error: str, needs: Right | None = None
) -> BrokerError:
    """Return our error for a record that was not acknowledged."""
    if error.code() in MISSING | FORBIDDEN:
        return translate(error, what, settings, needs)
    if error.code() in {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}:
        return BrokerError(
            f"{what}: the broker refused its size; raise max.message.bytes of the topic to Kafka's default"
        )
    if error.code() in _PURGED:
        why = f" ({last_error})" if last_error else ""
        return DeliveryFailed(f"{what} was not acknowledged before the producer was closed{why}")
    reason = settings.scrub(error.str()) + (f"; {last_error}" if last_error else "")
    return DeliveryFailed(
        f"{what} was not acknowledged within {settings.delivery_timeout_s:g} s, so it may or may not be in the log "
        f"({reason})"
    )


def unreachable_error(
    settings: KafkaSettings, timeout_s: float, last_error: str, *, is_tls: bool | None = None
) -> BrokerUnreachable:
    """Return the error for a broker that did not answer in time; ``is_tls``: whether it speaks TLS, if known."""
    # librdkafka reports a refused connection or an unknown host name. Silence means that the connection was accepted.
    why = last_error or silence_hint(settings.properties, is_tls=is_tls)
    return BrokerUnreachable(
        f"no Kafka answered at {settings.bootstrap_servers} within {timeout_s:g} s ({why}); start one with "
        f"`driftline broker start`, or give another address with --bootstrap-servers"
    )


class ClientErrors:
    """Receives the errors of one client (librdkafka's ``error_cb``) and knows whether it is broken for good.

    A refused certificate or password is never fatal for librdkafka: it would retry for ever in silence. But a handshake
    that a restarting broker cuts off looks the same, so a client that worked before is given up only after a second
    refusal.

    Args:
        settings: settings of the client.
        renews: whether the owner replaces a client that has lost count of its sequence; see ``spent``.
    """

    def __init__(self, settings: KafkaSettings, *, renews: bool = False) -> None:
        self._settings = settings
        self._renews = renews
        self.lost_count = ""
        """Why the client must be replaced; empty while it works."""
        self._broken: str | None = None
        self._worked = False
        self._refused_at_s: float | None = None
        self.closed = 0
        """How often all brokers were away or closed the connection."""
        self.last_error = ""
        """librdkafka's last message about a connection, without secrets."""

    def on_error(self, error: KafkaError) -> None:
        """Handle an error from ``error_cb``."""
        reported = self._settings.scrub(error.str())
        _log.debug("Kafka client: %s (%s)", reported, error.name())
        if error.fatal() and self._renews and error.code() in RENEWABLE:
            self.lost_count = reported
        elif error.fatal():
            self.give_up(error)
        elif is_refusal(error):
            self.last_error = reported
            self._refuse(str(translate(error, "connecting", self._settings)))
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.closed += 1
        else:
            self.last_error = reported

    def give_up(self, error: KafkaError) -> None:
        """Handle a fatal error from ``error_cb`` or from a consumer's message, whose cause is only in its text."""
        reported = self._settings.scrub(error.str())
        why = f"; {_SAME_NAME}" if "fenced" in reported else ""
        self._broken = f"the Kafka client failed for good: {reported} ({error.name()}){why}"

    @property
    def is_silent(self) -> bool:
        """Whether no broker has answered and no error says why."""
        return not (self._worked or self.last_error or self._broken)

    def worked(self) -> None:
        """Note that a broker answered."""
        self._worked = True
        self._refused_at_s = None

    def check(self) -> None:
        """Return if the client can be used.

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

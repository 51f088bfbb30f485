"""Wrong settings are refused as a whole before a client exists, and secrets stay secret. Needs no broker."""

import pytest
from confluent_kafka import KafkaError

from driftline.broker.kafka import KafkaSettings
from driftline.broker.kafka.errors import ClientErrors, delivery_error, translate
from driftline.broker.kafka.settings import GroupProtocol, suitable_protocol
from driftline.errors import BrokerError, BrokerUnreachable, ConfigError, DeliveryFailed, RightMissing, TopicMissing

_SECRET = "correct-horse-battery"  # noqa: S105 - the test looks for it where it must not be
_ADDRESS = "localhost:9092"


@pytest.mark.parametrize("servers", ["localhost:9092", "a:1,b:2, c:65535", "[::1]:9092", "SSL://host.example:9093"])
def test_addresses_in_kafkas_form_are_accepted(servers: str) -> None:
    assert KafkaSettings(servers).common()["bootstrap.servers"] == servers


@pytest.mark.parametrize("servers", ["", "localhost", "a:1,,b:2", "a:0", "a:65536", "a:b", "http://a:1/x", "a b:1"])
def test_an_invalid_address_is_refused_with_an_example(servers: str) -> None:
    with pytest.raises(ConfigError, match=r'is not an address; an example is "localhost:9092"'):
        KafkaSettings(servers)


def test_every_problem_is_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        KafkaSettings(
            "nowhere",
            {
                "enable.idempotence": "false",
                "acks": "1",
                "group.protocol": "consumer",
                "session.timeout.ms": "100",
                "ssl.ca.locaton": "/ca.pem",
                "linger.ms": "-7",
                "enable.auto.commit": True,  # type: ignore[dict-item]
            },
            session_timeout_s=400,
            request_timeout_s=0,
            group_protocol="newest",
        )
    text = str(caught.value)
    assert len(caught.value.problems) == 11
    for part in (
        "'nowhere' is not an address",
        "session_timeout_s = 400 is above max_poll_interval_s = 300",
        "request_timeout_s = 0: must be positive",
        "enable.idempotence=false: remove it",
        "acks=1: remove it",
        "group.protocol: remove it; choose it with --group-protocol",
        "group_protocol = 'newest' does not exist: choose auto, consumer, static, classic",
        "session.timeout.ms: remove it",
        "did you mean ssl.ca.location?",
        "linger.ms",
        "enable.auto.commit: the value must be text in quotes, not bool",
    ):
        assert part in text


def test_a_property_that_repeats_our_value_is_accepted() -> None:
    KafkaSettings(_ADDRESS, {"acks": "ALL", "enable.idempotence": "true", "auto.offset.reset": "error"})


def test_a_missing_file_is_reported_before_any_client_exists() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location"):
        KafkaSettings(_ADDRESS, {"security.protocol": "ssl", "ssl.ca.location": "/nonexistent/ca.pem"})


@pytest.mark.parametrize(
    "name", ["sasl.password", "ssl.key.password", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config"]
)
def test_secrets_are_neither_shown_nor_quoted_in_errors(name: str) -> None:
    settings = KafkaSettings(_ADDRESS, {name: _SECRET, "sasl.username": "alice"})
    assert _SECRET not in repr(settings)
    assert "alice" in repr(settings)
    error = KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED, f"no such password {_SECRET}")
    assert _SECRET not in str(translate(error, "connecting", settings))
    with pytest.raises(ConfigError) as caught:
        KafkaSettings(_ADDRESS, {name: _SECRET, "security.protocol": _SECRET})
    assert _SECRET not in str(caught.value)


def test_a_users_property_reaches_every_kind_of_client() -> None:
    settings = KafkaSettings(_ADDRESS, {"socket.timeout.ms": "1234"})
    members = [settings.group("g", "m", protocol) for protocol in GroupProtocol]
    for client in (settings.common(), settings.producer(), settings.consumer(), *members):
        assert client["socket.timeout.ms"] == "1234"


def test_errors_of_librdkafka_become_ours() -> None:
    settings = KafkaSettings(_ADDRESS)
    codes = {
        KafkaError.UNKNOWN_TOPIC_OR_PART: TopicMissing,
        KafkaError._ALL_BROKERS_DOWN: BrokerUnreachable,
        KafkaError.TOPIC_AUTHORIZATION_FAILED: RightMissing,
        KafkaError.INVALID_CONFIG: BrokerError,
    }
    for code, kind in codes.items():
        assert type(translate(KafkaError(code, "said"), "doing it", settings)) is kind
    assert type(delivery_error(KafkaError(KafkaError._MSG_TIMED_OUT), "a record", settings, "")) is DeliveryFailed
    assert type(delivery_error(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "a record", settings, "")) is TopicMissing


@pytest.mark.parametrize("code", [KafkaError._SSL, KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED])
def test_refused_credentials_break_a_client_that_never_worked(code: int) -> None:
    errors = ClientErrors(KafkaSettings(_ADDRESS))
    errors.check()
    errors.on_error(KafkaError(code, "certificate verify failed"))
    with pytest.raises(BrokerError, match=r"certificate verify failed.*set ssl\.ca\.location"):
        errors.check()


def test_a_single_refusal_does_not_break_a_client_that_has_worked() -> None:
    errors = ClientErrors(KafkaSettings(_ADDRESS))
    errors.worked()
    errors.on_error(KafkaError(KafkaError._SSL, "handshake cut short by a restart"))
    errors.check()


def test_brokers_that_are_down_do_not_break_a_client_and_leave_their_reason() -> None:
    errors = ClientErrors(KafkaSettings(_ADDRESS))
    errors.on_error(KafkaError(KafkaError._TRANSPORT, "Connection refused"))
    errors.on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    errors.check()
    assert errors.last_error == "Connection refused"


def test_a_fatal_error_breaks_a_client_for_good() -> None:
    errors = ClientErrors(KafkaSettings(_ADDRESS))
    errors.worked()
    errors.on_error(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "gap", fatal=True))
    errors.worked()
    with pytest.raises(BrokerError, match="failed for good: gap"):
        errors.check()


@pytest.mark.parametrize(
    ("protocols", "session_ms", "chosen"),
    [
        ("classic,consumer,streams", "750", GroupProtocol.CONSUMER),
        ("classic,consumer", "6000", GroupProtocol.CONSUMER),
        ("classic,consumer", "45000", GroupProtocol.STATIC),
        ("consumer", "45000", GroupProtocol.CONSUMER),
        ("classic", "750", GroupProtocol.STATIC),
        ("classic", None, GroupProtocol.STATIC),
        (None, None, GroupProtocol.STATIC),
    ],
)
def test_the_protocol_that_notices_a_death_first_is_chosen(
    protocols: str | None, session_ms: str | None, chosen: GroupProtocol
) -> None:
    """With Kafka's defaults the newer protocol waits 45 seconds, the classic one as long as the client chooses."""
    told = {"group.coordinator.rebalance.protocols": protocols, "group.consumer.session.timeout.ms": session_ms}
    assert suitable_protocol({name: value for name, value in told.items() if value is not None}, 6.0) is chosen


def test_without_readable_settings_the_protocol_of_every_kafka_is_chosen() -> None:
    assert suitable_protocol(None, 6.0) is GroupProtocol.STATIC


def test_a_client_sets_only_what_its_group_protocol_allows() -> None:
    """The newer protocol allows no session and no assignor; only a static member has an instance id."""
    settings = KafkaSettings(_ADDRESS, session_timeout_s=6.0)
    names = {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy", "group.instance.id"}
    said = {protocol: names & settings.group("g", "m", protocol).keys() for protocol in GroupProtocol}
    assert said == {
        GroupProtocol.CONSUMER: set(),
        GroupProtocol.STATIC: names,
        GroupProtocol.CLASSIC: names - {"group.instance.id"},
    }

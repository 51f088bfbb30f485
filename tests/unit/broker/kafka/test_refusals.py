"""A refused connection or a missing right: what the message says, without any secret. Needs no broker."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaError

from driftline.broker.kafka import KafkaSettings
from driftline.broker.kafka.errors import ClientErrors, Right, translate, unreachable_error
from driftline.broker.kafka.hints import refusal_hint, silence_hint, speaks_tls, unsafe, user_of
from driftline.errors import BrokerError, ConfigError

SSL = {"security.protocol": "SSL"}
LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "hunter2",
}

REFUSALS = [
    ("SSL handshake failed: connecting to a PLAINTEXT broker listener?", SSL, "set security.protocol=PLAINTEXT"),
    ("SSL handshake failed: connecting to a PLAINTEXT broker listener?", LOGIN, "security.protocol=SASL_PLAINTEXT"),
    ("certificate verify failed: broker certificate could not be verified", SSL, "an authority that this machine"),
    ("certificate verify failed", SSL | {"ssl.ca.location": "/x/ca.pem"}, "ssl.ca.location=/x/ca.pem; set"),
    ("certificate verify failed: Hostname mismatch", SSL, "is for another host name"),
    ("certificate verify failed: certificate has expired", SSL, "the broker's certificate has expired"),
    ("certificate verify failed: certificate is not yet valid", SSL, "is not valid yet"),
    ("tlsv13 alert certificate required: SSL alert number 116", SSL, "wants a client certificate"),
    (
        "alert unknown ca",
        SSL | {"ssl.certificate.location": "/x/me.crt"},
        "refuses this client's certificate /x/me.crt",
    ),
    (
        "mechanism handshake failed: broker's supported mechanisms: SCRAM-SHA-256, PLAIN (",
        LOGIN,
        "accepts: SCRAM-SHA-256",
    ),
    ("broker's supported mechanisms:  (after 0ms)", LOGIN, "takes no login; set security.protocol=SSL"),
    ("Authentication failed: Invalid username or password", LOGIN, "check sasl.username (alice) and sasl.password"),
    ("something new", SSL, "check security.protocol, the certificates and the credentials"),
]


@pytest.mark.parametrize(("said", "properties", "hint"), REFUSALS)
def test_a_refusal_says_which_property_to_change(said: str, properties: dict[str, str], hint: str) -> None:
    """After librdkafka's own message."""
    assert hint in refusal_hint(said, properties)


@pytest.mark.parametrize(
    ("protocol", "is_tls", "hint"),
    [
        ("PLAINTEXT", True, "TLS expected"),
        ("SASL_PLAINTEXT", True, "set security.protocol=SASL_SSL"),
        ("SSL", True, "want a login"),
        ("PLAINTEXT", False, "the broker is slow, hangs, or expects a login (it speaks no TLS)"),
        ("PLAINTEXT", None, "the broker is slow, hangs, or expects TLS or a login"),
    ],
)
def test_silence_is_explained_by_what_the_address_speaks(protocol: str, is_tls: bool | None, hint: str) -> None:  # noqa: FBT001 - a fact
    """For a TLS port that closes a plain connection librdkafka reports no error."""
    assert hint in silence_hint({"security.protocol": protocol}, is_tls=is_tls)
    settings = KafkaSettings("h:1", {"security.protocol": protocol} if protocol == "PLAINTEXT" else {})
    assert "h:1" in str(unreachable_error(settings, 1.0, "", is_tls=is_tls))


FORBIDDEN = [
    (KafkaError.TOPIC_AUTHORIZATION_FAILED, Right("Write", "topic", "t"), "Write on topic t", "--topic t"),
    (KafkaError.GROUP_AUTHORIZATION_FAILED, Right("Read", "group", "g"), "Read on group g", "--group g"),
    (KafkaError.CLUSTER_AUTHORIZATION_FAILED, None, "IdempotentWrite on the cluster", "--cluster"),
]


@pytest.mark.parametrize(("code", "needs", "right", "option"), FORBIDDEN)
def test_a_missing_right_names_principal_resource_and_operation(
    code: int, needs: Right | None, right: str, option: str
) -> None:
    """And the command that grants it."""
    error = translate(KafkaError(code, "hunter2 said no"), "working", KafkaSettings("h:1", LOGIN), needs)
    text = str(error)
    assert f"User:alice has no right to {right} (*** said no)" in text
    assert "kafka-acls.sh --bootstrap-server h:1 --add --allow-principal User:alice --operation " in text
    assert text.endswith(option)


@pytest.mark.parametrize(
    ("properties", "user"),
    [
        ({}, "User:ANONYMOUS"),
        (LOGIN, "User:alice"),
        (SSL | {"ssl.certificate.location": "/x/me.crt"}, "the user of its certificate /x/me.crt"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "the user of its login"),
    ],
)
def test_a_client_knows_its_user(properties: dict[str, str], user: str) -> None:
    """As far as this does not depend on the broker's own rules."""
    assert user_of(properties) == user


@pytest.mark.parametrize("said", ["connecting to a PLAINTEXT broker listener?", "alert: SSL alert number 116"])
def test_a_refusal_that_looks_like_an_outage_breaks_a_client_that_never_worked(said: str) -> None:
    """Otherwise librdkafka would retry for ever."""
    errors = ClientErrors(KafkaSettings("h:1"))
    errors.on_error(KafkaError(KafkaError._TRANSPORT, said))
    with pytest.raises(BrokerError, match="refused the connection"):
        errors.check()


@contextmanager
def listening(answer: bytes | None) -> Iterator[str]:
    """Accept one connection: answer it, or close it at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                if answer is not None:
                    connection.recv(64)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("answer", "is_tls"),
    [(None, False), (b"HTTP/1.1 400 Bad Request\r\n\r\n", False), (b"\x15\x03\x03\x00\x02\x02\x28", True)],
    ids=["closes", "http", "tls-alert"],
)
def test_an_address_that_speaks_tls_is_recognised(answer: bytes | None, is_tls: bool) -> None:  # noqa: FBT001 - a fact
    """Any TLS alert is an answer in TLS."""
    with listening(answer) as address:
        assert speaks_tls(address, 5.0) is is_tls


def test_an_address_without_a_server_leaves_the_question_open() -> None:
    """So does a name that does not resolve."""
    assert speaks_tls("127.0.0.1:9", 1.0) is None
    assert speaks_tls("SSL://no-such-host.invalid:9092", 1.0) is None


def test_a_login_without_a_mechanism_is_refused_before_anything_connects() -> None:
    """The error of librdkafka itself would be about Kerberos."""
    with pytest.raises(ConfigError, match=r"a login needs sasl\.mechanism: PLAIN"):
        KafkaSettings("h:1", {"security.protocol": "SASL_SSL", "sasl.username": "alice"})


def test_a_disabled_certificate_check_causes_a_warning() -> None:
    """For the certificate or its host name; without TLS there is nothing to disable."""
    off = {"enable.ssl.certificate.verification": "False"}
    assert "does not check the broker's certificate" in unsafe(SSL | off)
    assert "for its host name" in unsafe(LOGIN | {"ssl.endpoint.identification.algorithm": "none"})
    assert unsafe(LOGIN) == unsafe(off) == ""


OIDC = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
    "sasl.oauthbearer.client.id": "trainer-7",
    "sasl.oauthbearer.client.secret": "hunter2",
}


@pytest.mark.parametrize("lacking", list(OIDC)[2:])
def test_a_login_by_tokens_names_what_it_lacks(lacking: str) -> None:
    """At once: librdkafka would wait for a token in silence."""
    with pytest.raises(ConfigError, match=f"a login by OAUTHBEARER needs {lacking}") as refused:
        KafkaSettings("b:9093", properties={name: value for name, value in OIDC.items() if name != lacking})
    assert "hunter2" not in str(refused.value)


def test_a_login_by_tokens_that_lacks_nothing_is_taken() -> None:
    """What the token endpoint answers is found out when it is asked."""
    assert KafkaSettings("b:9093", properties=OIDC).properties == OIDC

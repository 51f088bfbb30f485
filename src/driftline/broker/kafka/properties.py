"""Checks and masks the librdkafka properties that a user passes."""

import difflib
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaException, Producer

MASK = "***"
_SECRET = ("password", "secret", "token", "credential", "sasl.jaas", "oauthbearer", ".pem")

# Only driftline sets these: what to use instead, or why never.
_OURS = {
    "bootstrap.servers": "give the addresses as bootstrap servers",
    "metadata.broker.list": "give the addresses as bootstrap servers",
    "group.id": "driftline names its groups itself",
    "group.instance.id": "driftline names the members of its groups itself",
    "group.protocol": "choose it with --group-protocol (kafka.group_protocol)",
    "group.remote.assignor": "the brokers choose how to assign partitions",
    "partition.assignment.strategy": "the cooperative-sticky assignor or the brokers assign partitions",
    "session.timeout.ms": "set the session time-out in driftline's own configuration",
    "heartbeat.interval.ms": "it follows from the session time-out",
    "max.poll.interval.ms": "set the poll interval in driftline's own configuration",
    "message.timeout.ms": "set the delivery time-out in driftline's own configuration",
    "delivery.timeout.ms": "set the delivery time-out in driftline's own configuration",
    "message.max.bytes": "driftline cuts tensors so that every record fits the default limit",
    "transactional.id": "driftline uses no transactions",
}

# A value other than ours is refused; ours may be repeated.
_FIXED = {
    "enable.idempotence": ({"true"}, "without it a retry could write a record twice or out of order"),
    "acks": ({"all", "-1"}, "a record counts only when every in-sync replica has it"),
    "request.required.acks": ({"all", "-1"}, "a record counts only when every in-sync replica has it"),
    "max.in.flight": (set("12345"), "idempotence allows at most 5"),
    "max.in.flight.requests.per.connection": (set("12345"), "idempotence allows at most 5"),
    "enable.auto.commit": ({"false"}, "reading positions come from the log, not from committed offsets"),
    "enable.auto.offset.store": ({"false"}, "reading positions come from the log, not from committed offsets"),
    "auto.offset.reset": ({"error"}, "a lost position must be an error, never a silent jump"),
    "enable.partition.eof": ({"true"}, "readers need to know when they reach the end"),
    "allow.auto.create.topics": ({"false"}, "a misspelled name must not become a topic"),
}

# For suggestions only: librdkafka knows which names exist but does not list them.
_COMMON = (
    "security.protocol",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "enable.ssl.certificate.verification",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.token.endpoint.url",
    "broker.address.family",
    "client.id",
    "client.rack",
    "compression.type",
    "debug",
    "linger.ms",
    "batch.size",
    "log_level",
    "fetch.wait.max.ms",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "queued.max.messages.kbytes",
    "queue.buffering.max.kbytes",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "retry.backoff.ms",
    "request.timeout.ms",
    "socket.timeout.ms",
    "socket.keepalive.enable",
    "socket.connection.setup.timeout.ms",
    "topic.metadata.refresh.interval.ms",
    "topic.metadata.propagation.max.ms",
)


def is_secret(name: str) -> bool:
    """Whether the value of a property must never be shown."""
    return any(word in name.lower() for word in _SECRET)


def mask(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with every secret value replaced."""
    return {name: MASK if is_secret(name) else value for name, value in properties.items()}


def scrub_text(text: str, properties: Mapping[str, str]) -> str:
    """Return ``text`` without the secret values that a library may have quoted in it."""
    secrets = [value for name, value in properties.items() if is_secret(name) and value]
    # The longest first: a secret that contains another one must leave no rest.
    for value in sorted(secrets, key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def property_problems(properties: Mapping[str, str]) -> list[str]:
    """Return everything that is wrong with the properties, without secrets."""
    problems = [problem for name, value in properties.items() for problem in _problems_of(name, value)]
    if not problems:
        # Each is valid; together they may still lack a part, or name a file that does not exist.
        whole = _no_mechanism(properties) or _refusal(properties)
        problems += [f"Kafka properties: {whole}"] if whole else []
    return [scrub_text(problem, properties) for problem in problems]


def _no_mechanism(properties: Mapping[str, str]) -> str:
    """Return the problem of a login without a mechanism: librdkafka would try Kerberos, which its build lacks."""
    is_login = properties.get("security.protocol", "").upper().startswith("SASL")
    if is_login and properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "")).upper() == "OAUTHBEARER":
        return _no_token(properties)
    if not is_login or any(name in properties for name in ("sasl.mechanism", "sasl.mechanisms")):
        return ""
    return (
        "a login needs sasl.mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER, whichever the broker accepts"
    )


def _no_token(properties: Mapping[str, str]) -> str:
    """Return the problem of a login by tokens that has no way to get one: librdkafka would wait in silence."""
    if properties.get("sasl.oauthbearer.method", "").lower() != "oidc":
        return "a login by OAUTHBEARER needs sasl.oauthbearer.method=oidc"
    needed = ("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")
    missing = [name for name in needed if not properties.get(name)]
    return f"a login by OAUTHBEARER needs {', '.join(missing)}" if missing else ""


def _problems_of(name: str, value: object) -> Iterable[str]:
    if not isinstance(value, str):
        yield f"Kafka property {name}: the value must be text in quotes, not {type(value).__name__}"
    elif name in _OURS:
        yield f"Kafka property {name}: remove it; {_OURS[name]}"
    elif name in _FIXED:
        allowed, why = _FIXED[name]
        if value.lower() not in allowed:
            yield f"Kafka property {name}={value}: remove it; {why}"
    elif name.endswith("_cb") or name == "opaque":
        yield f"Kafka property {name}: remove it; callbacks cannot be configured"
    else:
        yield from _unknown_or_invalid(name, value)


def _unknown_or_invalid(name: str, value: str) -> Iterable[str]:
    refusal = _refusal({name: value})
    if refusal is None:
        return
    if "no such configuration property" in refusal.lower():
        near = difflib.get_close_matches(name.lower(), [*_COMMON, *_FIXED], n=1)
        # What is no name may be a line of a key.
        shown = name if near or name == name.lower() else "(not shown, it may be a part of a secret)"
        yield f"Kafka property {shown}: there is no such property{f'; did you mean {near[0]}?' if near else ''}"
    elif "configuration property" in refusal.lower():
        yield f"Kafka property {name}: {refusal}"


def _refusal(properties: Mapping[str, str]) -> str | None:
    """Return librdkafka's error for these properties, if any; without an address it connects to nothing."""
    try:
        Producer({**properties, "log_level": 0}).close()
    except KafkaException as error:
        return str(error.args[0].str())
    except (TypeError, ValueError) as error:
        return str(error)
    return None

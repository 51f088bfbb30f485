"""What a refused connection most likely means, in words that name the property to change. Nothing here connects.

librdkafka says what went wrong in the handshake; who reads it has to know what that says about the settings.
"""

import re
from collections.abc import Mapping

_MECHANISMS = re.compile(r"broker's supported mechanisms: *([A-Z0-9, -]*)")

NOT_AWAY = re.compile(r"PLAINTEXT broker listener\?|SSL alert number|alert certificate|certificate required")
"""What librdkafka reports as a lost connection although the other side refuses us, and will the next time."""


def protocol_of(properties: Mapping[str, str]) -> str:
    """Return the protocol that a client speaks."""
    return properties.get("security.protocol", "PLAINTEXT").upper()


def user_of(properties: Mapping[str, str]) -> str:
    """Say as whom a client comes, as far as it can know."""
    if protocol_of(properties).startswith("SASL") and "sasl.username" in properties:
        return f"User:{properties['sasl.username']}"
    if protocol_of(properties).startswith("SASL"):
        return "the user of its login"
    certificate = properties.get("ssl.certificate.location") or properties.get("ssl.keystore.location")
    if certificate or "ssl.certificate.pem" in properties:
        return f"the user of its certificate{f' {certificate}' if certificate else ''}"
    return "User:ANONYMOUS"


def unsafe(properties: Mapping[str, str]) -> str:
    """Return what lets anybody pose as the broker, or nothing."""
    unchecked = properties.get("enable.ssl.certificate.verification", "true").lower() == "false"
    any_name = properties.get("ssl.endpoint.identification.algorithm", "https").lower() == "none"
    if not protocol_of(properties).endswith("SSL") or not (unchecked or any_name):
        return ""
    what = "the broker's certificate" if unchecked else "that the broker's certificate is for its host name"
    return f"nobody checks {what}: whoever is in between can read and change everything, passwords included"


def refusal_hint(said: str, properties: Mapping[str, str]) -> str:
    """Return the way out of a refused connection.

    Args:
        said: what librdkafka reported.
        properties: of the client.
    """
    lowered = said.lower()
    for words, hint in (
        ("plaintext broker listener", _no_tls),
        ("hostname mismatch", _other_host),
        ("ip address mismatch", _other_host),
        ("certificate verify failed", _unknown_authority),
        ("alert", _own_certificate),
        ("supported mechanisms", _mechanism),
        ("authentication failed", _login),
        ("authentication error", _login),
    ):
        if words in lowered:
            return hint(said, properties)
    return "check security.protocol, the certificates and the credentials"


def silence_hint(properties: Mapping[str, str], *, is_tls: bool | None) -> str:
    """Return what a connection that opens and is closed again without a word most likely means.

    Args:
        properties: of the client.
        is_tls: whether the address answers TLS; None if that is not known.
    """
    protocol = protocol_of(properties)
    if is_tls and protocol in ("PLAINTEXT", "SASL_PLAINTEXT"):
        wanted = protocol.replace("PLAINTEXT", "SSL") if protocol.startswith("SASL") else "SSL (or SASL_SSL)"
        return f"TLS expected: the address speaks TLS and this client does not; set security.protocol={wanted}"
    if protocol == "SSL":
        return "the connection is closed without a word: does the address want a login (security.protocol=SASL_SSL)?"
    expected = "a login (it speaks no TLS)" if is_tls is False else "TLS or a login"
    return f"the connection opens but nobody answers: a broker that is slow or hangs, or one that expects {expected}"


def _no_tls(_said: str, properties: Mapping[str, str]) -> str:
    wanted = "SASL_PLAINTEXT" if protocol_of(properties) == "SASL_SSL" else "PLAINTEXT"
    return f"the address does not speak TLS; set security.protocol={wanted}, or use the address that does"


def _other_host(_said: str, _properties: Mapping[str, str]) -> str:
    return (
        "the broker's certificate is for another host name; connect by a name that it holds, or have one issued for "
        "this name"
    )


def _unknown_authority(_said: str, properties: Mapping[str, str]) -> str:
    file = properties.get("ssl.ca.location")
    trusted = f"the authority in ssl.ca.location={file}" if file else "an authority that this machine trusts"
    return f"the broker's certificate is not signed by {trusted}; set ssl.ca.location to the file of the right one"


def _own_certificate(_said: str, properties: Mapping[str, str]) -> str:
    certificate = properties.get("ssl.certificate.location") or properties.get("ssl.keystore.location")
    if certificate or "ssl.certificate.pem" in properties:
        shown = f" {certificate}" if certificate else ""
        return f"the broker refuses this client's certificate{shown}: expired, or signed by another authority"
    return (
        "the broker wants a certificate of this client; set ssl.certificate.location and ssl.key.location, or use the "
        "address for logins"
    )


def _mechanism(said: str, properties: Mapping[str, str]) -> str:
    found = _MECHANISMS.search(said)
    known = found[1].strip(" ,") if found else ""
    if not known:
        wanted = protocol_of(properties).removeprefix("SASL_")
        return f"the address takes no login; set security.protocol={wanted}, or use the address that does"
    return f"the broker takes {known}; set sasl.mechanism to that"


def _login(_said: str, properties: Mapping[str, str]) -> str:
    return f"check sasl.username ({properties.get('sasl.username', 'not set')}) and sasl.password"

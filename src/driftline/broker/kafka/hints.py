"""The likely cause of a refused or silent connection, and the property to change.

librdkafka reports what went wrong in the handshake, but not which of the client's settings causes it.
"""

import re
import socket
import ssl
from collections.abc import Mapping

_MECHANISMS = re.compile(r"broker's supported mechanisms: *([A-Z0-9, -]*)")

NOT_AWAY = re.compile(r"PLAINTEXT broker listener\?|SSL alert number|alert certificate|certificate required")
"""Errors that librdkafka reports as a lost connection although the broker refuses this client for good."""

_PLAIN_WORDS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF", "UNEXPECTED_MESSAGE", "HTTP_REQUEST")
_TLS_WORDS = (
    "ALERT",
    "CERTIFICATE",
    "HANDSHAKE_FAILURE",
    "UNSUPPORTED_PROTOCOL",
    "KEY_TOO_SMALL",
    "NO_CIPHERS",
    "ASN1",
)
"""Words of errors that only a peer with TLS causes. Any other error leaves the question open."""


def protocol_of(properties: Mapping[str, str]) -> str:
    """Return the security protocol of a client."""
    return properties.get("security.protocol", "PLAINTEXT").upper()


def user_of(properties: Mapping[str, str]) -> str:
    """Return the user that a client connects as, as far as the client can know."""
    if protocol_of(properties).startswith("SASL") and "sasl.username" in properties:
        return f"User:{properties['sasl.username']}"
    if protocol_of(properties).startswith("SASL"):
        return "the user of its login"
    certificate = properties.get("ssl.certificate.location") or properties.get("ssl.keystore.location")
    if certificate or "ssl.certificate.pem" in properties:
        return f"the user of its certificate{f' {certificate}' if certificate else ''}"
    return "User:ANONYMOUS"


def unsafe(properties: Mapping[str, str]) -> str:
    """Return a warning if another server could pose as the broker; empty if not."""
    unchecked = properties.get("enable.ssl.certificate.verification", "true").lower() == "false"
    any_name = properties.get("ssl.endpoint.identification.algorithm", "https").lower() == "none"
    if not protocol_of(properties).endswith("SSL") or not (unchecked or any_name):
        return ""
    what = "the broker's certificate" if unchecked else "whether the broker's certificate is for its host name"
    return f"this client does not check {what}: a server in between can read and change everything, passwords included"


def refusal_hint(reported: str, properties: Mapping[str, str]) -> str:
    """Return how to repair a refused connection.

    Args:
        reported: librdkafka's error.
        properties: properties of the client.
    """
    lowered = reported.lower()
    for words, hint in (
        ("plaintext broker listener", _no_tls),
        ("hostname mismatch", _other_host),
        ("ip address mismatch", _other_host),
        ("certificate has expired", _expired),
        ("certificate is not yet valid", _expired),
        ("certificate verify failed", _unknown_authority),
        ("alert", _own_certificate),
        ("supported mechanisms", _mechanism),
        ("authentication failed", _login),
        ("authentication error", _login),
    ):
        if words in lowered:
            return hint(reported, properties)
    return "check security.protocol, the certificates and the credentials"


def silence_hint(properties: Mapping[str, str], *, is_tls: bool | None) -> str:
    """Return the likely cause of a connection that opens and is closed again without an error.

    Args:
        properties: properties of the client.
        is_tls: whether the address speaks TLS; None if unknown.
    """
    protocol = protocol_of(properties)
    if is_tls and protocol in ("PLAINTEXT", "SASL_PLAINTEXT"):
        wanted = protocol.replace("PLAINTEXT", "SSL") if protocol.startswith("SASL") else "SSL (or SASL_SSL)"
        return f"TLS expected: the address speaks TLS and this client does not; set security.protocol={wanted}"
    if protocol == "SSL":
        return "the broker closes the connection: does the address want a login (security.protocol=SASL_SSL)?"
    expected = "a login (it speaks no TLS)" if is_tls is False else "TLS or a login"
    return f"the connection opens but no answer comes: the broker is slow, hangs, or expects {expected}"


def _no_tls(_reported: str, properties: Mapping[str, str]) -> str:
    wanted = "SASL_PLAINTEXT" if protocol_of(properties) == "SASL_SSL" else "PLAINTEXT"
    return f"the address does not speak TLS; set security.protocol={wanted}, or use the address with TLS"


def _other_host(_reported: str, _properties: Mapping[str, str]) -> str:
    return "the broker's certificate is for another host name; connect with a name in it, or get one for this name"


def _expired(reported: str, _properties: Mapping[str, str]) -> str:
    when = "has expired" if "expired" in reported.lower() else "is not valid yet"
    return f"the broker's certificate {when}: its administrator has to renew it, or this machine's clock is wrong"


def _unknown_authority(_reported: str, properties: Mapping[str, str]) -> str:
    file = properties.get("ssl.ca.location")
    trusted = f"the authority in ssl.ca.location={file}" if file else "an authority that this machine trusts"
    return (
        f"the broker's certificate is not signed by {trusted}; set ssl.ca.location to the file of the right authority"
    )


def _own_certificate(_reported: str, properties: Mapping[str, str]) -> str:
    certificate = properties.get("ssl.certificate.location") or properties.get("ssl.keystore.location")
    if certificate or "ssl.certificate.pem" in properties:
        shown = f" {certificate}" if certificate else ""
        return f"the broker refuses this client's certificate{shown}: expired, or signed by another authority"
    return (
        "the broker wants a client certificate; set ssl.certificate.location and ssl.key.location, or use the "
        "address for logins"
    )


def _mechanism(reported: str, properties: Mapping[str, str]) -> str:
    found = _MECHANISMS.search(reported)
    known = found[1].strip(" ,") if found else ""
    if not known:
        wanted = protocol_of(properties).removeprefix("SASL_")
        return f"the address takes no login; set security.protocol={wanted}, or use the address for logins"
    return f"set sasl.mechanism to one that the broker accepts: {known}"


def _login(_reported: str, properties: Mapping[str, str]) -> str:
    return f"check sasl.username ({properties.get('sasl.username', 'not set')}) and sasl.password"


def speaks_tls(address: str, timeout_s: float) -> bool | None:
    """Try a TLS handshake; None if the connection fails or the answer leaves the question open.

    Sends only the handshake and does not check the certificate: librdkafka does that.

    Args:
        address: ``host:port``, in librdkafka's form.
        timeout_s: bound of the connection and of the handshake, each.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s) as plain,
            context.wrap_socket(plain, server_hostname=host.strip("[]")),
        ):
            return True
    except ssl.SSLEOFError:
        return False
    except ssl.SSLError as error:
        return _spoken(error.reason or "")
    except (ConnectionResetError, BrokenPipeError):
        return False
    except (OSError, ValueError):
        return None


def _spoken(reason: str) -> bool | None:
    if any(words in reason for words in _PLAIN_WORDS):
        return False
    # An alert means TLS; so does a certificate that this Python cannot parse.
    return True if any(words in reason for words in _TLS_WORDS) else None

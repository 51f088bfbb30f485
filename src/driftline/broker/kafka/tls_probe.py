"""Whether an address speaks TLS: asked when a connection is closed without a word, so that the error can say why."""

import socket
import ssl

_NO_TLS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF", "UNEXPECTED_MESSAGE", "HTTP_REQUEST")
_TLS = ("ALERT", "CERTIFICATE", "HANDSHAKE_FAILURE", "UNSUPPORTED_PROTOCOL", "KEY_TOO_SMALL", "NO_CIPHERS", "ASN1")
"""Words of what only somebody who speaks TLS can have answered. Anything else leaves the question open."""


def speaks_tls(address: str, timeout_s: float) -> bool | None:
    """Offer a TLS handshake; None if nobody takes the connection or the answer leaves it open.

    Nothing is sent but the offer, and the certificate is not looked at: who it belongs to is librdkafka's question.

    Args:
        address: ``host:port``, as librdkafka takes it.
        timeout_s: for connection and handshake, each.
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
    if any(words in reason for words in _NO_TLS):
        return False
    # An alert is TLS; so is a certificate that this Python refuses to parse.
    return True if any(words in reason for words in _TLS) else None

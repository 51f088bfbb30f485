"""A Kafka with TLS, logins and access rules, and the certificates for it."""

import datetime as dt
import ipaddress
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from driftline.broker.embedded import EmbeddedBroker, cluster
from driftline.broker.embedded.properties import Listener
from driftline.broker.kafka.errors import Right

PASSWORDS = {"alice": "correct-horse", "bob": "battery-staple", "carol": "paper-clip"}
HOUR = dt.timedelta(hours=1)


class Authority:
    """Signs certificates; an untrusted one is made in the same way."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self.certificate = folder / f"{name}.pem"
        built = _builder(self._name, self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate.write_bytes(built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[Path, Path]:
        """Return the files of a certificate for this name at the loopback address, and of its key (PKCS#8)."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = [x509.IPAddress(ipaddress.ip_address(cluster.HOST)), x509.DNSName("localhost")]
        built = _builder(_name(name), self._name, key).add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        certificate, private = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        certificate.write_bytes(built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return certificate, private


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - HOUR)
        .not_valid_after(now + 24 * HOUR)
    )


@dataclass(frozen=True)
class Secured:
    """Addresses of the Kafka: ``plain`` is its administrator's, ``tls`` wants a certificate, ``login`` a password."""

    plain: str
    tls: str
    login: str
    authority: Authority
    stranger: Authority

    def trusting(self, **more: str) -> dict[str, str]:
        """Return properties of a client that trusts the right authority; ``_`` stands for a dot."""
        named = {name.replace("_", "."): value for name, value in more.items()}
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.authority.certificate), **named}

    def as_user(self, user: str, password: str | None = None) -> dict[str, str]:
        """Return properties of a client that logs in."""
        login = {"sasl_mechanism": "PLAIN", "sasl_username": user, "sasl_password": password or PASSWORDS[user]}
        return self.trusting(**login) | {"security.protocol": "SASL_SSL"}

    def with_certificate(self, authority: Authority, name: str) -> dict[str, str]:
        """Return properties of a client that shows a certificate."""
        certificate, key = authority.issue(name)
        return self.trusting(ssl_certificate_location=str(certificate), ssl_key_location=str(key))

    def allow(self, user: str, rights: Iterable[Right]) -> None:
        """Let a user do this, and wait until the broker knows."""
        bindings = [_binding(user, right) for right in rights]
        if not bindings:
            return
        with AdminClient({"bootstrap.servers": self.plain}) as admin:
            for future in admin.create_acls(bindings).values():
                future.result(30)
            while not set(bindings) <= set(admin.describe_acls(_everything_of(user)).result(30)):
                time.sleep(0.05)


def _binding(user: str, right: Right) -> Any:
    kind = ResourceType.BROKER if right.kind == "cluster" else ResourceType[right.kind.upper()]
    operation = AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", right.operation).upper()]
    name = right.name or "kafka-cluster"
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    return AclBinding(kind, name, literal, f"User:{user}", "*", operation, allow)


def _everything_of(user: str) -> Any:
    any_pattern, any_operation = ResourcePatternType.ANY, AclOperation.ANY
    # None is what stands for any name and any host; the stub knows only text.
    return AclBindingFilter(
        ResourceType.ANY,
        None,  # type: ignore[arg-type]
        any_pattern,
        f"User:{user}",
        None,  # type: ignore[arg-type]
        any_operation,
        AclPermissionType.ANY,
    )


@contextmanager
def secured_kafka(folder: Path) -> Iterator[Secured]:
    """Run one: clients of the plain address may do everything, all others what `Secured.allow` says."""
    authority, stranger = Authority(folder / "tls", "authority"), Authority(folder / "tls", "stranger")
    tls, login = (cluster.choose_port() for _ in range(2))
    listeners = (Listener("TLS", tls, "SSL"), Listener("LOGIN", login, "SASL_SSL"))
    with EmbeddedBroker(
        folder / "home", prepare=False, listeners=listeners, properties=_properties(authority)
    ) as broker:
        yield Secured(broker.bootstrap_servers, f"{cluster.HOST}:{tls}", f"{cluster.HOST}:{login}", authority, stranger)


def _properties(authority: Authority) -> Mapping[str, str]:
    certificate, key = authority.issue("kafka")
    users = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": "User:ANONYMOUS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate.read_text(),
        "ssl.keystore.key": key.read_text(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.certificate.read_text(),
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        "listener.name.tls.ssl.client.auth": "required",
        "listener.name.login.ssl.client.auth": "none",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f"{module} required {users};",
    }

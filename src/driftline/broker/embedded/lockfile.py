"""The committed list of jars: coordinates, size and SHA-256 of each. Nothing else is ever put on the class path."""

import hashlib
import tomllib
from dataclasses import dataclass
from importlib import resources

KAFKA_VERSION = "4.4.0"
ROOTS = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36")
"""What is asked for; the lock file holds these and all that they need."""

LOCK_NAME = "jars.lock.toml"


@dataclass(frozen=True, slots=True)
class Jar:
    """One locked jar. ``size`` is in bytes, ``sha256`` in hex."""

    group: str
    artifact: str
    version: str
    size: int
    sha256: str

    @property
    def coordinates(self) -> str:
        """``group:artifact:version``."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        """Its name in the cache."""
        return f"{self.artifact}-{self.version}.jar"


def lock_text() -> str:
    """Return the committed lock file."""
    return resources.files(__package__).joinpath(LOCK_NAME).read_text(encoding="utf-8")


def load_lock() -> tuple[Jar, ...]:
    """Return the locked jars in class path order."""
    return tuple(Jar(**entry) for entry in tomllib.loads(lock_text())["jar"])


def lock_digest() -> str:
    """Return a short digest of the lock file: another lock never shares a cache folder with this one."""
    return hashlib.sha256(lock_text().encode()).hexdigest()[:16]

"""Images for a machine that reaches no container registry: stand-ins for what Dockerfile and compose file name.

For Python: a minimal Debian with its own Python, which trusts whom this machine trusts. For Kafka: the same Debian with
the jars and the Java runtime of the embedded broker, and what the official image has that docker-compose.yml relies on:
its user, its folders, bash, and `/etc/kafka/docker/run`, which lets the code of that image, `KafkaDockerWrapper` in the
Kafka jar, turn the environment into properties and format the storage.
"""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from driftline.broker.embedded.jars import KAFKA_VERSION, ensure_jars
from driftline.broker.embedded.java import java_home
from tests.compose.engine import Engine, check_programs, said

PYTHON = "driftline-stand-in/python:bookworm"
TRUST = "/etc/ssl/certs/ca-certificates.crt"
BUILD_S = 3600.0

_JAVA = "/opt/java/bin/java -XX:+UseSerialGC --sun-misc-unsafe-memory-access=allow --enable-native-access=ALL-UNNAMED"
_RUN = f"""#!/bin/bash
set -o noglob  # the star is Java's
java="{_JAVA} -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp /opt/kafka/libs/*"
# Storage that is there already makes the code of the image fail behind everything else; its scripts let that pass.
said=$($java kafka.docker.KafkaDockerWrapper setup --default-configs-dir /etc/kafka/docker \\
    --mounted-configs-dir /mnt/shared/config --final-configs-dir /opt/kafka/config 2>&1) \\
    || grep --quiet "already formatted" <<< "$said" || {{ echo "$said" >&2; exit 1; }}
exec $java $KAFKA_HEAP_OPTS kafka.Kafka /opt/kafka/config/server.properties
"""
_DOCKERFILE = """ARG BASE
FROM ${BASE}
COPY java /opt/java
COPY libs /opt/kafka/libs
COPY docker /etc/kafka/docker
RUN useradd --uid 1000 --create-home appuser \\
    && mkdir -p /var/lib/kafka/data /mnt/shared/config /opt/kafka/config \\
    && chown -R appuser /var/lib/kafka /opt/kafka/config /etc/kafka
USER appuser
VOLUME ["/var/lib/kafka/data"]
CMD ["/etc/kafka/docker/run"]
"""

KAFKA = f"driftline-stand-in/kafka:{KAFKA_VERSION}-{hashlib.sha256((_RUN + _DOCKERFILE).encode()).hexdigest()[:8]}"
"""Its tag changes with what it is made of, so that a kept one is never an old one."""


def make_images(engine: Engine, folder: Path) -> None:
    """Make both images, as far as the engine does not have them from last time; a Debian is kept in ``folder``."""
    if not engine.docker("images", "--quiet", PYTHON):
        _import_debian(engine, folder)
    if not engine.docker("images", "--quiet", KAFKA):
        _build_kafka(engine)


def _import_debian(engine: Engine, folder: Path) -> None:
    check_programs("debootstrap")
    root = folder / "debian"
    if not (root / "usr" / "bin" / "python3").exists():
        shutil.rmtree(root, ignore_errors=True)
        packages = "--include=ca-certificates,python3,python3-venv"
        said(["debootstrap", "--variant=minbase", packages, "bookworm", str(root)], engine.environment, BUILD_S)
    shutil.copyfile(TRUST, root / TRUST.lstrip("/"))
    trusted = f"ENV SSL_CERT_FILE={TRUST} PIP_CERT={TRUST}"
    with subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE) as packed:
        words = ["docker", "import", "--change", trusted, "-", PYTHON]
        subprocess.run(words, env=engine.environment, stdin=packed.stdout, check=True, stdout=subprocess.DEVNULL)


def _build_kafka(engine: Engine) -> None:
    with tempfile.TemporaryDirectory(prefix="driftline-kafka-") as name:
        context = Path(name)
        shutil.copytree(java_home(), context / "java")
        (context / "libs").mkdir()
        for jar in ensure_jars():
            shutil.copy(jar, context / "libs")
        scripts = context / "docker"
        scripts.mkdir()
        for defaults in ("server.properties", "log4j2.yaml", "tools-log4j2.yaml"):
            (scripts / defaults).touch()  # all of them are dropped: the compose file gives the full set
        (scripts / "run").write_text(_RUN)
        (scripts / "run").chmod(0o755)
        (context / "Dockerfile").write_text(_DOCKERFILE)
        build = ("build", "--network", "host", "--build-arg", f"BASE={PYTHON}", "--tag", KAFKA, name)
        engine.docker(*build, timeout_s=BUILD_S)

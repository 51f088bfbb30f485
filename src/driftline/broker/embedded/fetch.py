"""The one function that downloads: one jar, through jgo, into a folder of the caller's."""

from pathlib import Path

from driftline.broker.embedded.lockfile import Jar
from driftline.errors import EmbeddedBrokerError

_TIMEOUT_S = 30
"""Of one silent connection; a slow one that keeps sending may take longer."""


def fetch_jar(jar: Jar, folder: Path) -> Path:
    """Download ``jar`` somewhere under ``folder`` and return its path. Its content is not checked here.

    Repositories and mirrors are jgo's: its own default, and what its settings file adds or replaces.

    Raises:
        EmbeddedBrokerError: jgo is not installed, or no repository gave the jar.
    """
    try:
        from jgo.config import GlobalSettings  # noqa: PLC0415 - half a second, and an optional dependency
        from jgo.constants import MAVEN_CENTRAL_URL  # noqa: PLC0415
        from jgo.maven import MavenContext  # noqa: PLC0415
    except ImportError as error:
        raise EmbeddedBrokerError(
            f"the embedded broker needs the Python package {error.name!r}: pip install 'driftline[embedded]'."
        ) from error
    repositories = {"central": MAVEN_CENTRAL_URL, **GlobalSettings.load().repositories}
    context = MavenContext(repo_cache=folder, local_repos=[], remote_repos=repositories, timeout=_TIMEOUT_S)
    try:
        return Path(context.create_dependency(jar.coordinates).artifact.resolve())
    # requests, urllib3 and jgo (a bare RuntimeError) each have errors of their own, and all mean the same here.
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise EmbeddedBrokerError(f"{jar.coordinates} could not be downloaded ({reason}).") from error

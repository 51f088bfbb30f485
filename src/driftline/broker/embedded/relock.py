"""For developers, ``python -m driftline.broker.embedded.relock``: resolve the roots again and print a lock file."""

import hashlib
import sys
import tempfile
from pathlib import Path

from driftline.broker.embedded.jars import ROOTS, Jar

_HEADER = "# Made by `python -m driftline.broker.embedded.relock`. One entry a jar, in class path order.\n"


def resolve(folder: Path) -> list[Jar]:
    """Resolve the roots and all that they need, downloading into ``folder``."""
    from jgo.maven import MavenContext  # noqa: PLC0415 - half a second, and an optional dependency

    context = MavenContext(repo_cache=folder)
    roots, rest = context.resolver.resolve([context.create_dependency(root) for root in ROOTS])
    jars = []
    for dependency in [*roots, *sorted(rest, key=str)]:
        content = dependency.artifact.resolve().read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        jars.append(Jar(dependency.groupId, dependency.artifactId, dependency.version, len(content), digest))
    return jars


def render(jars: list[Jar]) -> str:
    """Return the text of the lock file."""
    entries = (
        f'\n[[jar]]\ngroup = "{jar.group}"\nartifact = "{jar.artifact}"\nversion = "{jar.version}"\n'
        f'size = {jar.size}\nsha256 = "{jar.sha256}"\n'
        for jar in jars
    )
    return _HEADER + "".join(entries)


def main() -> None:
    """Print a new lock file."""
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(render(resolve(Path(folder))))


if __name__ == "__main__":
    main()

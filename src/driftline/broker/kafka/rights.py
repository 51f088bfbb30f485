"""A right that Kafka's access rules (ACLs) give or do not give, and the command that gives it."""

import shlex
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Right:
    """An operation on a resource.

    Attributes:
        operation: as Kafka names it: ``Read``, ``Write``, ``Describe``, ``Create`` …
        kind: ``topic``, ``group`` or ``cluster``.
        name: of the topic or group; empty for the cluster.
    """

    operation: str
    kind: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.operation} on {'the cluster' if self.kind == 'cluster' else f'{self.kind} {self.name}'}"

    def command(self, principal: str, bootstrap_servers: str) -> str:
        """Return the command by which an administrator gives it."""
        where = ["--cluster"] if self.kind == "cluster" else [f"--{self.kind}", self.name]
        words = ["kafka-acls.sh", "--bootstrap-server", bootstrap_servers, "--add", "--allow-principal", principal]
        return shlex.join([*words, "--operation", self.operation, *where])

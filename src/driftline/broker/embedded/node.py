"""One node of a broker: its folder, its data, and the start and end of its process."""

import itertools
import json
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from driftline.broker.embedded import boot, process
from driftline.broker.embedded.cluster import HOST, Cluster, NodeAddress
from driftline.broker.embedded.files import Layout, make_dir, write_atomically
from driftline.broker.embedded.java import BROKER_MAIN, FORMAT_MAIN, java_command, java_environment
from driftline.broker.embedded.probe import ask_metadata
from driftline.broker.embedded.process import Launch, identity, load_launch, save_launch
from driftline.broker.embedded.properties import DATA_DIR, Listener, node_properties, render
from driftline.errors import EmbeddedBrokerError

_BOOT_TIMEOUT_S = 20.0
_FORMAT_TIMEOUT_S = 120.0
_PROBE_TIMEOUT_S = 2.0
_POLL_S = 0.05
_KILL_WAIT_S = 10.0
_LOG_LINES = 15
_FIRST_LINES = 50
_PROPERTIES = "server.properties"


class Node:
    """A node of ``cluster``, running or not."""

    def __init__(self, layout: Layout, cluster: Cluster, address: NodeAddress) -> None:
        self.layout, self.cluster, self.address = layout, cluster, address
        self.folder = layout.node_dir(address.node_id)
        self.log = self.folder / "broker.log"
        self.data = self.folder / DATA_DIR
        self._id_file = self.folder / "process.json"

    @property
    def title(self) -> str:
        """Its name in messages."""
        return "the broker" if len(self.cluster.nodes) == 1 else f"node {self.address.node_id} of the broker"

    def running(self) -> Launch | None:
        """Return the launch whose process runs, None if there is none.

        A copied home has a copy of this file, and the process that it names belongs to the original home.
        """
        launch = load_launch(self._id_file)
        if launch is None or launch.folder not in ("", identity(self.folder)):
            return None
        return launch if process.is_running(launch) else None

    def died(self) -> bool:
        """Whether the last launch ended without a stop: it was killed or crashed, or the machine went down."""
        return self._id_file.exists() and self.running() is None

    def condition(self) -> str:
        """Return ``ready`` (it answers and takes part), ``starting``, ``died`` or ``stopped``."""
        if self.running():
            return "ready" if self.is_ready({self.address.node_id}) else "starting"
        return "died" if self.died() else "stopped"

    def is_ready(self, nodes: Collection[int]) -> bool:
        """Whether the node answers a metadata request and knows these nodes and a controller."""
        seen = ask_metadata(HOST, self.address.broker_port, _PROBE_TIMEOUT_S)
        return seen is not None and seen.nodes >= set(nodes) and seen.controller_id >= 0

    def prepare(
        self,
        class_path: Sequence[Path],
        options: Sequence[str],
        extra: Mapping[str, str] | None = None,
        listeners: Sequence[Listener] = (),
    ) -> None:
        """Write the properties; format the data directory unless that was done before."""
        make_dir(self.folder, "the broker's state")
        properties = node_properties(self.address, self.cluster.nodes, extra, listeners)
        write_atomically(self.folder / _PROPERTIES, render(properties))
        if not (self.data / "meta.properties").exists():
            self._format(class_path, options)

    def _format(self, class_path: Sequence[Path], options: Sequence[str]) -> None:
        done = self._run_format(class_path, options)
        if done.returncode and options:
            # A damaged AOT cache crashes any JVM that uses it.
            done = self._run_format(class_path, [])
        if done.returncode:
            output = (done.stdout + done.stderr).decode(errors="replace").strip()
            raise EmbeddedBrokerError(f"Kafka could not format {self.data} (exit {done.returncode}):\n{output}")

    def _run_format(self, class_path: Sequence[Path], options: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
        arguments = ["format", "--ignore-formatted", "-t", self.cluster.cluster_id, "-c", _PROPERTIES]
        # The format tool runs for a second, too short for the optimizing compiler to pay.
        command = java_command(FORMAT_MAIN, arguments, class_path, [*options, "-XX:TieredStopAtLevel=1"])
        try:
            return subprocess.run(  # noqa: S603 - our own command line
                command,
                cwd=self.folder,
                env=java_environment(),
                capture_output=True,
                timeout=_FORMAT_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise EmbeddedBrokerError(
                f"formatting {self.data} took over {_FORMAT_TIMEOUT_S:.0f} s. Delete that folder and try again."
            ) from error

    def launch(self, class_path: Sequence[Path], options: Sequence[str], *, aot: bool) -> Launch:
        """Start the JVM, detached from this process and with a watchdog beside it; does not wait until it is ready."""
        self._keep_last_log()
        token, folder = secrets.token_hex(16), identity(self.folder)
        jvm_options = [f"-Ddriftline.launch={token}", *options]
        spec = {
            "folder": str(self.folder),
            "identity": folder,
            "log": str(self.log),
            "id_file": str(self._id_file),
            "users_lock": str(self.layout.users_lock),
            "ending_lock": str(self.layout.ending_lock),
            "keep_file": str(self.layout.keep_file),
            "token": token,
            "aot": aot,
            "command": java_command(BROKER_MAIN, [_PROPERTIES], class_path, jvm_options),
        }
        # -I and -S: no site packages, no environment, a start of about 15 ms. The token identifies the process from
        # its first moment on.
        command = [sys.executable, "-I", "-S", boot.__file__, token]
        try:
            done = subprocess.run(  # noqa: S603 - our own script
                command,
                env=java_environment(),
                input=json.dumps(spec).encode(),
                capture_output=True,
                timeout=_BOOT_TIMEOUT_S,
                check=True,
            )
            return Launch(int(done.stdout), token, aot, folder)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            detail = getattr(error, "stderr", None) or b""
            raise EmbeddedBrokerError(
                f"{self.title} could not be started: {error}\n{detail.decode(errors='replace')}".rstrip()
            ) from error

    def _keep_last_log(self) -> None:
        if self.log.exists():
            shutil.copyfile(self.log, self.log.with_name(f"{self.log.name}.1"))
            self.log.write_bytes(b"")

    def refused_cache(self) -> bool:
        """Whether the JVM logged that it cannot use its AOT cache; it then runs without it."""
        try:
            with self.log.open(encoding="utf-8", errors="replace") as lines:
                return any("[aot" in line and "[error" in line for line in itertools.islice(lines, _FIRST_LINES))
        except OSError:
            return False

    def note_without_cache(self, launch: Launch) -> None:
        """Record that the process of ``launch`` runs without an AOT cache."""
        save_launch(self._id_file, replace(launch, aot=False))

    def ask_to_end(self) -> None:
        """Send SIGTERM to the node's process, if it runs."""
        if launch := self.running():
            process.send(launch, signal.SIGTERM)

    def forget(self) -> None:
        """Record that the node was stopped, so that it does not count as died."""
        self._id_file.unlink(missing_ok=True)

    def kill(self) -> bool:
        """Send SIGKILL to the node's process and keep its files as they are, as a crash would; False if it did not run.

        Raises:
            EmbeddedBrokerError: it did not end.
        """
        launch = self.running()
        if launch is None:
            return False
        process.send(launch, signal.SIGKILL)
        if not _gone(launch, _KILL_WAIT_S):
            raise EmbeddedBrokerError(
                f"process {launch.pid} of {self.title} did not end within {_KILL_WAIT_S:.0f} s of SIGKILL: it hangs in "
                "the kernel, most likely on the disk. Check the disk, then try again."
            )
        return True

    def log_tail(self) -> str:
        """Return the last lines of the log, for the end of an error message."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
        except OSError:
            lines = []
        return f" Its log, {self.log}, ends:\n" + "\n".join(lines) if lines else f" Its log, {self.log}, is empty."


def _gone(launch: Launch, timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while process.is_running(launch):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(_POLL_S)
    return True

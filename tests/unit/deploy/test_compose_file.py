"""docker-compose.yml, without an engine: valid, complete, closed to the outside, and true to the command line."""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from driftline.broker.embedded.cluster import NodeAddress
from driftline.broker.embedded.jars import KAFKA_VERSION
from driftline.broker.embedded.properties import node_properties
from driftline.cli import COMMANDS, main
from driftline.cli.stopping import STOP_WITHIN_S
from tests.compose.description import FILE, OURS, described, interpolated, role_command
from tests.support import ROOT
from tests.unit.docs.test_pages import complaint

SCHEMA = json.loads((ROOT / "tests" / "compose" / "compose-spec.json").read_text())
COMPOSE = described()
SERVICES: dict[str, Any] = COMPOSE["services"]
OUR_SERVICES = sorted(name for name, one in SERVICES.items() if OURS.fullmatch(one["image"]))
MEMBERS = ("server", "worker", "evaluator")
PROFILES = {"metrics": {"prometheus", "grafana"}, "ui": {"kafka-ui"}, "tools": {"driftline"}}
KAFKA: dict[str, str] = SERVICES["kafka"]["environment"]


def violations(compose: dict[str, Any]) -> list[str]:
    """Say what the compose specification does not allow."""
    checker = jsonschema.Draft7Validator(SCHEMA)
    return [f"{error.json_path}: {error.message}" for error in checker.iter_errors(compose)]


def test_the_file_keeps_the_compose_specification() -> None:
    """The specification's own schema, which Compose checks a file with as well."""
    assert violations(COMPOSE) == []


@pytest.mark.parametrize(
    ("service", "key", "value"),
    [("kafka", "enviroment", {}), ("worker", "shm_size", []), ("server", "deploy", {"replicas": []})],
)
def test_a_violation_would_be_found(service: str, key: str, value: object) -> None:
    """The check above can fail."""
    changed = deepcopy(COMPOSE)
    changed["services"][service][key] = value
    assert violations(changed) != []


def test_variables_are_put_in_as_compose_does_it() -> None:
    """The checks here see what Compose sees."""
    assert interpolated("${A:-x} ${B:-y} ${C} $$(id)", {"A": "1", "B": ""}) == "1 y  $(id)"
    assert "$" not in re.sub(r"\$[^{]", "", FILE.read_text().replace("${", "")), "a form that is not understood here"


@pytest.mark.parametrize("service", OUR_SERVICES)
def test_every_command_in_it_is_real(service: str) -> None:
    """Parsed by the command line itself, then not run."""
    words = role_command(SERVICES[service])
    assert words[0] in COMMANDS
    assert complaint(words) is None


def real_variables() -> Iterator[str]:
    """Yield the environment variables that the command line reads."""
    pending: list[click.Command] = [main, *(main.get_command(click.Context(main), name) or main for name in COMMANDS)]
    for command in pending:
        for parameter in command.params:
            variables = parameter.envvar or ()
            yield from (variables,) if isinstance(variables, str) else variables


@pytest.mark.parametrize("service", OUR_SERVICES)
def test_every_setting_in_it_is_real(service: str) -> None:
    """A variable that is not read would be a promise that is not kept."""
    assert set(SERVICES[service]["environment"]) <= set(real_variables())


def mounted(service: str, target: str) -> Path:
    """Return the file or folder of this checkout that a container sees as ``target``."""
    [source] = [line.split(":")[0] for line in SERVICES[service]["volumes"] if line.split(":")[1] == target]
    return ROOT / str(source)


def test_the_settings_of_the_run_are_right_and_its_workers_enough() -> None:
    """Version 1 waits for the run's workers; fewer containers would wait for ever."""
    file = mounted("worker", "/work/driftline.toml")
    environment = {name: value for name, value in SERVICES["worker"]["environment"].items() if value is not None}
    done = CliRunner(env=environment).invoke(main, ["config", "--config", str(file), "--json"])
    assert done.exit_code == 0, done.output
    settings = json.loads(done.stdout.splitlines()[-1])["settings"]
    said = {line["setting"]: line["value"] for line in settings}
    assert said["kafka.bootstrap_servers"] == "kafka:19092"
    assert (said["run.name"], said["task.name"]) == ("digits", "digits")
    assert int(said["run.workers"]) <= SERVICES["worker"]["deploy"]["replicas"]
    assert SERVICES["server"]["deploy"]["replicas"] == 2


@pytest.mark.parametrize("service", OUR_SERVICES)
def test_all_containers_see_the_same_settings(service: str) -> None:
    """One run, one description."""
    assert mounted(service, "/work/driftline.toml") == mounted("worker", "/work/driftline.toml")
    assert SERVICES[service]["environment"] == SERVICES["worker"]["environment"]


@pytest.mark.parametrize("service", MEMBERS)
def test_a_role_gets_a_signal_and_the_time_to_stop(service: str) -> None:
    """SIGTERM reaches the process behind an init process, and no process is killed before it has given up itself."""
    grace_s = re.fullmatch(r"(\d+)s", SERVICES[service]["stop_grace_period"])
    assert grace_s is not None
    assert int(grace_s[1]) > STOP_WITHIN_S
    assert SERVICES[service]["init"] is True
    assert isinstance(SERVICES[service]["entrypoint"], list)


@pytest.mark.parametrize("service", ["worker", "evaluator"])
def test_who_may_use_a_data_loader_has_more_shared_memory_than_a_container_has_by_default(service: str) -> None:
    """64 MB end a DataLoader with several processes in a bus error."""
    assert SERVICES[service]["shm_size"] == "1gb"


def test_what_only_some_want_is_in_a_profile() -> None:
    """Nothing else starts without being asked for."""
    profiles = {name: one.get("profiles", []) for name, one in SERVICES.items()}
    assert {name for name, named in profiles.items() if not named} == {"kafka", "create-run", *MEMBERS}
    assert {profile: {name for name, named in profiles.items() if profile in named} for profile in PROFILES} == PROFILES


def test_prometheus_asks_every_member_at_its_port() -> None:
    """By the names of the services, so scaled ones are found as well."""
    [job] = yaml.safe_load(mounted("prometheus", "/etc/prometheus/prometheus.yml").read_text())["scrape_configs"]
    [found] = job["dns_sd_configs"]
    assert (found["type"], set(found["names"])) == ("A", set(MEMBERS))
    for service in MEMBERS:
        assert SERVICES[service]["environment"]["DRIFTLINE_METRICS"] == f"0.0.0.0:{found['port']}"


def test_every_file_that_a_container_is_given_is_there() -> None:
    """Docker makes an empty folder of a file that is missing, and says nothing."""
    lines = [line for service in SERVICES.values() for line in service.get("volumes", [])]
    folders = {line.split(":")[0] for line in lines if line.startswith(".")}
    assert "./deploy/prometheus.yml" in folders
    assert {folder for folder in folders if not (ROOT / folder).exists()} == set()
    volumes = {line.split(":")[0] for line in lines if not line.startswith(".")}
    assert volumes == set(COMPOSE["volumes"])


DOCKER = re.findall(r"^\$ (?:\w+=\S+ )*docker compose (.+)$", (ROOT / "docs" / "compose.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("line", DOCKER)
def test_services_and_profiles_that_the_page_names_are_real(line: str) -> None:
    """Each line as a reader types it; what the command line of ours is told is read by it."""
    assert set(re.findall(r"--profile (\w+)", line)) <= set(PROFILES)
    assert set(re.findall(r"--scale (\w+)=", line)) <= set(SERVICES)
    if run := re.fullmatch(r"run --rm (\w+) (.*)", line):
        assert role_command({**SERVICES[run[1]], "command": run[2].split()}) == run[2].split()
        assert complaint(run[2].split()) is None
    else:
        words = [word for word in re.sub(r"--(profile|scale) \S+", "", line).split() if not word.startswith("--")]
        assert words[0] in {"up", "down", "stop", "logs"}
        assert set(words[1:]) <= set(SERVICES)


def test_every_port_is_open_to_this_machine_only() -> None:
    """Kafka, its page, Prometheus and Grafana ask for no password here."""
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert [port for port in ports if not re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)] == []


def test_images_of_others_are_of_one_version() -> None:
    """What was tried is what is started."""
    others = {service["image"] for service in SERVICES.values() if not OURS.fullmatch(service["image"])}
    assert f"apache/kafka:{KAFKA_VERSION}" in others
    assert [image for image in others if not re.search(r":v?\d+\.\d+\.\d+$", image)] == []


def listeners(text: str) -> dict[str, tuple[str, int]]:
    """Split Kafka's list of listeners: name → host and port."""
    found = re.findall(r"(\w+)://([\w.]*):(\d+)", text)
    return {name: (host, int(port)) for name, host, port in found}


def test_containers_and_this_machine_each_have_a_listener_that_leads_back_to_it() -> None:
    """Kafka tells every client where to go on; a wrong address there works from one side only."""
    listening, advertised = listeners(KAFKA["KAFKA_LISTENERS"]), listeners(KAFKA["KAFKA_ADVERTISED_LISTENERS"])
    protocols = dict(pair.split(":") for pair in KAFKA["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
    assert advertised == {"INTERNAL": ("kafka", 19092), "HOST": ("localhost", 9092)}
    assert set(listening) == {*advertised, KAFKA["KAFKA_CONTROLLER_LISTENER_NAMES"]} == set(protocols)
    assert {name: port for name, (_, port) in listening.items() if name in advertised} == {
        name: port for name, (_, port) in advertised.items()
    }
    assert all(listening[name][0] == "" for name in advertised), "open inside the container, on every interface"
    assert SERVICES["kafka"]["ports"] == ["127.0.0.1:9092:9092"]
    assert KAFKA["KAFKA_INTER_BROKER_LISTENER_NAME"] == "INTERNAL"
    assert SERVICES["worker"]["environment"]["DRIFTLINE_BOOTSTRAP_SERVERS"] == "kafka:19092"


def test_the_host_listener_follows_the_port() -> None:
    """Another port on this machine is also what Kafka tells its clients there."""
    kafka = described({"KAFKA_PORT": "29092"})["services"]["kafka"]
    assert kafka["ports"] == ["127.0.0.1:29092:9092"]
    assert listeners(kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"])["HOST"] == ("localhost", 29092)


LEFT_TO_KAFKA = {
    "broker.session.timeout.ms": "how soon a killed node may come back: this one is not killed",
    "broker.heartbeat.interval.ms": "ditto",
    "log.cleaner.dedupe.buffer.size": "saves memory on a laptop",
    "num.network.threads": "ditto",
    "num.io.threads": "ditto",
}
TESTS_ONLY = re.compile(
    r"log\.(initial\.task|retention\.check|segment\.delete|cleaner\.backoff)\..*"
    r"|group\..*(timeout|assignment).*|.*heartbeat.*"
)
"""What makes tests on the embedded Kafka quick."""


def property_name(variable: str) -> str:
    """Return Kafka's name of a property, as its image makes it of an environment variable."""
    return variable.removeprefix("KAFKA_").lower().replace("_", ".")


def test_kafka_gets_every_property_that_it_needs() -> None:
    """The image drops its own defaults as soon as one is given, so all that the embedded Kafka is told is said here."""
    told = {property_name(name): value for name, value in KAFKA.items() if name.startswith("KAFKA_")}
    wanted = node_properties(NodeAddress(1, 9092, 9093), [NodeAddress(1, 9092, 9093)])
    wanted = {name: value for name, value in wanted.items() if not TESTS_ONLY.fullmatch(name)}
    assert wanted.keys() - LEFT_TO_KAFKA.keys() - told.keys() == set()
    own = {name for name in wanted if "listener" in name or name in {"log.dirs", "controller.quorum.voters"}}
    same = told.keys() & wanted.keys() - own
    assert {name: told[name] for name in same} == {name: wanted[name] for name in same}
    assert re.fullmatch(r"[\w-]{22}", KAFKA["CLUSTER_ID"]), "Kafka's form of a UUID"


def test_roles_wait_until_the_run_is_made_and_that_until_kafka_answers() -> None:
    """The topics are there and the settings are right before a member joins; healthy means that Kafka answers."""
    for service in MEMBERS:
        assert SERVICES[service]["depends_on"] == {"create-run": {"condition": "service_completed_successfully"}}
    assert SERVICES["create-run"]["depends_on"] == {"kafka": {"condition": "service_healthy"}}
    assert role_command(SERVICES["create-run"]) == ["runs", "create"]
    assert SERVICES["create-run"]["restart"] == "no"
    assert SERVICES["kafka"]["healthcheck"]["test"][0] == "CMD"

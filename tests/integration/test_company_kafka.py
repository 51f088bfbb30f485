"""A Kafka with TLS, logins and access rules: a run works with the rights that the docs list, and names what is missing.

Every refusal must come well before `PATIENCE_S`, after which librdkafka's own time-outs would have spoken anyway.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from driftline.broker.embedded.cluster import HOST
from driftline.broker.kafka import KafkaBroker, KafkaSettings
from driftline.broker.kafka.errors import Right
from driftline.broker.topics import Stream, run_topics, topic_name
from driftline.errors import BrokerError
from driftline.ledger.entering.reading import read_ledger
from driftline.observe.doctor.examine import examine
from driftline.observe.doctor.findings import OK, PROBLEM, findings, missing_rights
from driftline.observe.doctor.rights import rights_of
from tests.contract.test_runs import sgd_offer
from tests.integration.secured import PASSWORDS, Secured, secured_kafka
from tests.support.roles_in_threads import Ends

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

PATIENCE_S = 30.0
Properties = Callable[[Secured], tuple[str, dict[str, str]]]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One Kafka for all of this module."""
    with secured_kafka(tmp_path_factory.mktemp("secured")) as kafka:
        yield kafka


# -- connections -----------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Properties, str]] = {
    "plain on a TLS port": (lambda kafka: (kafka.tls, {}), "TLS expected"),
    "plain on a login port": (lambda kafka: (kafka.login, {}), "TLS expected"),
    "TLS on a plain port": (lambda kafka: (kafka.plain, kafka.trusting()), "does not speak TLS"),
    "TLS without login": (lambda kafka: (kafka.login, kafka.trusting()), "want a login"),
    "login on a plain port": (
        lambda kafka: (kafka.plain, kafka.as_user("alice") | {"security.protocol": "SASL_PLAINTEXT"}),
        "takes no login; set security.protocol=PLAINTEXT",
    ),
    "wrong authority": (
        lambda kafka: (
            kafka.login,
            kafka.as_user("alice") | {"ssl.ca.location": str(kafka.stranger.certificate)},
        ),
        "is not signed by the authority in ssl.ca.location=",
    ),
    "no certificate": (lambda kafka: (kafka.tls, kafka.trusting()), "wants a client certificate"),
    "refused certificate": (
        lambda kafka: (kafka.tls, kafka.with_certificate(kafka.stranger, "mallory")),
        "refuses this client's certificate",
    ),
    "wrong password": (lambda kafka: (kafka.login, kafka.as_user("alice", "hunter2")), "check sasl.username (alice)"),
    "wrong mechanism": (
        lambda kafka: (kafka.login, kafka.as_user("alice") | {"sasl.mechanism": "SCRAM-SHA-256"}),
        "set sasl.mechanism to one that the broker accepts: PLAIN",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_connection_is_named_within_seconds(secured: Secured, case: str) -> None:
    """With the property to change, and without any password."""
    make, expected = REFUSED[case]
    address, properties = make(secured)
    began_s = time.monotonic()
    with pytest.raises(BrokerError) as refused:
        KafkaBroker(KafkaSettings(address, properties)).check(PATIENCE_S)
    assert time.monotonic() - began_s < PATIENCE_S / 2
    assert expected in str(refused.value)
    assert not any(secret in str(refused.value) for secret in ("hunter2", *PASSWORDS.values()))


def test_a_certificate_that_the_broker_knows_is_let_in(secured: Secured) -> None:
    """Its name is the user's."""
    properties = secured.with_certificate(secured.authority, "carol")
    KafkaBroker(KafkaSettings(secured.tls, properties)).check(PATIENCE_S)


# -- rights ----------------------------------------------------------------------------------------------------------

SERVER, WORKER = "alice", "bob"
STEPS = 6


def broker_of(secured: Secured, user: str) -> KafkaBroker:
    """Kafka as this user sees it."""
    return KafkaBroker(KafkaSettings(secured.login, secured.as_user(user)))


def make_topics(secured: Secured, run: str) -> None:
    """What an administrator does beforehand."""
    admin = KafkaBroker(KafkaSettings(secured.plain)).admin()
    admin.create(run_topics(run, 4))
    admin.close()


def try_run(secured: Secured, run: str) -> Ends:
    """Run a server as one user and a worker as another until both have ended, or one cannot get on."""
    ends, offer = Ends(), sgd_offer(run, 1, steps=STEPS)
    # Past checkpoints, with old deltas deleted behind them: a server must also write snapshots and delete records.
    offer = replace(offer, config=replace(offer.config, snapshot_every=2, retain="checkpoint"))
    ends.play(broker_of(secured, SERVER), broker_of(secured, WORKER), offer)
    ends.wait(PATIENCE_S)
    ends.stop.set()
    return ends


def test_a_run_works_with_the_rights_that_are_listed(secured: Secured) -> None:
    """Servers and workers have no more than `rights_of` says; the topics were made by an administrator."""
    run = "righteous"
    make_topics(secured, run)
    secured.allow(SERVER, rights_of("server", run))
    secured.allow(WORKER, rights_of("worker", run))
    ends = try_run(secured, run)
    assert not ends.errors
    assert {finish.reason for finish in ends.finishes.values()} == {f"reached version {STEPS}"}
    assert set(ends.finishes) == {"server", "worker"}
    everything = KafkaBroker(KafkaSettings(secured.plain))
    assert read_ledger(everything, run).checkpoint is not None
    with closing(everything.admin()) as admin:
        assert any(bounds.begin > 0 for bounds in admin.bounds(topic_name(run, Stream.DELTAS)).values())


MISSING = [
    (user, role, right)
    for user, role in ((SERVER, "server"), (WORKER, "worker"))
    for right in rights_of(role, "RUN")
    if right.operation != "Delete"  # without it old deltas stay: a warning, and a metric
]


@pytest.mark.parametrize(("user", "role", "right"), MISSING, ids=[f"{role}: {right}" for _, role, right in MISSING])
def test_each_missing_right_is_named_within_seconds(secured: Secured, user: str, role: str, right: Right) -> None:
    """Whose, to do what, with what; whichever of the two processes cannot get on without it."""
    run = f"without-{MISSING.index((user, role, right))}"
    missing = replace(right, name=right.name.replace("RUN", run))
    make_topics(secured, run)
    for one, of in ((SERVER, "server"), (WORKER, "worker")):
        secured.allow(one, [given for given in rights_of(of, run) if (one, given) != (user, missing)])
    began_s = time.monotonic()
    ends = try_run(secured, run)
    took_s = time.monotonic() - began_s
    assert role in ends.errors, f"{ends} after {took_s:.0f} s"
    said = str(ends.errors[role])
    # Without any right on a topic, a client must not even know of it.
    wanted = {missing, replace(missing, operation="Describe")}
    assert any(f"User:{user} has no right to {one} (" in said for one in wanted)
    assert any(one.command(f"User:{user}", secured.login) in said for one in wanted)
    assert took_s < PATIENCE_S


# -- doctor ----------------------------------------------------------------------------------------------------------


def test_the_doctor_says_what_this_client_may_be(secured: Secured) -> None:
    """Through the login, with the rights of a worker: other roles lack what is listed for them."""
    run = "examined"
    make_topics(secured, run)
    secured.allow("carol", rights_of("worker", run))
    facts = examine(KafkaSettings(secured.login, secured.as_user("carol")), run, 4, timeout_s=PATIENCE_S)
    assert [(one.host, one.port) for one in facts.addresses] == [(HOST, int(secured.login.rpartition(":")[2]))]
    assert not facts.unreachable
    assert missing_rights(facts, "worker") == []
    assert Right("Write", "topic", f"driftline.{run}.ledger") in missing_rights(facts, "server")
    assert Right("Read", "group", f"{run}.servers") in missing_rights(facts, "server")
    assert facts.settings is None
    assert "User:carol has no right to DescribeConfigs on the cluster" in facts.settings_problem
    assert facts.clock_ahead_s is None
    assert "a topic, which this client may not make" in facts.clock_problem
    assert not [one for one in findings(facts) if one.level == PROBLEM]


def test_the_doctor_finds_an_administrator_well(secured: Secured) -> None:
    """Who may do everything sees limits and clocks, and topics that could be made; nothing is left behind."""
    settings = KafkaSettings(secured.plain)
    facts = examine(settings, "unborn", 4, timeout_s=PATIENCE_S)
    assert facts.settings is not None
    assert {one.level for one in findings(facts)} == {OK}
    assert {one.subject for one in findings(facts)} >= {"limits", "groups", "clock", "topics", "rights"}
    admin = KafkaBroker(settings).admin()
    assert not [name for name in admin.topics() if "doctor" in name or "unborn" in name]
    admin.close()

"""Clients answer in time, end in time, and work only in the process that made them."""

import os
import time
from collections.abc import Callable

import pytest

from driftline.broker.port import Start, TopicSpec
from driftline.errors import BrokerError, BrokerUnreachable, DeliveryFailed
from tests.contract.support import DEADLINE_S, Lab, write


def test_check_succeeds_when_the_broker_answers(lab: Lab) -> None:
    lab.broker.check(DEADLINE_S)


@pytest.mark.parametrize(
    "ask",
    [
        lambda broker: broker.check(0.3),
        lambda broker: broker.admin().topics(),
        lambda broker: broker.admin().create([TopicSpec("t", 1)]),
        lambda broker: broker.admin().delete(["t"]),
        lambda broker: broker.admin().bounds("t"),
        lambda broker: broker.admin().trim("t", {0: 1}),
        lambda broker: broker.reader().read("t", 0, Start.END),
    ],
    ids=["check", "topics", "create", "delete", "bounds", "trim", "read"],
)
def test_a_broker_that_does_not_answer_is_reported_within_the_deadline(
    lab: Lab, ask: Callable[[object], object]
) -> None:
    broker = lab.away()
    begin_s = time.monotonic()
    with pytest.raises(
        BrokerUnreachable, match=r"the in-memory broker does not answer|127\.0\.0\.1:1.*driftline broker start"
    ):
        ask(broker)
    assert time.monotonic() - begin_s < DEADLINE_S


def test_records_for_a_broker_that_is_away_fail_after_the_delivery_time_out(lab: Lab) -> None:
    producer = lab.away().producer()
    errors: list[BrokerError | None] = []
    producer.send("t", 0, b"x", on_delivery=errors.append)
    assert producer.flush(0.1) == 1
    deadline_s = time.monotonic() + DEADLINE_S
    while not errors and time.monotonic() < deadline_s:
        producer.flush(0.2)
    assert isinstance(errors[0], DeliveryFailed)
    assert errors[0].retriable
    assert producer.close() == 0


def test_readers_of_a_broker_that_is_away_raise_nothing(lab: Lab) -> None:
    reader = lab.away().reader()
    group_reader = lab.away().group_reader("t", "g", "a", Start.END)
    assert reader.poll(0.3) is None
    assert group_reader.poll(0.3) is None
    begin_s = time.monotonic()
    reader.close()
    group_reader.close()
    assert time.monotonic() - begin_s < DEADLINE_S


def test_closing_a_producer_counts_and_reports_what_was_not_delivered(lab: Lab) -> None:
    producer = lab.away().producer()
    errors: list[BrokerError | None] = []
    for _ in range(3):
        producer.send("t", 0, b"x", on_delivery=errors.append)
    assert producer.close(0.1) == 3
    assert [type(error) for error in errors] == [DeliveryFailed] * 3
    assert producer.close() == 0


def test_closing_a_producer_delivers_its_queued_records(lab: Lab) -> None:
    topic, producer = lab.topic(), lab.broker.producer()
    for _ in range(50):
        producer.send(topic, 0, b"x")
    assert producer.close(DEADLINE_S) == 0
    assert lab.admin().bounds(topic)[0].end == 50


def test_every_client_can_be_closed_twice_and_then_refuses_to_work(lab: Lab) -> None:
    topic = lab.topic()
    producer, reader, admin = lab.broker.producer(), lab.broker.reader(), lab.admin()
    group_reader = lab.broker.group_reader(topic, lab.unique("group"), "a", Start.END)
    for client in (producer, reader, group_reader, admin):
        client.close()
        client.close()
    with pytest.raises(BrokerError, match="producer is closed"):
        producer.send(topic, 0, b"x")
    with pytest.raises(BrokerError, match="reader is closed"):
        reader.poll(0)
    with pytest.raises(BrokerError, match="group reader is closed"):
        group_reader.poll(0)
    with pytest.raises(BrokerError, match="admin client is closed"):
        admin.topics()


def test_a_client_in_a_forked_process_says_to_make_a_new_one(lab: Lab) -> None:
    topic, producer, reader, admin = lab.topic(), lab.producer(), lab.reader(), lab.admin()
    group_reader = lab.keep(lab.broker.group_reader(topic, lab.unique("group"), "a", Start.END))
    uses: list[Callable[[], object]] = [
        lambda: producer.send(topic, 0, b"x"),
        lambda: producer.flush(1),
        lambda: reader.read(topic, 0, Start.END),
        lambda: reader.poll(1),
        lambda: group_reader.poll(1),
        admin.topics,
    ]
    assert _in_child(lambda: all(_refused(use) for use in uses))
    # Closing in the child is harmless: it neither hangs nor takes the connection from the parent.
    closes: list[Callable[[], object]] = [producer.close, reader.close, group_reader.close, admin.close]
    assert _in_child(lambda: len([close() for close in closes]) == len(closes))
    write(producer, topic, 0, b"the parent goes on")


def _refused(use: Callable[[], object]) -> bool:
    try:
        use()
    except BrokerError as error:
        return f"made in process {os.getppid()}" in str(error)
    return False


def _in_child(check: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        # Nothing may return into pytest here; an exception counts as "no".
        passed = False
        try:
            passed = check()
        finally:
            os._exit(0 if passed else 1)
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False

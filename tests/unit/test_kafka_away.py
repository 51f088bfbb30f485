"""What Kafka answers while it is away is no reason to end: whoever hears it waits and asks again."""

import pytest
from confluent_kafka import KafkaError

from driftline.broker.kafka import KafkaSettings
from driftline.broker.kafka.errors import translated, undelivered
from driftline.errors import BrokerUnreachable, DeliveryFailed


@pytest.mark.parametrize("name", ["_PARTIAL", "_TRANSPORT", "_TIMED_OUT", "LEADER_NOT_AVAILABLE", "NOT_COORDINATOR"])
def test_an_answer_that_will_be_another_one_soon_is_told_from_a_refusal(name: str) -> None:
    """``_PARTIAL`` is what a starved Kafka gives to a question that goes to several brokers."""
    error = translated(KafkaError(getattr(KafkaError, name)), "looking for topics", KafkaSettings("localhost:9"))
    assert isinstance(error, BrokerUnreachable)
    assert "localhost:9" in str(error)


@pytest.mark.parametrize(
    "name", ["NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "_MSG_TIMED_OUT", "NOT_LEADER_FOR_PARTITION"]
)
def test_a_record_that_too_few_copies_could_take_is_sent_again_and_nobody_ends(name: str) -> None:
    """A client tries until the delivery time-out; what it says then must not be taken for a refusal."""
    error = undelivered(
        KafkaError(getattr(KafkaError, name)), "a record for run.ledger[0]", KafkaSettings("localhost:9"), ""
    )
    assert isinstance(error, DeliveryFailed)
    assert error.retriable
    assert "run.ledger[0]" in str(error)
    assert "may or may not be in the log" in str(error)

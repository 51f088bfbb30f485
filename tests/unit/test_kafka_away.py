"""What Kafka answers while it is away is no reason to end: whoever hears it waits and asks again."""

import pytest
from confluent_kafka import KafkaError

from driftline.broker.kafka import KafkaSettings
from driftline.broker.kafka.errors import translated
from driftline.errors import BrokerUnreachable


@pytest.mark.parametrize("name", ["_PARTIAL", "_TRANSPORT", "_TIMED_OUT", "LEADER_NOT_AVAILABLE", "NOT_COORDINATOR"])
def test_an_answer_that_will_be_another_one_soon_is_told_from_a_refusal(name: str) -> None:
    """``_PARTIAL`` is what a starved Kafka gives to a question that goes to several brokers."""
    error = translated(KafkaError(getattr(KafkaError, name)), "looking for topics", KafkaSettings("localhost:9"))
    assert isinstance(error, BrokerUnreachable)
    assert "localhost:9" in str(error)

"""What must not get into the log is refused before it is written, with record, field and value in the message."""

import dataclasses
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from driftline.errors import NotEncodable
from driftline.schemas.codec import decode, encode, schema_fingerprint
from driftline.schemas.records import AnyRecord, GroupId, Join, Use
from tests.support.strategies import HASH_A, PAYLOAD, SAMPLES, UUID_A

SAMPLE = {type(sample).__name__: sample for sample in SAMPLES}


def changed(name: str, **values: Any) -> AnyRecord:
    """Return the sample of a record with other values, which its type hints need not allow."""
    return dataclasses.replace(SAMPLE[name], **values)


def version(**values: Any) -> AnyRecord:
    """Return the sample version with other values in its second use."""
    uses: tuple[Use, ...] = SAMPLE["Version"].uses  # type: ignore[union-attr]
    return changed("Version", uses=(uses[0], dataclasses.replace(uses[1], **values), uses[2]))


class Text(str):
    """A str of another name."""

    __slots__ = ()


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: changed("Tick", sequence=True), r"Tick\.sequence: True is a bool, not an int"),
    (lambda: changed("Tick", sequence=1.0), r"Tick\.sequence: 1\.0 is a float, not an int"),
    (lambda: changed("Tick", sequence=float("nan")), r"Tick\.sequence: nan is a float, not an int"),
    (lambda: changed("Tick", sequence="1"), r"Tick\.sequence: '1' is a str, not an int"),
    (lambda: changed("Tick", sequence=None), r"Tick\.sequence: None is a NoneType, not an int"),
    (lambda: changed("Tick", sequence=np.int64(1)), r"Tick\.sequence: .*1.* is a int64, not an int"),
    (lambda: changed("Tick", sequence=2**63), r"Tick\.sequence: 9223372036854775808 does not fit in 64 bits"),
    (lambda: changed("Tick", sequence=-(2**63) - 1), r"Tick\.sequence: -9223372036854775809 does not fit"),
    (lambda: changed("Tick", run="0123456789abcdef"), r"Tick\.run: '0123456789abcdef' is no bytes"),
    (lambda: changed("Tick", run=b"short"), r"Tick\.run: b'short' has 5 bytes, not 16"),
    (lambda: changed("Tick", run=bytearray(16)), r"Tick\.run: bytearray.* is no bytes"),
    (lambda: changed("Leave", worker=b"w0"), r"Leave\.worker: b'w0' is a bytes, not a str"),
    (lambda: changed("Leave", worker="w\ud83d"), r"Leave\.worker: 'w\\ud83d' holds half of a surrogate pair"),
    (lambda: changed("Heartbeat", role="boss"), r"Heartbeat\.role: 'boss' is none of worker, server, evaluator"),
    (lambda: changed("Heartbeat", waiting_share=True), r"Heartbeat\.waiting_share: True is a bool, not a float"),
    (lambda: changed("Heartbeat", waiting_share="0"), r"Heartbeat\.waiting_share: '0' is a str, not a float"),
    (lambda: changed("Heartbeat", waiting_share=2**53 + 1), r"waiting_share: 9007199254740993 is no exact float64"),
    (lambda: changed("Heartbeat", waiting_share=10**400), r"waiting_share: 10+\.\.\.0+ is no exact float64"),
    (lambda: changed("Heartbeat", waiting_share=np.float32(0.5)), r"waiting_share: .*0\.5.* is a float32, not a float"),
    (lambda: changed("Heartbeat", counters=[("a", 1)]), r"Heartbeat\.counters: \[\('a', 1\)\] is no mapping"),
    (lambda: changed("Heartbeat", counters={"a": 1, "b": 2.0}), r"Heartbeat\.counters\['b'\]: 2\.0 is a float"),
    (lambda: changed("Heartbeat", counters={1: 1}), r"Heartbeat\.counters: 1 is a int, not a str"),
    (lambda: changed("Delta", codec="fp16"), r"Delta\.codec: 'fp16' is none of fp32"),
    (lambda: changed("Delta", codec=["fp32"]), r"Delta\.codec: \['fp32'\] is none of fp32"),
    (lambda: changed("Delta", presence=memoryview(b"a")), r"Delta\.presence: .* is a memoryview, not bytes"),
    (lambda: changed("Delta", group=(1, 2)), r"Delta\.group: \(1, 2\) is no GroupId"),
    (lambda: changed("Delta", group=GroupId(offset=1, index=True)), r"Delta\.group\.index: True is a bool, not an int"),
    (lambda: changed("Delta", payload="text"), r"Delta\.payload: 'text' is no bytes"),
    (lambda: changed("Delta", payload=None), r"Delta\.payload: None is no bytes"),
    (
        lambda: changed("Delta", payload=np.zeros(2, np.float32)),
        r"Delta\.payload: .* array of float32 with shape \(2,\)",
    ),
    (lambda: changed("Delta", payload=np.zeros((2, 2), np.uint8)), r"Delta\.payload: .* uint8 with shape \(2, 2\)"),
    (lambda: changed("Delta", payload=np.zeros(4, np.uint8)[::2]), r"Delta\.payload: .* view it as contiguous"),
    (lambda: changed("Delta", payload=memoryview(PAYLOAD).cast("f")), r"Delta\.payload: .* is no bytes"),
    (lambda: changed("Delta", payload=memoryview(PAYLOAD)[::2]), r"Delta\.payload: .* is no bytes"),
    (lambda: changed("Proposal", shards=[HASH_A]), r"Proposal\.shards: .* is no tuple"),
    (lambda: changed("Proposal", shards=(HASH_A, b"x")), r"Proposal\.shards\[1\]: b'x' has 1 bytes, not 32"),
    (lambda: changed("Membership", joins=(Join(worker="w", incarnation=b""),)), r"joins\[0\]\.incarnation: b'' has 0"),
    (lambda: changed("Membership", joins=(GroupId(1, 2),)), r"Membership\.joins\[0\]: GroupId.* is no Join"),
    (lambda: changed("Version", publish=1), r"Version\.publish: 1 is a int, not a bool"),
    (lambda: version(coefficient=0.1), r"Version\.uses\[1\]\.coefficient: 0\.1 is no finite float32"),
    (lambda: version(coefficient=1e39), r"Version\.uses\[1\]\.coefficient: 1e\+39 is beyond float32"),
    (lambda: version(coefficient=1e-50), r"Version\.uses\[1\]\.coefficient: 1e-50 is no finite float32"),
    (lambda: version(coefficient=float("nan")), r"Version\.uses\[1\]\.coefficient: nan is no finite float32"),
    (lambda: version(coefficient=float("-inf")), r"Version\.uses\[1\]\.coefficient: -inf is no finite float32"),
    (lambda: version(kind="raise"), r"Version\.uses\[1\]\.kind: 'raise' is none of delta, skip"),
    (lambda: GroupId(1, 2), r"GroupId is no record of a run"),
    (lambda: {"term": 1}, r"dict is no record of a run"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_refused(make: Callable[[], Any], message: str) -> None:
    """The message names record, field and value."""
    with pytest.raises(NotEncodable, match=message):
        encode(make())


def test_a_misspelled_field_is_refused() -> None:
    """It cannot be dropped in silence, as it could from a dictionary."""
    with pytest.raises(TypeError, match="sequence_"):
        changed("Tick", sequence_=1)


def test_messages_stay_short() -> None:
    """A refused megabyte is not printed whole."""
    with pytest.raises(NotEncodable) as refused:
        encode(changed("Tick", run=bytes(2**20)))
    assert len(str(refused.value)) < 200


ACCEPTED: list[tuple[AnyRecord, str, object]] = [
    (changed("Heartbeat", waiting_share=1), "waiting_share", 1.0),
    (changed("Heartbeat", waiting_share=np.float64(0.1)), "waiting_share", 0.1),
    (changed("Heartbeat", waiting_share=float("inf")), "waiting_share", float("inf")),
    (changed("Leave", worker=Text("w0")), "worker", "w0"),
    (
        changed("Leave", worker="\N{GRINNING FACE} \u05d0 a/b ../x \x00"),
        "worker",
        "\N{GRINNING FACE} \u05d0 a/b ../x \x00",
    ),
    (changed("Leave", worker=""), "worker", ""),
    (changed("Leave", worker="x" * 300), "worker", "x" * 300),
    (changed("Tick", sequence=2**63 - 1), "sequence", 2**63 - 1),
    (changed("Tick", sequence=-(2**63)), "sequence", -(2**63)),
    (changed("Receipt", shards=()), "shards", ()),
]


@pytest.mark.parametrize(("record", "field", "expected"), ACCEPTED, ids=[f"{field}" for _, field, _ in ACCEPTED])
def test_accepted(record: AnyRecord, field: str, expected: object) -> None:
    """What stands for a value of the declared type without loss is taken, and comes back as that type."""
    value = getattr(decode(bytes(encode(record))), field)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize("coefficient", [0.0, -0.0, 1.0, float(np.float32(0.1)), 2.0**-149, 3.4028234663852886e38])
def test_coefficients_are_exact(coefficient: float) -> None:
    """A coefficient that float32 holds comes back with the same bits."""
    back: Use = decode(bytes(encode(version(coefficient=coefficient)))).uses[1]  # type: ignore[union-attr]
    assert struct.pack("<d", back.coefficient) == struct.pack("<d", coefficient)


def test_a_nan_loss_is_encoded() -> None:
    """A loss may be NaN: that it is one is what the coordinator has to hear."""
    back = decode(bytes(encode(changed("Contribution", loss=float("nan")))))
    assert np.isnan(back.loss)  # type: ignore[union-attr]


def test_fingerprints_are_of_records_only() -> None:
    """A class that is no record has no fingerprint."""
    with pytest.raises(NotEncodable, match="GroupId is no record"):
        schema_fingerprint(GroupId)  # type: ignore[arg-type]


def test_a_record_of_another_class_with_the_same_fields_is_refused() -> None:
    """Only the very classes of the run are written."""
    fake = dataclasses.make_dataclass("Tick", ["run", "term", "sequence"])
    with pytest.raises(NotEncodable, match="Tick is no record of a run"):
        encode(fake(UUID_A, 1, 2))

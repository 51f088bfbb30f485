"""A second opinion on a run: decode its topics with fastavro, fold them with numpy, and share no code with the servers.

What it takes from driftline is the Avro schemas and the configuration in the log, nothing else.
"""

import hashlib
import io
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer, TopicPartition
from fastavro import parse_schema, schemaless_reader
from fastavro.schema import fingerprint, to_parsing_canonical_form

Floats = npt.NDArray[np.float32]
Raw = tuple[int, int, bytes | None]  # partition, offset, value
STREAMS = ("ledger", "deltas", "snapshots", "parameters")


def read_topic(bootstrap_servers: str, topic: str) -> list[Raw]:
    """Read a whole topic, partition by partition, to the end that it has now."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "second-opinion", "enable.auto.commit": False}
    )
    records: list[Raw] = []
    for partition in consumer.list_topics(topic, timeout=10).topics[topic].partitions:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        consumer.assign([TopicPartition(topic, partition, 0)])
        while consumer.position([TopicPartition(topic, partition)])[0].offset < end and end > 0:
            message = consumer.poll(10)
            assert message is not None, f"{topic}[{partition}] gave nothing before offset {end}"
            assert message.error() is None, message.error()
            records.append((partition, message.offset() or 0, message.value()))
    consumer.close()
    return records


def schemas() -> dict[bytes, Any]:
    """Every schema of a run, by its CRC-64-AVRO fingerprint."""
    found = {}
    for file in resources.files("driftline.schemas").joinpath("avsc").iterdir():
        if not file.name.endswith(".avsc"):
            continue
        schema = json.loads(file.read_text())
        canonical = to_parsing_canonical_form(schema)
        found[bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))] = parse_schema(schema)
    return found


@dataclass
class Segment:
    """State of one tensor: AdamW's moments live beside it."""

    value: Floats
    settings: dict[str, float]
    first: Floats = field(init=False)
    second: Floats = field(init=False)
    beta1_product: float = 1.0
    beta2_product: float = 1.0

    def __post_init__(self) -> None:
        self.first = np.zeros_like(self.value)
        self.second = np.zeros_like(self.value)

    def adamw(self, gradient: Floats, rate: float) -> None:
        """One step of AdamW (Loshchilov & Hutter, 2019), every operation rounded to fp32 on its own."""
        one, beta1, beta2 = np.float32, self.settings["beta1"], self.settings["beta2"]
        self.beta1_product *= beta1
        self.beta2_product *= beta2
        if self.settings["weight_decay"]:
            self.value = np.multiply(self.value, one(1.0 - rate * self.settings["weight_decay"]))
        self.first = self.first * one(beta1) + gradient * one(1.0 - beta1)
        self.second = self.second * one(beta2) + gradient * one(1.0 - beta2) * gradient
        root = np.sqrt(self.second) / one(math.sqrt(1.0 - self.beta2_product)) + one(self.settings["eps"])
        step: Floats = np.multiply(self.first / root, one(rate / (1.0 - self.beta1_product)), dtype=np.float32)
        self.value = np.subtract(self.value, step)


@dataclass(frozen=True)
class Digests:
    """What the ledger ought to say about a version."""

    state: bytes
    parameters: bytes


class Fold:
    """All versions of a run, recomputed."""

    def __init__(self, topics: dict[str, list[Raw]]) -> None:
        self._schemas = schemas()
        self._topics = topics
        self.ledger = list(self._valid_ledger())
        start = next(record for name, record in self.ledger if name == "RunStart")
        self.start = start
        self.config = json.loads(start["config"])
        self.layout = json.loads(start["layout"])
        self._elements = sum(math.prod(one["shape"]) for one in self.layout["segments"])
        partitions = self.config["partitions"]
        self._shard = min(240 * 1024, -(-self._elements // partitions))
        self._shards = -(-self._elements // self._shard)
        self.versions: dict[int, Digests] = {}
        self.recorded: dict[int, Digests] = {}
        self.masters: dict[int, Floats] = {}

    # -- reading -----------------------------------------------------------------------------------------------------

    def _decode(self, value: bytes) -> tuple[str, dict[str, Any]]:
        assert value[:2] == b"\xc3\x01"
        schema = self._schemas[value[2:10]]
        buffer = io.BytesIO(value[10:])
        record: Any = schemaless_reader(buffer, schema, None)
        assert buffer.tell() == len(value) - 10
        return schema["name"].rpartition(".")[2], record

    def _valid_ledger(self) -> Iterator[tuple[str, dict[str, Any]]]:
        head, term = bytes(32), 0
        for _, _, value in self._topics["ledger"]:
            assert value is not None
            name, record = self._decode(value)
            valid = record["term"] > term if name == "TermStart" else (record["term"], record["parent"]) == (term, head)
            if valid:
                head, term = hashlib.sha256(head + value).digest(), record["term"]
                yield name, record

    def _payloads(self, stream: str) -> Iterator[tuple[int, dict[str, Any], bytes]]:
        for partition, _, value in self._topics[stream]:
            if value is None:
                continue
            _, record = self._decode(value)
            sealed = hashlib.sha256(self.start["run"] + value[2:10] + value[42:]).digest()
            if sealed == record["digest"]:
                yield partition, record, value

    # -- folding -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Recompute every version from version 0 and the deltas that the ledger names."""
        segments = self._version_0()
        deltas = self._deltas()
        self._keep(0, segments)
        for name, record in self.ledger:
            for state in record.get("states", ()):
                self.recorded[state["version"]] = Digests(state["state"], state["parameters"])
            if name == "Version":
                self._apply(record, segments, deltas)
                self._keep(record["version"], segments)

    def _version_0(self) -> list[Segment]:
        wanted = dict(enumerate(self.start["shards"]))
        flat = np.empty(self._elements, np.float32)
        for _, record, _ in self._payloads("snapshots"):
            shard = record["shard"]
            if record["version"] == 0 and wanted.get(shard) == record["digest"]:
                flat[shard * self._shard :][: record["elements"]] = np.frombuffer(record["payload"], "<f4")
                del wanted[shard]
        assert not wanted
        groups = self.config["rule"]["groups"]
        return [Segment(values, groups[one["group"]]) for one, values in self._cut(flat)]

    def _cut(self, flat: Floats) -> Iterator[tuple[dict[str, Any], Floats]]:
        for one in self.layout["segments"]:
            yield one, flat[one["offset"] :][: math.prod(one["shape"])].copy()

    def _deltas(self) -> dict[tuple[int, int, int], dict[int, dict[str, Any]]]:
        found: dict[tuple[int, int, int], dict[int, dict[str, Any]]] = {}
        for partition, record, _ in self._payloads("deltas"):
            assert record["shard"] % self.config["partitions"] == partition
            key = (record["group"]["offset"], record["group"]["index"], record["clock"])
            found.setdefault(key, {}).setdefault(record["shard"], record)
        return found

    def _apply(self, record: dict[str, Any], segments: list[Segment], deltas: Any) -> None:
        update: Floats | None = None
        for use in record["uses"]:
            if use["kind"] != "delta":
                continue
            shards = deltas[use["group"]["offset"], use["group"]["index"], use["clock"]]
            digests = b"".join(shards[shard]["digest"] for shard in range(self._shards))
            assert hashlib.sha256(digests).digest() == use["root"]
            payload = b"".join(shards[shard]["payload"] for shard in range(self._shards))
            term = np.frombuffer(payload, "<f4") * np.float32(use["coefficient"])
            update = term if update is None else update + term
        if update is None:
            return
        for segment, (one, gradient) in zip(segments, self._cut(update), strict=True):
            segment.adamw(gradient, record["learning_rates"][one["group"]])

    def _keep(self, version: int, segments: list[Segment]) -> None:
        masters, first, second = (
            np.concatenate([getattr(segment, name).reshape(-1) for segment in segments])
            for name in ("value", "first", "second")
        )
        self.masters[version] = masters
        self.versions[version] = Digests(
            _over(
                hashlib.sha256(a.tobytes() + b.tobytes() + c.tobytes())
                for a, b, c in self._by_shard(masters, first, second)
            ),
            _over(hashlib.sha256(a.tobytes()) for (a,) in self._by_shard(masters)),
        )

    def _by_shard(self, *vectors: Floats) -> Iterator[tuple[Floats, ...]]:
        for shard in range(self._shards):
            yield tuple(vector[shard * self._shard : (shard + 1) * self._shard] for vector in vectors)

    def published(self) -> Iterator[tuple[int, int, Floats, Floats]]:
        """Every parameters record: version, shard, what it holds, and what it should hold."""
        for _, record, _ in self._payloads("parameters"):
            shard, version = record["shard"], record["version"]
            expected = self.masters[version][shard * self._shard : (shard + 1) * self._shard]
            yield version, shard, np.frombuffer(record["payload"], "<f4"), expected


def _over(hashes: Iterable[Any]) -> bytes:
    return hashlib.sha256(b"".join(one.digest() for one in hashes)).digest()

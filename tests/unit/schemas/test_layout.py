"""A layout places every element exactly once, reads back strictly, and explains differences by name."""

import dataclasses
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftline.errors import ConfigError
from driftline.schemas.model.layout import (
    MAX_SHARD_ELEMENTS,
    Layout,
    Piece,
    Segment,
    layout_differences,
    layout_from_json,
)
from tests.support.strategies import layouts


def segment(name: str, shape: tuple[int, ...], offset: int, **values: Any) -> Segment:
    """Return a trainable segment."""
    fields: dict[str, Any] = {"aliases": (), "dtype": "float32", "kind": "parameter", "group": 0, **values}
    return Segment(name=name, shape=shape, offset=offset, **fields)


MODEL = Layout(
    (
        segment("empty.first", (0, 4), 0),
        segment("encoder.weight", (3, 5), 0, aliases=("decoder.weight",)),
        segment("temperature", (), 15),
        segment("empty.middle", (0,), 16),
        segment("bias", (7,), 16, group=1),
        segment("mean", (2,), 23, kind="frozen", group=-1),
        segment("empty.last", (2, 0), 25),
    ),
    partitions=4,
)


@settings(max_examples=150, deadline=None)
@given(layout=layouts())
def test_pieces_cover_every_element_once(layout: Layout) -> None:
    """Shards follow each other, and the pieces of each fill it from its start to its end."""
    seen = [0] * len(layout.segments)
    position = 0
    for shard in range(layout.shard_count):
        start, stop = layout.shard_range(shard)
        assert start == position < stop
        position = stop
        filled = 0
        for piece in layout.pieces(shard):
            owner = layout.segments[piece.segment_index]
            assert filled == piece.start < piece.stop
            filled = piece.stop
            assert start + piece.start == owner.offset + seen[piece.segment_index]
            seen[piece.segment_index] += piece.stop - piece.start
        assert filled == stop - start
    assert position == layout.elements
    assert seen == [owner.words for owner in layout.segments]


@settings(max_examples=100, deadline=None)
@given(layout=layouts())
def test_partitions_share_the_shards(layout: Layout) -> None:
    """Shard s lives in partition s mod P, and a partition knows its shards."""
    owners = {shard: p for p in range(layout.partitions) for shard in layout.shards_of(p)}
    assert owners == {shard: shard % layout.partitions for shard in range(layout.shard_count)}
    assert all(layout.partition_of(shard) == owner for shard, owner in owners.items())
    assert layout.shards_of(layout.partitions) == layout.shards_of(-1) == ()


@given(elements=st.integers(1, 2**40), partitions=st.integers(1, 1_000))
def test_shard_sizes(elements: int, partitions: int) -> None:
    """No shard is over 960 KiB; all are of one size but the last; a model of some size uses every partition."""
    layout = Layout((segment("w", (elements,), 0),), partitions)
    size = layout.shard_elements
    assert size == max(1, min(MAX_SHARD_ELEMENTS, -(-elements // partitions)))
    assert (layout.shard_count - 1) * size < elements <= layout.shard_count * size
    assert layout.shard_range(layout.shard_count - 1)[1] == elements
    assert layout.shard_count >= min(partitions, elements) // 2


def test_shapes_are_kept() -> None:
    """A scalar stays (), an empty tensor (0, 4); an empty one has no piece, a scalar has one element."""
    back = layout_from_json(MODEL.to_json())
    assert [owner.shape for owner in back.segments][:3] == [(0, 4), (3, 5), ()]
    assert MODEL.pieces(2) == (Piece(1, 0, 1), Piece(2, 1, 2), Piece(4, 2, 7))
    assert {p.segment_index for s in range(MODEL.shard_count) for p in MODEL.pieces(s)} == {1, 2, 4, 5}


@pytest.mark.parametrize(
    ("dtype", "shape", "words"),
    [
        ("bool", (5,), 2),
        ("uint8", (2, 2), 1),
        ("int64", (), 2),
        ("float16", (3,), 2),
        ("bfloat16", (1,), 1),
        ("float32", (3, 5), 15),
        ("float64", (3,), 6),
        ("complex128", (), 4),
        ("int64", (0, 4), 0),
    ],
)
def test_a_buffer_takes_as_many_elements_as_its_bytes_need(dtype: str, shape: tuple[int, ...], words: int) -> None:
    """Parameters take one an element, whatever the worker holds them in: the vector has their float32."""
    buffer = segment("buffer", shape, 3, dtype=dtype, kind="buffer", group=-1)
    layout = Layout((segment("weight", (3,), 0, dtype="bfloat16"), buffer), 1)
    assert (buffer.words, buffer.stop, layout.elements) == (words, 3 + words, 3 + words)
    assert layout.has_buffers == (words > 0)
    assert not MODEL.has_buffers


@pytest.mark.parametrize("shard", [-1, 4])
def test_no_such_shard(shard: int) -> None:
    """Shards are counted from 0 to shard_count - 1."""
    with pytest.raises(IndexError, match=f"shard {shard} of 4"):
        MODEL.pieces(shard)


@settings(max_examples=100, deadline=None)
@given(layout=layouts())
def test_json_round_trip(layout: Layout) -> None:
    """The JSON is canonical, and the fingerprint is its hash."""
    text = layout.to_json()
    back = layout_from_json(text)
    assert back == layout
    assert back.to_json() == text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    assert back.fingerprint() == hashlib.sha256(text.encode()).digest()


def test_the_fingerprint_never_changes() -> None:
    """Runs are recorded with it."""
    assert MODEL.fingerprint().hex() == "c7462a800e312b2bfc64c2949a74fc929ed34097e8614a4fc4568c9a4318b03b"


CHANGES: list[tuple[Any, list[str]]] = [
    (lambda raw: raw.pop("partitions"), ["layout: partitions is missing"]),
    (lambda raw: raw.update(version=2), ["layout: 'version' is unknown"]),
    (lambda raw: raw.update(partitions=True), ["layout: partitions is a bool, not a int"]),
    (lambda raw: raw.update(partitions=0), ["partitions: 0 is not a whole number from 1 to 1000"]),
    (lambda raw: raw.update(segments={}), ["layout: segments is a dict, not a list"]),
    (lambda raw: raw["segments"].append(3), ["segment 7: a int, not an object"]),
    (lambda raw: raw["segments"][1].update(name=3), ["segment 1: name is a int, not a str"]),
    (lambda raw: raw["segments"][1].update(extra=3), ["segment 1: 'extra' is unknown"]),
    (lambda raw: raw["segments"][1].pop("dtype"), ["segment 1: dtype is missing"]),
    (lambda raw: raw["segments"][1].update(offset=0.0), ["segment 1: offset is a float, not a int"]),
    (lambda raw: raw["segments"][1].update(shape=[3, 5.0]), ["segment 1 ('encoder.weight'): shape (3, 5.0) is not"]),
    (lambda raw: raw["segments"][1].update(shape=[3, -5]), ["segment 1 ('encoder.weight'): shape (3, -5) is not"]),
    (lambda raw: raw["segments"][1].update(shape=[True]), ["segment 1 ('encoder.weight'): shape (True,) is not"]),
    (lambda raw: raw["segments"][1].update(shape=[2**41]), ["segment 1 ('encoder.weight'): shape (2199023255552,)"]),
    (lambda raw: raw["segments"][6].update(shape=[2**20, 2**21]), ["2199023255577 elements are more than"]),
    (lambda raw: raw["segments"][1].update(dtype="int64"), ["'int64' is not one of float32, bfloat16, float16"]),
    (lambda raw: raw["segments"][1].update(kind="moment"), ["kind 'moment' is not one of parameter, frozen, buffer"]),
    (lambda raw: raw["segments"][1].update(kind="buffer"), ["'encoder.weight'): 0 is no index of a parameter group"]),
    (
        lambda raw: raw["segments"][5].update(kind="buffer", dtype="qint8"),
        ["segment 5 ('mean'): dtype 'qint8' is not one of bool, int8,"],
    ),
    (
        lambda raw: raw["segments"][5].update(kind="buffer", dtype="int64"),
        ["segment 6 ('empty.last'): offset 25, not 27; it overlaps the one before"],
    ),
    (lambda raw: raw["segments"][1].update(group=-1), ["-1 is no index of a parameter group"]),
    (lambda raw: raw["segments"][5].update(group=-2), ["-2 is no index of a parameter group"]),
    (lambda raw: raw["segments"][1].update(name=""), ["segment 1 (''): the name '' is no text, or empty"]),
    (lambda raw: raw["segments"][1].update(name="\ud83d"), ["the name '\\ud83d' is no text"]),
    (lambda raw: raw["segments"][1].update(aliases=[1]), ["the name 1 is no text"]),
    (lambda raw: raw["segments"][1].update(aliases=["bias"]), ["segment 4: the name 'bias' is taken by segment 1"]),
    (lambda raw: raw["segments"][4].update(offset=15), ["offset 15, not 16; it overlaps the one before"]),
    (lambda raw: raw["segments"][4].update(offset=17), ["offset 17, not 16; it leaves a gap", "offset 23, not 24; it"]),
    (lambda raw: raw["segments"].reverse(), ["segment 0 ('empty.last'): offset 25, not 0; it leaves a gap"]),
    (lambda raw: raw.update(partitions=-1, x=1, y=2), ["layout: 'x' is unknown", "layout: 'y' is unknown"]),
    (
        lambda raw: raw["segments"][1].update(dtype="f", kind="k"),
        ["segment 1 ('encoder.weight'): dtype 'f'", "segment 1 ('encoder.weight'): kind 'k'"],
    ),
]


@pytest.mark.parametrize(("change", "messages"), CHANGES, ids=[messages[0] for _, messages in CHANGES])
def test_json_is_read_strictly(change: Any, messages: list[str]) -> None:
    """Every problem is listed, with the segment and the value."""
    raw = json.loads(MODEL.to_json())
    change(raw)
    with pytest.raises(ConfigError) as refused:
        layout_from_json(json.dumps(raw))
    for message in messages:
        assert any(message in problem for problem in refused.value.problems), refused.value.problems


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", "[" * 100_000, '{"partitions":1,"partitions":2}'])
def test_no_json(text: str) -> None:
    """Whatever stands in a proposal, the answer is a ConfigError."""
    with pytest.raises(ConfigError, match="the layout is"):
        layout_from_json(text)


@pytest.mark.parametrize("segments", [(), (segment("e", (0, 4), 0), segment("f", (0,), 0))])
def test_nothing_to_train(segments: tuple[Segment, ...]) -> None:
    """A model without any element is refused in clear words."""
    with pytest.raises(ConfigError, match=f"none of {len(segments)} segments has an element"):
        Layout(segments, 1)


def changed(index: int, **values: Any) -> Layout:
    """Return the model with one segment changed, where offsets stay as they are."""
    segments = list(MODEL.segments)
    segments[index] = dataclasses.replace(segments[index], **values)
    return Layout(tuple(segments), MODEL.partitions)


DIFFERENCES = [
    (changed(1, shape=(5, 3)), ["encoder.weight: shape (3, 5) here, (5, 3) in the run"]),
    (changed(0, shape=(4, 0)), ["empty.first: shape (0, 4) here, (4, 0) in the run"]),
    (changed(2, shape=(1,)), ["temperature: shape () here, (1,) in the run"]),
    (changed(4, group=0), ["bias: parameter group 1 here, 0 in the run"]),
    (changed(5, kind="parameter", group=0), ["mean: kind frozen here, parameter in the run", "mean: parameter group"]),
    (changed(1, aliases=()), ["encoder.weight: tied names ('decoder.weight',) here, () in the run"]),
    (changed(4, name="bias2"), ["bias: in this model, not in the run", "bias2: in the run, not in this model"]),
    (Layout(MODEL.segments[:-1], 4), ["empty.last: in this model, not in the run"]),
    (Layout((*MODEL.segments, segment("head", (3,), 25)), 4), ["head: in the run, not in this model"]),
    (Layout(MODEL.segments, 5), ["partitions: 4 here, 5 in the run"]),
    (
        Layout((MODEL.segments[1], dataclasses.replace(MODEL.segments[0], offset=15), *MODEL.segments[2:]), 4),
        ["order of parameters: number 0 is empty.first here, encoder.weight in the run"],
    ),
]


@pytest.mark.parametrize(("theirs", "lines"), DIFFERENCES, ids=[lines[0] for _, lines in DIFFERENCES])
def test_differences_are_listed_by_name(theirs: Layout, lines: list[str]) -> None:
    """Names, both shapes, groups and order; whatever changes the fingerprint is told."""
    found = layout_differences(MODEL, theirs)
    assert MODEL.fingerprint() != theirs.fingerprint()
    assert len(found) == len(lines)
    assert all(line.startswith(start) for line, start in zip(found, lines, strict=True))


@given(ours=layouts(), theirs=layouts())
@settings(max_examples=60, deadline=None)
def test_no_difference_is_left_untold(ours: Layout, theirs: Layout) -> None:
    """Layouts have no difference exactly when they have one fingerprint."""
    assert (layout_differences(ours, theirs) == []) == (ours.fingerprint() == theirs.fingerprint())
    assert layout_differences(ours, ours) == []

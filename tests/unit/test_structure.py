"""The house keeps its shape: small rooms with a stated purpose, imports one way, and a drawing that is true."""

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pkgutil import resolve_name

import pytest

from tests.structure.drawing import DRAWING, drawn
from tests.structure.rooms import Room, imports, modules, rooms

MAX_FILES, MAX_LINES = 16, 2_500
"""Of one room, its ``__init__.py`` included: one that grows past this holds two themes."""

ENTRY_POINT = re.compile(r"(?<!`)`([a-z_]+(?:\.\w+)+)`(?!`)")

ROOMS = list(rooms())
by_room = pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name or "driftline")


@by_room
def test_a_room_is_small(room: Room) -> None:
    """A reader knows a room after one look at its list of files."""
    assert room.files <= MAX_FILES
    assert room.lines <= MAX_LINES


@by_room
def test_a_room_says_what_it_is_for(room: Room) -> None:
    """The docstring of the folder begins with its purpose, in one sentence."""
    assert room.purpose.endswith(".")


@by_room
def test_a_room_names_entry_points_that_exist(room: Room) -> None:
    """Names with a dot in its docstring, seen from the room or from the package."""
    package = f"driftline.{room.name}".rstrip(".")
    for name in ENTRY_POINT.findall(_docstring(package)):
        assert any(map(_exists, (f"{package}.{name}", f"driftline.{name}", name))), name


def test_imports_between_rooms_make_no_circle() -> None:
    """Each room can be read after those that it imports, down to ``errors``; rooms inside rooms included."""
    try:
        list(TopologicalSorter(_between_rooms()).static_order())
    except CycleError as error:
        pytest.fail(f"these rooms import one another: {' <- '.join(error.args[1])}")


def _between_rooms() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for module, targets in imports().items():
        if module != "driftline":  # names that are imported when they are asked for
            room = _room(module)
            found.setdefault(room, set()).update({_room(one) for one in targets} - {room})
    return found


def _room(module: str) -> str:
    folder = module if modules()[module].name == "__init__.py" else module.rpartition(".")[0]
    return module if folder == "driftline" else folder


def _docstring(package: str) -> str:
    return ast.get_docstring(ast.parse(modules()[package].read_text(encoding="utf-8"))) or ""


def _exists(name: str) -> bool:
    try:
        resolve_name(name)
    except (AttributeError, ModuleNotFoundError):
        return False
    return True


def test_the_drawing_is_of_this_code() -> None:
    """docs/rooms.svg shows the layers and imports that there are; ``python -m tests.structure`` draws it."""
    assert DRAWING.read_text(encoding="utf-8") == drawn()

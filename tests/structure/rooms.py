"""Rooms of the package, how large each is, and which room imports which, read from the sources."""

import ast
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "driftline"


@dataclass(frozen=True, slots=True)
class Room:
    """One folder of modules.

    Attributes:
        name: dotted path below ``driftline``; empty for the package itself.
        purpose: first line of its docstring.
        files: number of its modules, those of rooms inside not counted.
        lines: of these modules.
    """

    name: str
    purpose: str
    files: int
    lines: int


@cache
def modules() -> Mapping[str, Path]:
    """Return the path of every module of the package, by its dotted name."""
    found = {}
    for folder, inside, files in os.walk(PACKAGE, followlinks=True):
        inside[:] = sorted(name for name in inside if name != "__pycache__")
        for file in sorted(files):
            if file.endswith(".py"):
                parts = ("driftline", *Path(folder, file).relative_to(PACKAGE).with_suffix("").parts)
                found[".".join(parts).removesuffix(".__init__")] = Path(folder, file)
    return found


def rooms() -> Iterator[Room]:
    """Yield every folder that holds modules."""
    folders: dict[Path, list[Path]] = {}
    for path in modules().values():
        folders.setdefault(path.parent, []).append(path)
    for folder, files in folders.items():
        name = ".".join(folder.relative_to(PACKAGE).parts)
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
        yield Room(name, purpose(folder / "__init__.py"), len(files), lines)


def purpose(path: Path) -> str:
    """Return the first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Return the modules that each module imports at any place, type checking included."""
    return {
        name: frozenset(_imported(ast.parse(path.read_text(encoding="utf-8")))) - {name, "driftline"}
        for name, path in modules().items()
    }


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module in modules():
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules() else node.module


def layers() -> list[list[str]]:
    """Return the layers that the import contract in pyproject.toml fixes, top first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = (one for one in contracts["contracts"] if one["type"] == "layers" and one.get("exhaustive"))
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def arrows() -> dict[str, set[str]]:
    """Return which top-level room or module imports which, at least once."""
    found: dict[str, set[str]] = {}
    for module, imported in imports().items():
        origin = module.removeprefix("driftline.").partition(".")[0]
        targets = {one.removeprefix("driftline.").partition(".")[0] for one in imported}
        found.setdefault(origin, set()).update(targets - {origin})
    return found


def shortest(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return a graph without the arrows that longer ways replace."""
    return {
        origin: {one for one in targets if not any(one in _reached(graph, other) for other in targets - {one})}
        for origin, targets in graph.items()
    }


def _reached(graph: Mapping[str, set[str]], origin: str) -> set[str]:
    seen: set[str] = set()
    waiting = [origin]
    while waiting:
        for one in graph.get(waiting.pop(), set()) - seen:
            seen.add(one)
            waiting.append(one)
    return seen

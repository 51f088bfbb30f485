"""The ahead-of-time cache is used only when it is finished, fits and is unchanged."""

import os
import time
from pathlib import Path

import pytest

from driftline.broker.embedded import java, prepare
from driftline.broker.embedded.files import FileLock

CONTENT = b"cache" * 100


@pytest.fixture
def class_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two jars, a Java runtime and an empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "java_home", lambda: tmp_path)
    (tmp_path / "release").write_text('JAVA_VERSION="25"')
    jars = [tmp_path / "a.jar", tmp_path / "b.jar"]
    for jar in jars:
        jar.write_bytes(b"jar")
    monkeypatch.setattr(prepare, "ensure_jars", lambda _report: jars)
    return jars


def made(class_path: list[Path]) -> Path:
    """Put a finished cache in its place."""
    path = java.cache_path(class_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(CONTENT)
    java.seal_cache(path)
    return path


def test_a_missing_cache_is_no_error(class_path: list[Path]) -> None:
    """The JVM then starts without the option."""
    assert java.find_cache(class_path) is None
    assert java.cache_options(None) == []


def test_a_finished_cache_is_found(class_path: list[Path]) -> None:
    """It becomes one JVM option."""
    path = made(class_path)
    assert java.find_cache(class_path) == path
    assert java.cache_options(path) == [f"-XX:AOTCache={path}"]


def test_an_unfinished_cache_is_not_used(class_path: list[Path]) -> None:
    """A maker that died half-way leaves no seal."""
    path = java.cache_path(class_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert java.find_cache(class_path) is None
    assert not path.exists()


@pytest.mark.parametrize("content", [CONTENT[:-1], b"x" * len(CONTENT), b""])
def test_a_changed_cache_is_dropped(class_path: list[Path], content: bytes) -> None:
    """Cut, or of the same size with other bytes: a JVM might crash on it."""
    path = made(class_path)
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))
    assert java.find_cache(class_path) is None
    assert not path.exists()


def test_another_java_another_jar_or_a_touched_jar_is_another_cache(class_path: list[Path], tmp_path: Path) -> None:
    """The JVM would refuse the old one, so it is never offered."""
    names = {java.cache_path(class_path), java.cache_path(class_path[::-1]), java.cache_path(class_path[:1])}
    os.utime(class_path[0], ns=(1, 1))
    names.add(java.cache_path(class_path))
    (tmp_path / "release").write_text('JAVA_VERSION="26"')
    names.add(java.cache_path(class_path))
    assert len(names) == 5


def test_only_unused_caches_are_deleted(class_path: list[Path]) -> None:
    """Two environments share the folder, each with its own cache."""
    used, unused = made(class_path), made(class_path[:1])
    month_ago_s = time.time() - 32 * 24 * 3600
    for path in (used, unused):
        os.utime(path.with_suffix(".json"), (month_ago_s, month_ago_s))
    assert java.find_cache(class_path) == used
    java.drop_unused_caches()
    assert used.exists()
    assert not unused.exists()
    assert not unused.with_suffix(".json").exists()


def test_two_makers_do_not_collide(class_path: list[Path]) -> None:
    """The second one reports the first and leaves; it starts nothing."""
    lines: list[str] = []
    java.cache_dir().mkdir(parents=True)
    with FileLock(java.cache_dir() / "make.lock") as other:
        assert other.try_acquire()
        assert prepare.prepare(lines.append) is None
    assert lines == ["another process is making the ahead-of-time cache"]
    assert class_path


def test_a_finished_cache_is_not_made_again(class_path: list[Path]) -> None:
    """Preparing twice costs nothing."""
    path = made(class_path)
    assert prepare.prepare() == path

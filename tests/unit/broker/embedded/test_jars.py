"""Kafka's jars are locked, fetched once, checked, and never half there."""

import hashlib
import re
import threading
from pathlib import Path

import pytest

from driftline.broker.embedded import jars
from driftline.broker.embedded.jars import KAFKA_VERSION, Jar, load_lock, lock_text
from driftline.errors import EmbeddedBrokerError

CONTENT = {"alpha": b"a" * 1000, "beta": b"b" * 2000, "gamma": b"c" * 10}
LOCK = tuple(
    Jar("org.example", name, "1.0", len(content), hashlib.sha256(content).hexdigest())
    for name, content in CONTENT.items()
)


class Repository:
    """Takes the place of jgo: returns contents, damaged ones on request, and counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.damaged: dict[str, bytes] = {}
        self.away = False

    def fetch_jar(self, jar: Jar, folder: Path) -> Path:
        """Replace ``jars.fetch_jar``."""
        self.asked.append(jar.artifact)
        if self.away:
            raise EmbeddedBrokerError(f"{jar.coordinates} could not be downloaded (ConnectionError: no route).")
        folder.mkdir(parents=True)
        path = folder / jar.file_name
        path.write_bytes(self.damaged.get(jar.artifact, CONTENT[jar.artifact]))
        return path


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """An empty cache, a small lock file and a repository that has its jars."""
    made = Repository()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jars, "load_lock", lambda: LOCK)
    monkeypatch.setattr(jars, "fetch_jar", made.fetch_jar)
    return made


def test_the_lock_names_one_kafka_and_nothing_of_another_version() -> None:
    """Resolvers have mixed in clients of an older Kafka without an error."""
    kafka = {jar.artifact: jar.version for jar in load_lock() if jar.group == "org.apache.kafka"}
    assert {"kafka_2.13", "kafka-clients", "kafka-server", "kafka-metadata"} <= set(kafka)
    assert set(kafka.values()) == {KAFKA_VERSION} == {"4.4.0"}


def test_the_lock_is_complete_and_unambiguous_and_has_no_address() -> None:
    """Every jar has a digest and a name of its own; no address and no folder is committed."""
    locked = load_lock()
    assert len({jar.file_name for jar in locked}) == len(locked) > 40
    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) and jar.size > 0 for jar in locked)
    assert "://" not in lock_text()
    assert "/" not in "".join(line for line in lock_text().splitlines() if not line.startswith("#"))


def test_jars_are_fetched_once(repository: Repository) -> None:
    """The second call fetches nothing and returns the same class path, in the order of the lock."""
    first = jars.ensure_jars()
    assert sorted(repository.asked) == sorted(CONTENT)
    assert jars.ensure_jars() == first
    assert [path.read_bytes() for path in first] == list(CONTENT.values())
    assert len(repository.asked) == len(CONTENT)


def test_a_cut_jar_is_fetched_again(repository: Repository) -> None:
    """Only that jar is replaced."""
    path = jars.ensure_jars()[1]
    path.write_bytes(path.read_bytes()[:100])
    repository.asked.clear()
    assert jars.ensure_jars()[1].read_bytes() == CONTENT["beta"]
    assert repository.asked == ["beta"]


def test_a_changed_jar_of_the_same_size_is_fetched_again(repository: Repository) -> None:
    """The digest decides, not the size."""
    path = jars.ensure_jars()[0]
    path.write_bytes(b"x" * 1000)
    repository.asked.clear()
    assert jars.ensure_jars()[0].read_bytes() == CONTENT["alpha"]
    assert repository.asked == ["alpha"]


@pytest.mark.parametrize("damaged", [b"b" * 500, b"x" * 2000])
def test_a_damaged_download_is_refused_by_name(repository: Repository, damaged: bytes) -> None:
    """It never gets its name in the cache, leaves no file behind, and the next start fetches only missing jars."""
    repository.damaged["beta"] = damaged
    with pytest.raises(EmbeddedBrokerError, match=r"org\.example:beta:1\.0 .*is not the locked jar"):
        jars.ensure_jars()
    folder = jars.jars_dir()
    assert not (folder / "beta-1.0.jar").exists()
    assert not list(folder.glob(".fetch-*"))
    repository.damaged.clear()
    repository.asked.clear()
    jars.ensure_jars()
    assert "beta" in repository.asked


def test_without_a_network_the_first_start_says_what_is_needed(repository: Repository) -> None:
    """It names the download, its size, and what to do without a network."""
    repository.away = True
    with pytest.raises(EmbeddedBrokerError) as caught:
        jars.ensure_jars()
    said = str(caught.value)
    assert "needs the network once" in said
    assert str(jars.jars_dir()) in said
    assert "--bootstrap-servers" in said


def test_without_a_network_later_starts_work(repository: Repository) -> None:
    """The jars of the first start are enough."""
    jars.ensure_jars()
    repository.away = True
    assert len(jars.ensure_jars()) == len(CONTENT)


def test_an_unreachable_repository_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real download function with an address where no server listens."""
    settings = tmp_path / "jgo.conf"
    settings.write_text("[repositories]\ncentral = http://127.0.0.1:9\n")
    monkeypatch.setattr("jgo.config._settings.get_settings_path", lambda: settings)
    with pytest.raises(EmbeddedBrokerError, match=r"org\.example:alpha:1\.0 could not be downloaded"):
        jars.fetch_jar(LOCK[0], tmp_path / "repository")


def test_an_unusable_cache_folder_is_named(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the variable that moves it."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(EmbeddedBrokerError, match=r"file/driftline.*XDG_CACHE_HOME"):
        jars.ensure_jars()
    assert not repository.asked


def test_several_starts_at_once_fetch_each_jar_once(repository: Repository) -> None:
    """The later ones wait for the first and find every jar."""
    results: list[list[Path]] = []
    threads = [threading.Thread(target=lambda: results.append(jars.ensure_jars())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert len(results) == 3
    assert sorted(repository.asked) == sorted(CONTENT)


def test_progress_ends_at_the_total(repository: Repository) -> None:
    """The last line reports all megabytes."""
    lines: list[str] = []
    jars.ensure_jars(lines.append)
    assert repository.asked
    assert "0.0 of 0.0 MB" in lines[-1]
    assert KAFKA_VERSION in lines[-1]

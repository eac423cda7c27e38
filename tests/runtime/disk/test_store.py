"""The store by itself: what is put is found again, within the policy, and everything is counted."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import platformdirs
import pytest

from minijit.graph.config import config
from minijit.runtime.disk import Entry, Store, container, default, default_store
from minijit.runtime.disk.store import Policy
from tests.runtime.disk.samples import ENVIRONMENT, is_right, make_entry, make_key

HOUR = 3600.0


def entries(store: Store) -> list[str]:
    return sorted(path.name for path in Path(store.folder).glob("??/*.mjk"))


def test_put_and_get(store: Store, root: Path) -> None:
    key, other = make_key(1), make_key(2)
    assert store.get(key) is None
    store.put(key, make_entry(key))
    found = store.get(make_key(1))
    assert found is not None
    assert is_right(key, found)
    assert store.get(other) is None
    assert (root / "v1" / key.name[:2] / f"{key.name}.mjk").is_file()
    counts = {"hits": 1, "misses": 2, "writes": 1}
    assert {name: count for name, count in store.stats().items() if count} == counts


def test_another_process_finds_it(root: Path, store: Store) -> None:
    key = make_key(1)
    store.put(key, make_entry(key))
    found = Store(root).get(key)
    assert found is not None
    assert is_right(key, found)


def test_nothing_is_made_by_looking(root: Path) -> None:
    store = Store(root)
    assert store.get(make_key()) is None
    assert list(store) == []
    assert store.usage() == (0, 0, 0)
    assert store.other_environments(make_key()) == ()
    assert not root.exists()


def test_a_put_replaces(store: Store) -> None:
    key = make_key(1)
    for size in (10, 5000, 10):
        store.put(key, make_entry(key, size))
        found = store.get(key)
        assert found == make_entry(key, size)
    assert len(entries(store)) == 1


def test_other_environments_are_named(store: Store) -> None:
    for version in ("0.67", "0.68", "0.69"):
        key = make_key(1, numba=version)
        store.put(key, make_entry(key))
    store.put(make_key(2), make_entry(make_key(2)))
    others = store.other_environments(make_key(1, numba="0.68"))
    assert sorted(other["numba"] for other in others) == ["0.67", "0.69"]
    assert all({**other, "numba": "0.68.1"} == ENVIRONMENT for other in others)
    assert store.other_environments(make_key(3)) == ()


def test_a_read_only_store_changes_nothing(root: Path, store: Store) -> None:
    key, bad = make_key(1), make_key(2)
    store.put(key, make_entry(key))
    path = Path(store._path(bad))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"nothing")
    for old in Path(store.folder).glob("??/*.mjk"):
        os.utime(old, (1.0, 1.0))

    def look() -> list[tuple[str, float, int]]:
        return sorted((str(p), p.lstat().st_mtime, p.lstat().st_size) for p in root.rglob("*"))

    before = look()
    reading = Store(root, Policy(mode="ro"))
    assert reading.get(key) is not None
    with pytest.warns(UserWarning, match="not used"):
        assert reading.get(bad) is None
    reading.put(make_key(3), make_entry(make_key(3)))
    with reading.single_flight(key) as flight:
        assert not flight.alone
        assert flight.entry is not None, "another process may have written it"
    assert (reading.prune().evicted, reading.clear()) == (0, 0)
    assert look() == before
    assert (reading.stats()["hits"], reading.stats()["corrupt_size"]) == (2, 1)


@pytest.mark.parametrize(
    ("policy", "written"),
    [
        (Policy(), [10, 1000, 9000]),
        (Policy(min_entry_bytes=1500), [1000, 9000]),
        (Policy(min_entry_bytes=-1), [10, 1000, 9000]),
        (Policy(min_compile_seconds=0.5), [9000]),
        (Policy(max_bytes=5000), [10, 1000]),
        (Policy(max_bytes=0), []),
        (Policy(max_bytes=-1), [10, 1000, 9000]),
    ],
)
def test_the_policy_decides_what_is_written(root: Path, policy: Policy, written: list[int]) -> None:
    store = Store(root, policy)
    for size in (10, 1000, 9000):
        key = make_key(size)
        store.put(key, make_entry(key, size, compile_seconds=size / 10_000))
        assert (store.get(key) is not None) == (size in written)
    assert store.stats()["skipped"] == 3 - len(written)


def test_an_entry_beyond_the_format_is_skipped(store: Store) -> None:
    sections = {str(number): b"" for number in range(container.MAX_SECTIONS + 1)}
    store.put(make_key(), Entry({}, sections))
    assert store.get(make_key()) is None
    assert store.stats()["skipped"] == 1


def test_a_hit_is_noted_at_most_hourly(store: Store) -> None:
    key = make_key()
    store.put(key, make_entry(key))
    path = store._path(key)
    now = time.time()
    for age, noted in ((HOUR / 2, False), (2 * HOUR, True), (-24 * HOUR, True)):
        os.utime(path, (now - age, now - age))
        assert store.get(key) is not None
        assert (abs(Path(path).stat().st_mtime - now) < 100) == noted


def test_threads_share_a_store_that_is_too_small(root: Path) -> None:
    store = Store(root, Policy(max_entries=8))
    wrong: list[object] = []

    def use(number: int) -> None:
        dice = random.Random(number)
        try:
            for _ in range(60):
                key = make_key(dice.randrange(20))
                found = store.get(key)
                if found is None:
                    store.put(key, make_entry(key))
                elif not is_right(key, found):
                    wrong.append(key)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    counts = store.stats()
    assert wrong == []
    assert counts["hits"] + counts["misses"] == 16 * 60
    assert counts["writes"] == counts["misses"]
    assert counts["evicted"] > 0
    assert store.verify() == ()
    store.prune()
    assert store.usage()[0] <= 8


def test_records_show_what_is_there(store: Store) -> None:
    for number in range(3):
        store.put(make_key(number), make_entry(make_key(number)))
    Path(store._path(make_key(1))).write_bytes(b"x" * 500)
    bad = [record for record in store if record.key is None]
    good = [record for record in store if record.key is not None]
    assert {record.key for record in good} == {make_key(0), make_key(2)}
    assert all(record.size == Path(record.path).stat().st_size for record in (*bad, *good))
    assert [record.problem for record in bad] == ["magic: it does not begin as an entry does"]
    assert store.verify() == tuple(bad)
    assert len(entries(store)) == 3, "verifying changes nothing"


def test_options_name_the_store(tmp_path: Path) -> None:
    folder = str(tmp_path / "named")
    with config.override(compilation_cache="rw", jax_compilation_cache_dir=folder):
        store = default_store()
        assert store is not None
        assert store is default_store()
        assert store.folder == os.path.join(folder, "v1")
        assert store.policy == Policy()
        with config.override(
            jax_persistent_cache_min_entry_size_bytes=-1,
            jax_persistent_cache_min_compile_time_secs=2,
            jax_compilation_cache_max_size=10**6,
            compilation_cache="ro",
        ):
            other = default_store()
        assert other is not None
        assert other.policy == Policy("ro", -1, 2.0, 10**6)
        with config.override(compilation_cache="0"):
            assert default_store() is None


def test_the_users_cache_folder_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *_, **__: str(tmp_path))
    default._store.cache_clear()
    with config.override(compilation_cache="rw", compilation_cache_dir=""):
        store = default_store()
    default._store.cache_clear()
    assert store is not None
    assert store.folder == str(tmp_path / "v1")


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *_, **__: "~/.cache/x")
    monkeypatch.setattr(default.os.path, "expanduser", lambda path: path)
    default._store.cache_clear()
    with config.override(compilation_cache="rw", compilation_cache_dir=""):
        with pytest.warns(UserWarning, match="MINIJIT_CACHE_DIR"):
            assert default_store() is None
        assert default_store() is None
    default._store.cache_clear()

"""Bounds hold, the least recently used go first, and others may delete what we look at."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from minijit.runtime.disk import Store, journal, prune
from minijit.runtime.disk.container import encode
from minijit.runtime.disk.store import Policy
from tests.runtime.disk.samples import make_entry, make_key

DAY = 24 * 3600.0


def fill(store: Store, numbers: range, size: int = 1000) -> None:
    """Put entries, each used a second after the one before."""
    for number in numbers:
        key = make_key(number)
        store.put(key, make_entry(key, size))
        path = store._path(key)
        if os.path.exists(path):
            used = time.time() - 3000 + number
            os.utime(path, (used, used))


def held(store: Store) -> set[int]:
    return {record.key.program["options"]["n"] for record in store if record.key}


@pytest.mark.parametrize("most", [1, 7, 30])
def test_the_number_of_entries_is_bounded(root: Path, most: int) -> None:
    store = Store(root, Policy(max_entries=most))
    for number in range(40):
        fill(store, range(number, number + 1))
        assert store.usage()[0] <= most
    assert store.stats()["evicted"] >= 40 - most
    kept = held(store)
    assert len(kept) >= max(1, 0.8 * most)
    assert kept == set(range(40 - len(kept), 40)), "the oldest went"


def test_the_bytes_are_bounded(root: Path) -> None:
    each = len(encode(make_key(10), make_entry(make_key(10))))
    store = Store(root, Policy(max_bytes=10 * each))
    for number in range(10, 60):
        fill(store, range(number, number + 1))
        assert store.usage()[1] <= 10 * each
    assert len(held(store)) >= 8


def test_an_entry_may_fill_the_store(root: Path) -> None:
    store = Store(root, Policy(max_bytes=10_000))
    for size in (9_500, 9_400, 100, 9_300):
        key = make_key(size)
        store.put(key, make_entry(key, size - 700))
        assert store.get(key) is not None
        assert store.usage()[1] <= 10_000


def test_links_are_not_followed(store: Store, tmp_path: Path) -> None:
    fill(store, range(2))
    outside = tmp_path / "outside"
    outside.mkdir()
    names = ("a.mjk", ".b.tmp", "c.lock")
    for name in names:
        (outside / name).write_text("somebody's")
        os.utime(outside / name, (1.0, 1.0))
    for name in ("zz", "ff", "quarantine", "locks"):
        link = Path(store.folder, name)
        if not link.exists():
            link.symlink_to(outside)
    assert prune.prune(store.folder, 0, 0, time.time() + 9 * DAY).stale == 0
    assert store.clear() == 1
    assert sorted(path.name for path in outside.iterdir()) == sorted(names)


def test_what_is_used_stays(root: Path) -> None:
    store = Store(root, Policy(max_entries=10))
    fill(store, range(10))
    os.utime(store._path(make_key(0)), (1.0, 1.0))
    assert store.get(make_key(0)) is not None
    fill(store, range(10, 12))
    assert 0 in held(store)
    assert 1 not in held(store)


def test_writers_share_the_bound(root: Path) -> None:
    stores = [Store(root, Policy(max_entries=20)) for _ in range(10)]
    for number in range(100):
        fill(stores[number % 10], range(number, number + 1))
        assert stores[0].usage()[0] <= 20


def test_without_a_bound_all_stay(root: Path) -> None:
    store = Store(root, Policy(max_bytes=-1))
    fill(store, range(50))
    assert store.prune() == prune.Pruned(50, store.usage()[1], 0, 0)


def test_full_counts_are_rare(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    whole = prune.prune
    monkeypatch.setattr(prune, "prune", lambda *args: counted.append(1) or whole(*args))
    for _ in range(5):
        fill(Store(root), range(50))
    assert len(counted) == 1


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 40, b"\0" * 5000])
def test_a_journal_that_is_wrong_is_written_anew(root: Path, content: bytes) -> None:
    store = Store(root, Policy(max_entries=10))
    fill(store, range(9))
    Path(store.folder, journal.JOURNAL).write_bytes(content)
    fill(store, range(9, 13))
    assert store.usage()[0] <= 10
    assert len(Path(store.folder, journal.JOURNAL).read_bytes()) < 40


@pytest.mark.parametrize("kind", ["folder", "link", "fifo"])
def test_a_journal_that_is_no_file_is_harmless(root: Path, kind: str, tmp_path: Path) -> None:
    store = Store(root, Policy(max_entries=10))
    fill(store, range(5))
    path = Path(store.folder, journal.JOURNAL)
    path.unlink()
    target = tmp_path / "target"
    target.write_text("somebody's")
    {
        "folder": path.mkdir,
        "link": lambda: path.symlink_to(target),
        "fifo": lambda: os.mkfifo(path),
    }[kind]()
    fill(store, range(5, 20))
    assert store.usage()[0] <= 10
    assert target.read_text() == "somebody's"


def test_deletions_by_others_are_tolerated(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(root, Policy(max_entries=10))
    fill(store, range(10))
    listed = prune._files

    def listed_then_deleted(folder: str) -> list[os.DirEntry[str]]:
        found = listed(folder)
        for file in found[::2]:
            if file.name.endswith(prune.SUFFIX):
                os.unlink(file.path)
        return found

    monkeypatch.setattr(prune, "_files", listed_then_deleted)
    assert store.prune().evicted == 0
    store.usage()
    list(store)
    store.clear()
    assert store.stats()["errors"] == 0


def test_stale_files_go_and_fresh_ones_stay(store: Store) -> None:
    fill(store, range(2))
    shard = Path(store._path(make_key(0))).parent
    (Path(store.folder) / "quarantine").mkdir()
    (Path(store.folder) / "locks").mkdir()
    for folder, name in (
        (shard, ".a.tmp"),
        (Path(store.folder), ".journal.tmp"),
        (Path(store.folder) / "quarantine", "x.mjk.checksum-0"),
        (Path(store.folder) / "locks", "x.lock"),
    ):
        (folder / name).write_bytes(b"x")
    now = time.time()
    for later, stale in ((0.0, 0), (-DAY, 0), (3500.0, 0), (4000.0, 3), (8 * DAY, 1)):
        assert prune.prune(store.folder, -1, 100, now + later).stale == stale
    assert held(store) == {0, 1}


def test_clear_deletes_what_is_the_stores_and_nothing_else(store: Store, root: Path) -> None:
    fill(store, range(5))
    Path(store._path(make_key(1))).write_bytes(b"bad")
    with pytest.warns(UserWarning, match="not used"):
        store.get(make_key(1))
    mine = [root / "mine.txt", Path(store.folder) / "mine.mjk.txt", Path(store.folder) / "00-mine"]
    for path in mine:
        path.write_text("mine")
    assert store.clear() == 4
    assert {path for path in root.rglob("*") if path.is_file()} == set(mine)
    for path in mine:
        path.unlink()
    fill(store, range(3))
    assert (store.clear(), list(root.iterdir())) == (3, [])

"""A disk that fails: full, read-only, gone, with another clock. Calls go on, with one warning."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from minijit.runtime.disk import Store, files
from minijit.runtime.disk.store import Policy
from tests.runtime.disk.samples import is_right, make_entry, make_key
from tests.runtime.disk.test_processes import work

DAY = 24 * 3600.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=64k,mode=700", "minijit-test", str(folder)]
    mount = shutil.which("mount")
    if mount is None or subprocess.run([mount, *options], check=False).returncode != 0:
        pytest.skip("this user may not mount a disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    report = work("fill", small_disk / "cache")
    assert report["errors"] == 5
    assert report["left"] == []
    (warning,) = report["warnings"]
    assert "cannot be kept" in warning
    assert "No space left" in warning


def test_a_file_that_may_not_grow(root: Path) -> None:
    report = work("full", root)
    assert report["errors"] == 5
    assert report["left"] == []
    assert ["cannot be kept" in warning for warning in report["warnings"]] == [True]


def test_a_folder_that_cannot_be_written(users_folder: Path) -> None:
    store, key = Store(users_folder), make_key(1)
    store.put(key, make_entry(key))
    folders = [path for path in users_folder.rglob("*") if path.is_dir()] + [users_folder]
    for folder in folders:
        folder.chmod(0o500)
    try:
        store = Store(users_folder)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for number in range(2, 5):
                store.put(make_key(number), make_entry(make_key(number)))
                with store.single_flight(make_key(number)):
                    assert store.get(key) is not None
        assert ["cannot be kept" in str(warning.message) for warning in caught] == [True]
        assert store.stats()["errors"] == 3
        assert store.clear() == 0
    finally:
        for folder in folders:
            folder.chmod(0o700)


def test_a_folder_that_cannot_be_made(users_folder: Path) -> None:
    users_folder.chmod(0o500)
    store, key = Store(users_folder / "cache"), make_key()
    assert store.get(key) is None
    with pytest.warns(UserWarning, match="cannot be kept"):
        store.put(key, make_entry(key))
    users_folder.chmod(0o700)
    store.put(key, make_entry(key))
    assert store.get(key) is not None


def test_a_file_where_the_folder_should_be(root: Path) -> None:
    root.write_text("somebody's")
    store, key = Store(root), make_key()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert store.get(key) is None
            store.put(key, make_entry(key))
    assert len(caught) == 1
    assert root.read_text() == "somebody's"


@pytest.mark.parametrize("parts", [0, 1, 2])
def test_a_folder_that_is_removed_is_made_again(store: Store, root: Path, parts: int) -> None:
    key = make_key()
    path = Path(store._path(key))
    for _ in range(3):
        store.put(key, make_entry(key))
        assert store.get(key) is not None
        shutil.rmtree([root, path.parents[1], path.parent][parts])
        assert store.get(key) is None
        with store.single_flight(key) as flight:
            assert flight.alone
    assert store.stats()["errors"] == 0


def test_a_folder_that_is_removed_while_a_file_is_written(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = make_key()
    replace = os.replace

    def remove_first(source: str, target: str) -> None:
        shutil.rmtree(root)
        replace(source, target)

    monkeypatch.setattr(files.os, "replace", remove_first)
    with pytest.warns(UserWarning, match="cannot be kept"):
        store.put(key, make_entry(key))
    monkeypatch.undo()
    store.put(key, make_entry(key))
    assert store.get(key) is not None


@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_that_jumps(root: Path, days: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(root, Policy(max_entries=4))
    for number in range(3):
        store.put(make_key(number), make_entry(make_key(number)))
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + days * DAY)
    for number in range(3):
        found = store.get(make_key(number))
        assert found is not None
        assert is_right(make_key(number), found)
    for number in range(3, 8):
        store.put(make_key(number), make_entry(make_key(number)))
        assert store.get(make_key(number)) is not None
    assert store.usage()[0] <= 4
    assert store.verify() == ()


@pytest.mark.parametrize("where", ["write", "replace", "close"])
def test_an_interrupted_write_leaves_nothing(
    store: Store, root: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(BaseException):
        pass

    key = make_key()
    store.put(key, make_entry(key, 10))

    def interrupt(*_: object) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(files.os, where, interrupt)
        with pytest.raises(Interrupted):
            store.put(key, make_entry(key, 5000))
    assert list(root.rglob("*.tmp")) == []
    assert store.get(key) == make_entry(key, 10), "what was there before"

"""A folder or file that others can write is not used; what is written is the user's alone."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from minijit.runtime.disk import Store
from minijit.runtime.disk.permissions import why_untrusted
from tests.runtime.disk.conftest import NOBODY
from tests.runtime.disk.samples import make_entry, make_key

KEY = make_key(1)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")

Change = Callable[[Path], object]


def move_and_link(path: Path) -> None:
    moved = path.with_name("moved")
    path.rename(moved)
    path.symlink_to(moved)


def a_root_linked_by_others(root: Path) -> None:
    move_and_link(root)
    os.chown(root, NOBODY, NOBODY, follow_symlinks=False)


def a_link_of_others_above(root: Path) -> None:
    real = root.parent.with_name("real")
    root.parent.rename(real)
    root.parent.symlink_to(real)
    os.chown(root.parent, NOBODY, NOBODY, follow_symlinks=False)


def a_link_through_a_folder_of_all(root: Path) -> None:
    """To a folder that is ours, by a way that others can bend."""
    real = root.parent.with_name("real")
    root.parent.rename(real)
    way = real.with_name("way")
    way.mkdir()
    (way / "on").symlink_to(real)
    way.chmod(0o777)
    root.parent.symlink_to("way/on")


def file_of(root: Path) -> Path:
    (path,) = root.glob("v1/??/*.mjk")
    return path


REFUSED: dict[str, Change] = {
    "all may write the root": lambda root: root.chmod(0o777),
    "the group may write the root": lambda root: root.chmod(0o770),
    "all may write the folder in it": lambda root: (root / "v1").chmod(0o777),
    "all may write the folder in it, sticky": lambda root: (root / "v1").chmod(0o1777),
    "the group may write a folder above": lambda root: root.parent.chmod(0o770),
    "all may write a folder above": lambda root: root.parent.chmod(0o707),
    "the folder in it is a link": lambda root: move_and_link(root / "v1"),
    "a link goes through a folder of all": a_link_through_a_folder_of_all,
}
REFUSED_FOR_OWNERS: dict[str, Change] = {
    "the root is another's": lambda root: os.chown(root, NOBODY, NOBODY),
    "the folder in it is another's": lambda root: os.chown(root / "v1", NOBODY, NOBODY),
    "a folder above is another's": lambda root: os.chown(root.parent, NOBODY, NOBODY),
    "the root is another's link": a_root_linked_by_others,
    "a link above is another's": a_link_of_others_above,
}
FILES: dict[str, Change] = {
    "all may write the file": lambda root: file_of(root).chmod(0o666),
    "the group may write the file": lambda root: file_of(root).chmod(0o620),
}
FILES_FOR_OWNERS: dict[str, Change] = {
    "the file is another's": lambda root: os.chown(file_of(root), NOBODY, NOBODY),
}
ACCEPTED: dict[str, Change] = {
    "all may read": lambda root: root.chmod(0o755),
    "a folder above is sticky": lambda root: root.parent.chmod(0o1777),
    "the root is sticky": lambda root: root.chmod(0o1777),
    "the root is a link of ours": move_and_link,
    "a link of ours above": lambda root: move_and_link(root.parent),
}


def prepared(tmp_path: Path, change: Change) -> Store:
    """A store that held an entry when it was changed."""
    root = tmp_path / "above" / "cache"
    store = Store(root)
    store.put(KEY, make_entry(KEY))
    change(root)
    return Store(root)


def cases(plain: dict[str, Change], for_owners: dict[str, Change]) -> list[object]:
    return [
        *(pytest.param(change, id=name) for name, change in plain.items()),
        *(pytest.param(change, id=name, marks=needs_root) for name, change in for_owners.items()),
    ]


@pytest.mark.parametrize("change", cases(REFUSED, REFUSED_FOR_OWNERS))
def test_a_folder_that_others_can_change_is_not_used(tmp_path: Path, change: Change) -> None:
    store = prepared(tmp_path, change)
    with pytest.warns(UserWarning, match=r"not used, since .*(chmod|folder)") as caught:
        assert store.get(KEY) is None
    assert len(caught) == 1
    assert str(tmp_path) in str(caught[0].message)
    with warnings.catch_warnings(action="error"):
        store.put(make_key(2), make_entry(make_key(2)))
        assert list(store) == []
        assert (store.prune().evicted, store.clear()) == (0, 0)
        with store.single_flight(KEY) as flight:
            assert not flight.alone
    assert store.access == "none"
    assert store.stats()["refused"] > 1
    assert store.usage()[0] <= 1, "nothing was written"


@pytest.mark.parametrize("change", cases(FILES, FILES_FOR_OWNERS))
def test_a_file_that_others_can_change_is_not_used(tmp_path: Path, change: Change) -> None:
    store = prepared(tmp_path, change)
    with pytest.warns(UserWarning, match="others can write it"):
        assert store.get(KEY) is None
    assert store.stats()["corrupt_owner"] == 1
    store.put(KEY, make_entry(KEY))
    assert store.get(KEY) is not None


@pytest.mark.parametrize("change", cases(ACCEPTED, {}))
def test_a_folder_that_is_ours_is_used(tmp_path: Path, change: Change) -> None:
    store = prepared(tmp_path, change)
    assert store.get(KEY) is not None
    assert store.access == "rw"


def test_a_folder_of_root_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has folders of root")
    store = prepared(tmp_path, lambda root: root.chmod(0o755))
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    with warnings.catch_warnings(action="error"):
        assert store.get(KEY) is not None
        store.put(make_key(2), make_entry(make_key(2)))
    assert store.access == "ro"
    assert store.usage()[0] == 1


def test_folders_above_the_home_are_not_ours_to_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "all" / "home"
    cache = home / ".cache" / "minijit"
    cache.mkdir(parents=True, mode=0o700)
    (tmp_path / "all").chmod(0o777)
    assert "chmod go-w" in (why_untrusted(str(cache)) or "")
    monkeypatch.setenv("HOME", str(home))
    assert why_untrusted(str(cache)) is None
    home.chmod(0o777)
    assert str(home) in (why_untrusted(str(cache)) or "")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_modes_under_any_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        store = Store(tmp_path / "new" / "cache")
        store.put(KEY, make_entry(KEY))
        with store.single_flight(KEY):
            modes = {
                path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").rglob("*")
            }
        assert store.get(KEY) is not None
    finally:
        os.umask(before)
    assert {modes[path] for path in modes if path.is_dir()} == {0o700}
    files = {path.suffix: mode for path, mode in modes.items() if not path.is_dir()}
    assert files == {".mjk": 0o600, "": 0o600, ".lock": 0o600}


AUDIT = """
import os, sys
root = sys.argv[1]
from minijit.runtime.disk import Store
from tests.runtime.disk.samples import make_entry, make_key
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
touched = []
def watch(event, arguments):
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING:
        touched.append(os.fsdecode(arguments[0]))
    elif event in ("os.mkdir", "os.remove", "os.rmdir", "os.utime"):
        touched.append(str(arguments[0]))
    elif event == "os.rename":
        touched.extend(map(str, arguments[:2]))
sys.addaudithook(watch)
store, key = Store(root), make_key()
store.put(key, make_entry(key))
with store.single_flight(key):
    store.get(key)
open(store._path(key), "wb").close()
store.get(key)
store.prune(); list(store); store.clear()
outside = [path for path in touched if not path.startswith(root)]
assert touched and not outside, (touched, outside)
assert "numba" not in sys.modules and "llvmlite" not in sys.modules
"""


def test_nothing_is_written_outside_the_root(root: Path) -> None:
    repository = Path(__file__).resolve().parents[3]
    command = [sys.executable, "-B", "-W", "ignore", "-c", AUDIT, str(root)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

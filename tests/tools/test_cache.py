"""`python -m minijit cache`: each action on a store with a good entry and a bad one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minijit.__main__ import COMMANDS, main
from minijit.graph.config import config
from minijit.runtime.disk import Entry, Key, Store, default_store

KEY = Key(
    {"source": "def kernel(): ..."},
    {"target": {"device": "cuda", "compute_capability": "9.0"}, "numba": "0.68.1", "cuda": "13"},
)
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with config.override(compilation_cache="rw", compilation_cache_dir=str(tmp_path / "cache")):
        found = default_store()
        assert found is not None
        meta = {"name": "soft\x1b[31mmax", "compile_seconds": 0.125}
        found.put(KEY, Entry(meta, {"code": b"x" * 100}))
        os.utime(found._path(KEY), (time.time() - 7200.0,) * 2)
        yield found


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str]:
        status = main(["cache", *arguments])
        return status, capsys.readouterr().out

    return run


def damage(store: Store) -> Path:
    path = Path(store.folder, "ab", f"ab{'0' * 62}-{'0' * 16}.mjk")
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"damaged" * 20)
    path.chmod(0o600)
    return path


def test_the_command_is_listed() -> None:
    assert "cache" in COMMANDS


def test_info(store: Store, run: Run) -> None:
    size = Path(store._path(KEY)).stat().st_size
    status, shown = run()
    assert (status, shown.splitlines()) == (
        0,
        [
            f"folder      {store.folder}",
            "mode        rw",
            "entries     1 of at most 20000",
            f"bytes       {size} of at most 1073741824",
            "quarantine  0",
        ],
    )
    assert run("info") == (status, shown)


def test_list(store: Store, run: Run) -> None:
    damage(store)
    status, shown = run("list")
    heading, *rows = shown.splitlines()
    assert status == 0
    assert heading.split()[:4] == ["entry", "target", "bytes", "used"]
    assert len(rows) == 2
    damaged, good = rows  # the last used first
    assert "magic: it does not begin" in damaged
    for part in ("soft?[31mmax", "9.0 cuda", " 2 h ago ", "0.125 s", "cuda 13 numba 0.68.1"):
        assert part in good


def test_verify(store: Store, run: Run) -> None:
    status, shown = run("verify")
    assert (status, shown) == (0, "1 entries are whole, 0 files are not\n")
    bad = damage(store)
    status, shown = run("verify")
    assert status == 1
    problem, counts, _ = shown.splitlines()
    assert problem == f"{bad}: magic: it does not begin as an entry does"
    assert counts == "1 entries are whole, 1 files are not"
    assert bad.exists()


def test_prune(store: Store, run: Run) -> None:
    stale = Path(store.folder, "ab", ".x.tmp")
    stale.parent.mkdir()
    stale.write_bytes(b"")
    os.utime(stale, (1.0, 1.0))
    assert run("prune") == (
        0,
        f"deleted 0 entries and 1 stale files\n1 entries of {store.usage()[1]} bytes are left\n",
    )
    with config.override(compilation_cache_max_size=0):
        status, shown = run("prune")
    assert (status, shown.splitlines()[0]) == (0, "deleted 0 entries and 0 stale files")


def test_clear(store: Store, run: Run) -> None:
    assert run("clear") == (0, "deleted 1 entries\n")
    assert store.usage() == (0, 0, 0)
    assert run("list")[1].count("\n") == 1
    assert run("verify")[0] == 0


def test_nothing_is_deleted_where_nothing_may_be(store: Store, run: Run) -> None:
    with config.override(compilation_cache="ro"):
        for action in ("prune", "clear"):
            status, shown = run(action)
            assert status == 1
            assert "mode ro" in shown
        assert run("info")[1].splitlines()[1] == "mode        ro"
    assert store.usage()[0] == 1


def test_without_a_cache(run: Run) -> None:
    with config.override(compilation_cache="off"):
        assert [run(action)[0] for action in ("info", "list", "verify")] == [0, 1, 1]


def test_an_unknown_action_is_refused(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["cache", "destroy"])
    assert "invalid choice" in capsys.readouterr().err

"""Many processes, and processes that are killed: nothing wrong, nothing lost, one compile a key."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from minijit.runtime.disk import Store, locking, prune
from minijit.runtime.disk.store import Policy
from tests.runtime.disk.samples import is_right, make_entry, make_key
from tests.sampling import DEEP

REPOSITORY = Path(__file__).resolve().parents[3]
HOUR = 3600.0


def command(name: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "tests.runtime.disk.workers", name, *map(str, arguments)]


def work(name: str, *arguments: object) -> Any:
    """What a worker reports."""
    done = subprocess.run(
        command(name, *arguments),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_race_of_16_processes(tmp_path: Path) -> None:
    rounds = 500 if DEEP else 50
    report = work("race", tmp_path / "race", 16, rounds, 30)
    assert report == {
        "failed": 0,
        "keys": 4 * rounds,
        "compiles": 4 * rounds,
        "most": 1,
        "entries": 4 * rounds,
        "bad": 0,
        "quarantined": 0,
        "left": 0,
    }


def test_race_without_locks(tmp_path: Path) -> None:
    rounds = 100 if DEEP else 5
    report = work("race", tmp_path / "race", 16, rounds, 0)
    assert report["most"] <= 16
    assert report["compiles"] > report["keys"], "the lock was not given up"
    del report["most"], report["compiles"]
    assert report == {
        "failed": 0,
        "keys": 4 * rounds,
        "entries": 4 * rounds,
        "bad": 0,
        "quarantined": 0,
        "left": 0,
    }


def test_killed_writers(root: Path) -> None:
    report = work("kill", root, 3000 if DEEP else 300)
    assert report["killed"] == (3000 if DEEP else 300)
    assert report["seen"] > 100
    assert (report["wrong"], report["bad"], report["quarantined"]) == (0, 0, 0)
    torn = [*Path(root).rglob("*.tmp"), *Path(root).rglob("*.lock")]
    assert torn, "no process was killed while it wrote"
    store = Store(root)
    assert store.prune().stale == 0, "they may belong to a writer"
    pruned = prune.prune(store.folder, -1, 100, time.time() + 2 * HOUR)
    assert (pruned.stale, pruned.evicted) == (len(torn), 0)
    assert not [*Path(root).rglob("*.tmp"), *Path(root).rglob("*.lock")]
    assert store.verify() == ()


def test_the_lock_of_another_process_is_waited_for(root: Path) -> None:
    with subprocess.Popen(
        command("hold", root, 60), cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert json.loads(holder.stdout.readline()) == {"held": True}
            with Store(root, Policy(lock_seconds=0.05)).single_flight(make_key()) as flight:
                assert not flight.alone
            with Store(root).single_flight(make_key(1)) as flight:
                assert flight.alone, "another key has another lock"
            threading.Timer(0.1, holder.kill).start()
            with Store(root).single_flight(make_key()) as flight:
                assert flight.alone, "a process that dies lets go"
        finally:
            holder.kill()


def test_threads_exclude_each_other(store: Store) -> None:
    inside: list[int] = []
    most: list[int] = []

    def enter() -> None:
        for _ in range(10):
            with store.single_flight(make_key()) as flight:
                assert flight.alone
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0005)
                inside.pop()

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1] * 80


class Interrupted(BaseException):
    pass


def test_an_interrupted_compile_lets_go(store: Store, root: Path) -> None:
    with pytest.raises(Interrupted), store.single_flight(make_key()):
        raise Interrupted
    with Store(root, Policy(lock_seconds=0.0)).single_flight(make_key()) as flight:
        assert flight.alone


def test_an_interrupted_wait_lets_go(
    root: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise Interrupted

    with store.single_flight(make_key()):
        monkeypatch.setattr(locking.time, "sleep", interrupt)
        with pytest.raises(Interrupted), Store(root).single_flight(make_key()):
            raise AssertionError("two hold it")
        monkeypatch.undo()
    with Store(root, Policy(lock_seconds=0.0)).single_flight(make_key()) as flight:
        assert flight.alone
    assert list(Path(store.folder, "locks").iterdir()) == []


def test_a_lock_file_may_be_deleted(store: Store) -> None:
    key = make_key()
    with store.single_flight(key) as flight:
        assert flight.alone
        Path(store.folder, "locks", f"{key.name}.lock").unlink()
    with store.single_flight(key) as flight:
        assert flight.alone


def test_what_was_stored_meanwhile_is_handed_over(store: Store) -> None:
    key = make_key()
    with store.single_flight(key) as flight:
        assert flight.entry is None
        store.put(key, make_entry(key))
    with store.single_flight(key) as flight:
        assert flight.entry is not None
        assert is_right(key, flight.entry)


def test_a_lock_that_is_no_file_is_none(store: Store) -> None:
    key = make_key()
    folder = Path(store.folder, "locks", f"{key.name}.lock")
    folder.mkdir(parents=True)
    with store.single_flight(key) as flight:
        assert not flight.alone
        store.put(key, make_entry(key))
    found = store.get(key)
    assert found is not None
    assert is_right(key, found)

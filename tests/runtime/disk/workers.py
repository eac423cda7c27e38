"""Processes for the tests, `python -m tests.runtime.disk.workers NAME ROOT ...`, printing JSON.

Each forks what it needs by itself: the tests' own process has threads, and imports take longest.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from minijit.runtime.disk import Store
from minijit.runtime.disk.store import Policy
from tests.runtime.disk.samples import is_right, make_entry, make_key


def fork(work: Callable[[], None]) -> int:
    """Run `work` in a child; its exit status is 1 when it raises."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def race(root: str, processes: str, rounds: str, lock_seconds: str) -> dict[str, int]:
    """Let processes want the same four keys of an empty store, again and again."""
    base = Path(root)
    base.mkdir()
    log = base / "compiled"
    log.touch()
    gate, opened = os.pipe()

    def one(number: int) -> None:
        warnings.simplefilter("error")
        os.close(opened)
        os.read(gate, 1)  # returns for all at once when the parent closes its end
        for turn in range(int(rounds)):
            store = Store(base / str(turn), Policy(lock_seconds=float(lock_seconds)))
            keys = [make_key(key) for key in range(4)]
            random.Random(number + turn).shuffle(keys)
            for key in keys:
                entry = store.get(key)
                if entry is None:
                    with store.single_flight(key) as flight:
                        entry = flight.entry
                        if entry is None:
                            with log.open("a") as file:
                                file.write(f"{turn} {key.program['options']['n']}\n")
                            time.sleep(0.002)  # so that others come meanwhile
                            entry = make_entry(key, 5000)
                            store.put(key, entry)
                assert is_right(key, entry)
            for key in keys:
                found = store.get(key)
                assert found is not None, "lost"
                assert is_right(key, found), "wrong"

    children = [fork(lambda number=number: one(number)) for number in range(int(processes))]
    os.close(gate)
    os.close(opened)
    failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    compiled = Counter(log.read_text().splitlines())
    stores = [Store(base / str(turn)) for turn in range(int(rounds))]
    return {
        "failed": failed,
        "keys": len(compiled),
        "compiles": sum(compiled.values()),
        "most": max(compiled.values()),
        "entries": sum(store.usage()[0] for store in stores),
        "bad": sum(len(store.verify()) for store in stores),
        "quarantined": sum(store.usage()[2] for store in stores),
        "left": sum(1 for _ in base.glob("*/v1/locks/*")) + sum(1 for _ in base.glob("*/v1/*/.*")),
    }


def kill(root: str, kills: str) -> dict[str, int]:
    """Kill processes while they write, some of them at a time; read the store in between."""
    keys = [make_key(number) for number in range(8)]
    dice = random.Random(9)

    def write() -> None:
        store = Store(root)
        for turn in range(10**9):
            key = keys[turn % len(keys)]
            with store.single_flight(key):
                store.put(key, make_entry(key, 60_000 + turn % 7))

    warnings.simplefilter("error")
    killed = wrong = 0
    seen = 0
    while killed < int(kills):
        children = [fork(write) for _ in range(min(3, int(kills) - killed))]
        for child in children:
            time.sleep(dice.uniform(0.0, 0.008))
            os.kill(child, signal.SIGKILL)
            killed += os.waitpid(child, 0)[1] == signal.SIGKILL
        reader = Store(root)
        found = [(key, reader.get(key)) for key in keys]
        seen += sum(entry is not None for _, entry in found)
        wrong += sum(not is_right(key, entry) for key, entry in found if entry is not None)
    return {
        "killed": killed,
        "seen": seen,
        "wrong": wrong,
        "bad": len(Store(root).verify()),
        "quarantined": Store(root).usage()[2],
    }


def full(root: str) -> dict[str, Any]:
    """Write where no file may become longer than 20 kB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    return fill(root)


def fill(root: str) -> dict[str, Any]:
    """Write entries of 100 kB, which do not fit, and a small one at the end."""
    store = Store(root)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(5):
            key = make_key(number)
            store.put(key, make_entry(key, 100_000))
            assert store.get(key) is None
        small = make_key(9)
        store.put(small, make_entry(small))
        found = store.get(small)
    assert found is not None
    assert is_right(small, found)
    return {
        "errors": store.stats()["errors"],
        "warnings": [str(warning.message) for warning in caught],
        "left": [str(path) for path in Path(root).rglob("*.tmp")],
    }


def report(facts: dict[str, Any]) -> None:
    """Tell the test what was found."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def hold(root: str, seconds: str) -> dict[str, bool]:
    """Hold the lock of a key, and tell so."""
    with Store(root).single_flight(make_key()) as flight:
        report({"held": flight.alone})
        time.sleep(float(seconds))
    return {"held": False}


WORKERS = {work.__name__: work for work in (race, kill, full, fill, hold)}

if __name__ == "__main__":
    report(WORKERS[sys.argv[1]](*sys.argv[2:]))

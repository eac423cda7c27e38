"""Everything at once on one small cache folder: processes, threads, evictions, a tidying tool."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import minijit
from minijit.graph.config import config
from minijit.runtime.disk import Store
from tests.sampling import DEEP

ROOT = Path(__file__).parents[2]
SECONDS = 1800 if DEEP else 8
LARGEST = 1 << 20 if DEEP else 1 << 18
PROCESSES, THREADS = 3, 3


def function(number: int) -> Any:
    """One of many functions: a chain, or rows with a reduction."""
    if number % 3:
        return lambda x: x * number + 0.5
    return lambda x: x - (x * number).sum(-1, keepdims=True)


def expected(number: int, x: np.ndarray[Any, np.dtype[Any]]) -> Any:
    return function(number)(x.astype(np.float64))


def use(seconds: float, seed: int, errors: list[str]) -> int:
    """Call functions of changing shapes until the time is over, and at least twice; how often."""
    dice, calls, end = random.Random(seed), 0, time.monotonic() + seconds
    jitted = {number: minijit.jit(function(number)) for number in range(12)}
    while calls < 2 or time.monotonic() < end:
        number, rows = dice.randrange(12), dice.randrange(1, 9)
        x = np.random.default_rng(rows).standard_normal((rows, 40), dtype=np.float32)
        found = jitted[number](x)
        if not np.allclose(found, expected(number, x), atol=1e-3):
            errors.append(f"function {number} of {rows} rows")
        if not dice.randrange(50):
            jitted[number] = minijit.jit(function(number))
        calls += 1
    return calls


def main(seconds: str, seed: str) -> None:
    """One process: some threads in a memory cache that is too small; prints what happened."""
    warnings.simplefilter("error")
    config.update("cache_entries", 8)
    config.update("recompile_warning", 0)
    errors: list[str] = []
    calls: list[int] = []

    def work(number: int) -> None:
        try:
            calls.append(use(float(seconds), number, errors))
        except BaseException as error:
            errors.append(repr(error))

    threads = [
        threading.Thread(target=work, args=(1000 * int(seed) + number,))
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps({"calls": sum(calls), "threads": len(calls), "errors": errors}))


def test_nothing_is_wrong_however_long_they_share_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MINIJIT_CACHE": "rw",
        "MINIJIT_CACHE_DIR": str(folder),
        "MINIJIT_COMPILATION_CACHE_MAX_SIZE": str(LARGEST),
    }

    def start(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *arguments],
            env=environment,
            cwd=tmp_path,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    code = "import sys; from tests.runtime.test_soak import main; main(*sys.argv[1:])"
    workers = [start("-c", code, str(SECONDS), str(seed)) for seed in range(PROCESSES)]
    tidied = 0
    while any(worker.poll() is None for worker in workers):
        tool = start("-m", "minijit", "cache", "prune" if tidied % 2 else "verify")
        _, complaints = tool.communicate(timeout=120)
        assert tool.returncode == 0, complaints
        tidied += 1
    for worker in workers:
        printed, complaints = worker.communicate(timeout=60)
        assert worker.returncode == 0, complaints
        report = json.loads(printed)
        assert report["errors"] == []
        assert report["threads"] == THREADS
        assert report["calls"] > THREADS
    store = Store(folder)
    assert tidied
    assert store.verify() == ()
    entries, size, _ = store.usage()
    assert entries
    assert size < 2 * LARGEST  # each process notices by itself that there is too much

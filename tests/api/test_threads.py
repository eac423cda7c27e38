"""Many threads and one function: one trace, one compile, the right results, errors for everyone."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.graph.config import config
from minijit.runtime import pipeline
from tests.conftest import Device
from tests.sampling import DEEP

X = np.linspace(0, 1, 64, dtype=np.float32)


def together(count: int, work: Callable[[int], Any], seconds: float = 120) -> list[Any]:
    """What `work` returns or raises in each of `count` threads that start at once."""
    start = threading.Barrier(count)
    outcomes: list[Any] = [None] * count

    def run(number: int) -> None:
        start.wait(60)
        try:
            outcomes[number] = work(number)
        except Exception as error:
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(end - time.monotonic())
        assert not thread.is_alive()
    return outcomes


def test_a_cold_function_is_traced_and_compiled_once(counts: Counter[str]) -> None:
    calls = []

    @minijit.jit
    def f(x: Any) -> Any:
        calls.append(1)
        return np.exp(x) * x + x.sum()

    results = together(64, lambda _: f(X))
    assert len(calls) == counts["trace"] == counts["program"] == 1
    assert {result.tobytes() for result in results} == {results[0].tobytes()}
    np.testing.assert_allclose(results[0], np.exp(X) * X + X.sum(), rtol=1e-6)
    assert f.stats()["compiles"] == 1


class Failed(Exception):
    pass


def test_a_failed_compile_fails_for_everyone_and_is_no_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise Failed

    f = minijit.jit(lambda x: x * 3)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "compile_plan", fail)
        assert {type(outcome) for outcome in together(16, lambda _: f(X))} == {Failed}
        for _ in range(2):
            with pytest.raises(Failed):
                f(X)
        assert f._cache_size() == 0
    np.testing.assert_array_equal(f(X), X * 3)


def test_a_failed_trace_fails_for_everyone() -> None:
    broken = [True]

    @minijit.jit
    def f(x: Any) -> Any:
        if broken:
            raise Failed
        return x * 3

    assert {type(outcome) for outcome in together(16, lambda _: f(X))} == {Failed}
    broken.clear()
    np.testing.assert_array_equal(f(X), X * 3)


def test_many_signatures_in_a_small_cache(tmp_path: Path) -> None:
    """Most calls drop the program of another: the long form loads each kernel hundreds of times."""
    # No kernel in the short form: what is tried there is the cache.
    f = minijit.jit(lambda x: np.sqrt((x * x).sum()) if DEEP else x @ x)
    wrong: list[Any] = []

    def work(number: int) -> None:
        order = random.Random(number)
        for _ in range(20 if DEEP else 1):
            for size in order.sample(range(1, 51), 50):
                got = f(np.full(size, number + 1, np.float64))
                expected = np.sqrt(size) * (number + 1) if DEEP else size * (number + 1) ** 2
                if not np.isclose(got, expected, rtol=1e-14):
                    wrong.append((number, size, got))

    store = {"compilation_cache": "rw", "compilation_cache_dir": str(tmp_path / "cache")}
    with config.override(cache_entries=16, **store):
        assert together(32, work, seconds=1200 if DEEP else 120) == [None] * 32
        assert not wrong
        assert f._cache_size() <= 16
        assert len(f._hits) <= 16 * 2
    stats = f.stats()
    assert stats["evictions"] == stats["traces"] - f._cache_size()


def test_globals_that_change_while_threads_call(device: Device) -> None:
    """A result belongs to a value that the global had during the call."""
    scale = 1.0
    f = minijit.jit(lambda x: x * scale)
    x, stop = device.put(X + 1), threading.Event()
    f(x)

    def work(number: int) -> None:
        nonlocal scale
        with minijit.default_device(device.name):  # each thread has its own
            if number == 0:
                for n in range(60):
                    scale = float(n % 3 + 1)
                    f(x)
                stop.set()
            while not stop.is_set():
                assert float(device.get(f(x))[0]) in (1, 2, 3)

    assert together(4, work) == [None] * 4
    for scale in (1.0, 2.0, 3.0):
        assert float(device.get(f(x))[0]) == scale
    assert f._cache_size() == 3

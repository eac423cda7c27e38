"""``config.autotune``: schedules are compiled and measured in turn, and the choice is kept."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minijit
from minijit import lax
from minijit.graph.config import config
from minijit.graph.tree import flatten
from minijit.runtime import autotune
from tests.conftest import Device, on_each_device

X = np.linspace(-1, 1, 64 * 96, dtype=np.float32).reshape(64, 96)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def scaled(x: Any, factor: Any, wanted: Any) -> Any:
    return np.where(wanted, np.tanh(x) * factor, x)


@pytest.fixture(autouse=True)
def tuning() -> Iterator[None]:
    minijit.clear_caches()
    with config.override(autotune=True):
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with config.override(compilation_cache="rw", compilation_cache_dir=str(tmp_path)):
        yield tmp_path


def timed_as(
    monkeypatch: pytest.MonkeyPatch, seconds: Callable[[int], float]
) -> Callable[[], list[int]]:
    """Let schedules take given times, by their numbers; return how often each ran."""
    numbers: dict[int, int] = {}
    runs: Counter[int] = Counter()

    def timed(backend: Any, run: Any, count: int) -> float:
        run()
        number = numbers.setdefault(id(run.func), len(numbers))
        runs[number] += 1
        return seconds(number)

    monkeypatch.setattr(autotune, "_seconds", timed)
    return lambda: [runs[number] for number in range(len(numbers))]


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "rows": (softmax, (X,)),
    "columns": (lambda x: x - x.mean(0), (X,)),
    "map": (scaled, (X, 2.5, X > 0)),
    "half": (lambda x: x * x + x, (X.astype(np.float16),)),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda _, v: v * 0.5 + 1, x), (X,)),
    "two-kernels": (lambda x: (x.sum(0), x.sum(1)), (X,)),
}


@on_each_device("name", CASES, emulated=["rows", "map"])
def test_results_are_those_of_one_of_the_schedules(
    name: str, device: Device, counts: Counter[str]
) -> None:
    function, args = CASES[name]
    args = tuple(map(device.put, args))
    got = minijit.jit(function)(*args)
    with config.override(autotune=False):
        want = minijit.jit(function)(*args)
    for result, wanted in zip(
        flatten(device.get(got))[0], flatten(device.get(want))[0], strict=True
    ):
        np.testing.assert_allclose(result, wanted, rtol=1e-6)
    # The short loop over lanes is unrolled: there is nothing to choose.
    kernels = {"two-kernels": 2, "loop": 0}.get(name, 1)
    assert counts["autotuned"] == kernels
    assert counts["compile"] > kernels


@pytest.mark.parametrize("best", [0, 1, 3])
def test_the_fastest_is_taken(best: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = timed_as(monkeypatch, lambda number: 1e-3 if number == best else 2e-3)
    jitted = minijit.jit(softmax)
    np.testing.assert_allclose(jitted(X), softmax(X), rtol=1e-5)
    (kernel,) = jitted.lower(X).compile().kernels()
    with config.override(autotune=False):
        (plain,) = minijit.jit(softmax).lower(X).compile().kernels()
    assert (kernel.schedule == plain.schedule) == (best == 0)
    # Each was tried once, and had a turn in each round.
    assert ran() == [1 + autotune._ROUNDS] * 4


def test_a_small_gain_is_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    timed_as(monkeypatch, lambda number: 1e-3 if number == 0 else 0.99e-3)
    (kernel,) = minijit.jit(softmax).lower(X).compile().kernels()
    assert "at a time" not in kernel.schedule


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["cpu", "cuda-emulated"])
def test_the_choice_is_kept_on_the_disk(
    name: str, monkeypatch: pytest.MonkeyPatch, counts: Counter[str]
) -> None:
    timed_as(monkeypatch, lambda number: 1e-3 if number == 1 else 2e-3)
    with minijit.default_device(name):
        first = minijit.jit(softmax).lower(X).compile()
        (kernel,) = first.kernels()
        assert counts["autotuned"] == 1
        minijit.clear_caches()
        counts.clear()
        again = minijit.jit(softmax).lower(X).compile()
        assert [k.schedule for k in again.kernels()] == [kernel.schedule]
        assert again.kernels()[0].source == kernel.source
        assert counts["compile"] == counts["autotuned"] == 0
        # Other extents are another question.
        minijit.jit(softmax).lower(X[:32]).compile()
        assert counts["autotuned"] == 1


@pytest.mark.usefixtures("folder")
def test_plans_on_the_disk_are_of_one_choice(
    monkeypatch: pytest.MonkeyPatch, counts: Counter[str]
) -> None:
    timed_as(monkeypatch, lambda number: 1e-3 if number == 1 else 2e-3)

    def kernel(tuned: bool) -> Any:
        minijit.clear_caches()
        with config.override(autotune=tuned):
            program = minijit.jit(softmax).lower(X).compile()
        return program.kernels()[0]  # asked for when the option is another one again

    plain, tuned = kernel(False), kernel(True)
    assert counts["autotuned"] == 1
    assert plain.schedule != tuned.schedule
    assert [kernel(False).source, kernel(True).source] == [plain.source, tuned.source]
    assert (kernel(False).schedule, kernel(True).schedule) == (plain.schedule, tuned.schedule)
    assert counts["autotuned"] == 1


def test_the_option_is_part_of_the_signature(counts: Counter[str]) -> None:
    jitted = minijit.jit(softmax)
    jitted(X)
    with config.override(autotune=False):
        jitted(X)
    assert counts["trace"] == 2
    assert counts["autotuned"] == 1
    assert "autotune: True -> False" in str(jitted.explain())


def test_loops_that_might_not_end_are_left_alone(counts: Counter[str]) -> None:
    # On ones it would run for ever.
    function = minijit.jit(lambda x: lax.while_loop(lambda s: s != 0.5, lambda s: s / 2 + 0, x))
    assert function(np.float32(4)) == 0.5
    assert counts["autotuned"] == 0
    assert counts["compile"] == 1


def test_what_takes_long_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(autotune, "_PATIENCE_SECONDS", 0.0)
    with caplog.at_level(logging.WARNING, "minijit"):
        minijit.jit(softmax).lower(X).compile()
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith("autotune softmax_kernel: 1 of 4 schedules compiled, ")
    assert lines[-1].startswith("autotune softmax_kernel: measured 5 of 5 times, ")


def test_what_is_quick_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "minijit"):
        minijit.jit(lambda x: x + 1).lower(X).compile()
    assert caplog.records == []

"""Sums of squares about a mean: large arrays are read once, with the same accuracy as before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.api import load_operations
from minijit.graph.check import check_jaxpr
from minijit.graph.evaluate import evaluate
from minijit.graph.few_rows import FewRows
from minijit.graph.jaxpr import Jaxpr
from minijit.transforms import sums_in_blocks as module
from minijit.transforms.inline import inline_calls
from minijit.transforms.simplify import simplify
from minijit.transforms.sums_in_blocks import sums_in_blocks
from tests.conftest import Device
from tests.transforms.random_programs import trace

load_operations()


def moments(x: Any, axis: Any = 0) -> tuple[Any, Any]:
    mean = np.mean(x, axis=axis, keepdims=True)
    return mean, np.mean((x - mean) * (x - mean), axis=axis)


def draw(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(shape).standard_normal(shape, dtype=np.float32).astype(dtype)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of a few hundred elements count as large."""
    for name, value in {"_FAR_BYTES": 0, "_NEAR_BYTES": 0, "_ROWS": 8, "_BLOCK": 0}.items():
        monkeypatch.setattr(module, name, value)


def listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def program(function: Callable[..., Any], x: Any) -> tuple[Jaxpr, Jaxpr]:
    before = simplify(inline_calls(trace(lambda x: listed(function(x)), [x])))
    after = sums_in_blocks(before)
    check_jaxpr(after)
    assert after.out_avals == before.out_avals
    return before, after


def readers(function: Callable[..., Any], x: Any) -> int:
    """How many kernels read the argument of a function."""
    kernels = minijit.jit(function).lower(x).compile().kernels()
    return sum(" in x\n" in kernel.source for kernel in kernels)


CASES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], Any]] = {
    "columns": (moments, (64, 5), np.float32),
    "columns with a rest": (moments, (67, 5), np.float32),
    "all": (lambda x: moments(x, None), (61, 7), np.float32),
    "all but the middle": (lambda x: moments(x, (0, 2)), (40, 3, 4), np.float32),
    "the middle": (lambda x: moments(x, 1), (3, 41, 4), np.float64),
    "NumPy's own": (lambda x: np.var(x, axis=0, ddof=1), (67, 5), np.float64),
    "half": (lambda x: np.var(x, axis=0), (64, 5), np.float16),
    "standardised": (lambda x: (x - x.mean(0)) / np.sqrt(x.var(0) + 1), (67, 5), np.float32),
    "the mean first": (lambda x: np.sum((x.mean(0) - x) ** 2, axis=0), (64, 5), np.float32),
    "another centre": (lambda x: np.sum((x - np.tanh(x.sum(0))) ** 2, axis=0), (64, 5), np.float32),
}  # fmt: skip


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", CASES)
def test_programs_in_blocks_compute_the_same(name: str, device: Device) -> None:
    function, shape, dtype = CASES[name]
    x = draw(*shape, dtype=dtype) + dtype(3)
    before, after = program(function, x)
    assert str(after) != str(before)
    wanted = evaluate(before, [x])
    tolerance = {"rtol": 2e-3 if dtype == np.float16 else 2e-6, "atol": 2e-6}
    results = device.get(minijit.jit(lambda x: listed(function(x)))(device.put(x)))
    for each in (evaluate(after, [x]), results):
        for a, b in zip(each, wanted, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a, b, **tolerance)


KEPT: dict[str, Callable[[Any], Any]] = {
    "a centre from elsewhere": lambda x: np.sum((x - x[0]) ** 2, axis=0),
    "a centre of another array": lambda x: np.sum((x - np.mean(x * x, axis=0)) ** 2, axis=0),
    "a centre along another axis": lambda x: np.sum((x - x.mean(1, keepdims=True)) ** 2, axis=0),
    "no square": lambda x: np.sum((x - x.mean(0)) * x, axis=0),
    "no sum": lambda x: np.max((x - x.mean(0)) ** 2, axis=0),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", KEPT)
def test_what_is_left_as_it_is(name: str) -> None:
    before, after = program(KEPT[name], draw(64, 5))
    assert after is before


@pytest.mark.parametrize(
    ("shape", "axis"), [((1000, 1000), 0), ((4096, 1024), 1), ((64, 40_000), 1), ((100, 40_000), 0)]
)
def test_arrays_that_a_cache_holds_or_that_are_too_short_are_left(
    shape: tuple[int, ...], axis: int
) -> None:
    before, after = program(lambda x: moments(x, axis), np.zeros(shape, np.float32))
    assert after is before


@pytest.mark.parametrize(("rows", "is_held"), [(1000, True), (2000, False)])
def test_what_a_kernel_keeps_is_left(rows: int, is_held: bool) -> None:
    x = np.zeros((rows, 4096), np.float32)
    before = simplify(inline_calls(trace(lambda x: listed(moments(x)), [x])))
    assert (sums_in_blocks(before, FewRows(264, held=1024)) is before) == is_held


@pytest.mark.parametrize(("rows", "parts"), [(30_000, 1), (29_989, 2)])
def test_a_large_array_is_read_once(rows: int, parts: int) -> None:
    x = np.zeros((rows, 100), np.float32)
    # A number of rows that no size of a block divides leaves a rest, for a kernel of its own.
    assert readers(lambda x: moments(x), x) == parts


@pytest.mark.parametrize("rows", [30_000, 29_989])
@pytest.mark.parametrize("mean", [0, 1e4])
def test_variances_are_as_exact_as_those_of_two_passes(rows: int, mean: float) -> None:
    x = draw(rows, 100) + np.float32(mean)
    found_mean, variance = minijit.jit(moments)(x)
    # A mean in float32 is as far off as that of a pairwise sum, and its square goes into what is
    # computed about it, in two passes as well.
    exact_mean = np.mean(x, axis=0, dtype=np.float64)
    np.testing.assert_allclose(
        found_mean[0], exact_mean, rtol=0, atol=2 * np.spacing(np.abs(x).mean())
    )
    centred = x.astype(np.float64) - found_mean.astype(np.float64)
    np.testing.assert_allclose(variance, np.mean(centred**2, axis=0), rtol=4e-7)


@pytest.mark.usefixtures("small")
def test_equal_numbers_have_no_negative_variance(device: Device) -> None:
    x = np.full((200, 64), 1.1, np.float32) * np.arange(1, 65, dtype=np.float32)
    _, variance = minijit.jit(moments)(device.put(x))
    variance = device.get(variance)
    assert (variance >= 0).all()
    assert (variance <= 1e-9).all()


@pytest.mark.usefixtures("small")
def test_special_values_spread_over_their_column(device: Device) -> None:
    x = draw(64, 4)
    x[3, 1], x[50, 2], x[9, 3] = np.nan, np.inf, -np.inf
    _, variance = minijit.jit(moments)(device.put(x))
    assert np.isnan(device.get(variance)).tolist() == [False, True, True, True]


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    x = draw(30_000, 100)
    results = []
    for threads in (1, 2, 3):
        with minijit.config.override(num_threads=threads):
            results.append(minijit.jit(moments)(x)[1].tobytes())
    assert len(set(results)) == 1

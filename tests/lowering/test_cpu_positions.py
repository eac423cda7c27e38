"""Positions of extreme values in long rows: the segment that had one first is searched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit.lowering.cpu import emit_cpu
from tests.lowering.kernel_builder import Builder

DTYPES = (np.float16, np.float32, np.float64, np.int8, np.uint32, np.int64, np.bool_)
LENGTHS = (511, 512, 513, 1024, 3000)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_the_first_of_equals_is_numpys(name: str, dtype: Any) -> None:
    random = np.random.default_rng(1)
    f = minijit.jit(lambda v: getattr(jnp, name)(v, axis=1))
    for columns in LENGTHS:
        x = random.integers(0, 2 if dtype == np.bool_ else 100, (7, columns)).astype(dtype)
        x[0] = x[0, 0]
        x[1, :-1], x[1, -1] = 1, 0
        x[2, :-1], x[2, -1] = 0, 1
        np.testing.assert_array_equal(f(x), getattr(np, name)(x, axis=1), strict=True)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_first_nan_wins_and_infinities_and_zeros_are_values(name: str, dtype: Any) -> None:
    f = minijit.jit(lambda v: getattr(jnp, name)(v, axis=1))
    x = np.random.default_rng(2).standard_normal((12, 2100)).astype(dtype)
    for row, places in enumerate([(0,), (511,), (512, 513), (1030, 2099), (2099,)]):
        x[row, list(places)] = np.nan
    x[5], x[6], x[7] = np.inf, -np.inf, np.nan
    x[8], x[8, 1::2] = 0.0, -0.0
    x[9, 600], x[9, 1700] = np.inf, np.inf
    x[10, 600], x[10, 1700] = -np.inf, -np.inf
    np.testing.assert_array_equal(f(x), getattr(np, name)(x, axis=1), strict=True)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_whole_arrays_are_searched_across_blocks(dtype: Any) -> None:
    f = minijit.jit(lambda v: (v.argmax(), v.argmin()))
    x = np.random.default_rng(3).integers(-99, 99, 100_003).astype(dtype)
    for place in (0, 16_383, 16_384, 16_896, 100_002):
        y = x.copy()
        y[place], y[-place - 1] = 1000, -1000
        assert tuple(f(y)) == (y.argmax(), y.argmin())


def test_what_else_a_pass_computes_is_the_same() -> None:
    x = np.random.default_rng(4).standard_normal((5, 5000)).astype(np.float32)
    largest, total, place = minijit.jit(lambda v: (v.max(1), v.sum(1), v.argmax(1)))(x)
    np.testing.assert_array_equal(largest, x.max(1), strict=True)
    np.testing.assert_array_equal(place, x.argmax(1), strict=True)
    np.testing.assert_allclose(total, x.sum(1, dtype=np.float64), rtol=1e-4)


def source(names: tuple[str, ...], columns: int) -> str:
    build = Builder((40,), (columns,))
    x, place = build.load([columns, 1]), build.index([0, 1])
    for name in names:
        build.store(build.reduce(name, x, place), [1])
    return emit_cpu(build.kernel()).text


def test_only_the_segment_that_had_the_extreme_first_is_searched() -> None:
    text = source(("argmax",), 3000)
    assert "for i1 in range(512*segment, min(512*segment + 512, 3000)):" in text
    low = "512*segment_max_v2_extreme"
    assert f"for i1 in range({low}, min({low} + 512, 3000)):" in text


def test_short_rows_and_two_extremes_are_searched_as_a_whole() -> None:
    assert "segment" not in source(("argmax",), 512)
    assert "segment_" not in source(("argmax", "argmin"), 3000)

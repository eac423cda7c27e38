"""Columns of few adjacent rows: several side by side give what one after the other would."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit.backends.cpu.compiler import assembly
from minijit.lowering.cpu import emit_cpu
from tests.lowering.kernel_builder import Builder

Array = np.ndarray[Any, Any]
DTYPES = (np.float16, np.float32, np.float64, np.int8, np.int32, np.uint64, np.bool_)


def choices(xp: Any, x: Any) -> tuple[Any, ...]:
    found = (xp.any(x > 1, axis=0), xp.all(x > -1, axis=0), xp.count_nonzero(x, axis=0))
    return (*extremes(xp, x), *found)


def extremes(xp: Any, x: Any) -> tuple[Any, ...]:
    return tuple(getattr(xp, name)(x, axis=0) for name in ("max", "min", "argmax", "argmin"))


def table(rows: int, columns: int, dtype: Any) -> Array:
    """Small numbers, most of them several times in each column."""
    random = np.random.default_rng(rows * columns)
    return random.integers(0, 5, (rows, columns)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("shape", [(64, 8), (999, 9), (20_011, 24)])
def test_choices_are_numpys(shape: tuple[int, int], dtype: Any) -> None:
    x = table(*shape, dtype)
    got = minijit.jit(lambda v: choices(jnp, v))(x)
    for mine, theirs in zip(got, choices(np, x), strict=True):
        np.testing.assert_array_equal(mine, theirs, strict=True)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_first_nan_of_a_column_wins_in_every_part(dtype: Any) -> None:
    f = minijit.jit(lambda v: extremes(jnp, v))
    for row in (0, 7, 8, 500, 990, 998):
        x = table(999, 10, dtype)
        x[row, 3] = x[min(row + 3, 998), 3] = x[998, 7] = np.nan
        for got, want in zip(f(x), extremes(np, x), strict=True):
            np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(40, 8), (999, 10), (20_011, 24)])
def test_sums_are_exact(shape: tuple[int, int], dtype: Any) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(dtype) + dtype(3)
    wide = x.astype(np.longdouble)
    got = minijit.jit(lambda v: (v.sum(0), (v * v).mean(0), v.var(0), v - v.mean(0)))(x)
    want = (wide.sum(0), (wide * wide).mean(0), wide.var(0), wide - wide.mean(0))
    for mine, exact in zip(got, want, strict=True):
        assert mine.dtype == dtype
        bound = 20 * np.finfo(dtype).eps
        np.testing.assert_allclose(mine.astype(np.longdouble), exact, rtol=bound, atol=4 * bound)


def test_integers_and_products_wrap_and_multiply_as_numpys() -> None:
    x = np.random.default_rng(2).integers(-(2**62), 2**62, (1001, 12))
    y = np.random.default_rng(3).uniform(0.9, 1.1, (1001, 12))
    total, product = minijit.jit(lambda v, w: (v.sum(0), w.prod(0)))(x, y)
    np.testing.assert_array_equal(total, x.sum(0), strict=True)
    np.testing.assert_allclose(product, y.prod(0), rtol=1e-12)


def test_positions_are_those_of_the_columns_they_are_in() -> None:
    x = np.ones((1003, 10), np.float32)
    got = minijit.jit(lambda v: (v * jnp.arange(1003.0, dtype=jnp.float32)[:, None]).sum(0))(x)
    np.testing.assert_array_equal(got, np.full(10, 1003 * 1002 / 2, np.float32), strict=True)


def test_what_only_a_row_or_only_a_column_has_is_found_in_every_part() -> None:
    x, per_row, per_column = table(1003, 10, np.float64), np.arange(10.0), np.arange(1003.0)

    def function(v: Any, r: Any, c: Any) -> Any:
        return ((v - r) ** 2).sum(0), (v * c[:, None]).sum(0)

    for got, want in zip(
        minijit.jit(function)(x, per_row, per_column), function(x, per_row, per_column), strict=True
    ):
        np.testing.assert_array_equal(got, want, strict=True)


def schedule(monoid: str, rows: int, columns: int, pitch: int, dtype: Any = np.float32) -> Any:
    build = Builder((rows,), (columns,))
    build.store(build.reduce(monoid, build.load([1, pitch], dtype)), [1])
    return emit_cpu(build.kernel())


@pytest.mark.parametrize(
    ("rows", "dtype", "abreast"),
    [(8, np.float32, 8), (10, np.float32, 8), (10, np.int8, 16), (33, np.float64, 4)],
)
def test_a_line_is_whole_vectors(rows: int, dtype: Any, abreast: int) -> None:
    source = schedule("max", rows, 1000, rows, dtype)
    assert f", {abreast} columns abreast" in source.schedule
    assert rows * abreast * np.dtype(dtype).itemsize % 32 == 0


@pytest.mark.parametrize(
    ("rows", "columns", "pitch"), [(10, 1000, 11), (64, 1000, 64), (10, 31, 10)]
)
def test_gaps_wide_rows_and_short_columns_go_one_by_one(
    rows: int, columns: int, pitch: int
) -> None:
    assert "abreast" not in schedule("max", rows, columns, pitch).schedule


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="looks for x86 instructions"
)
@pytest.mark.parametrize("monoid", ["max", "min"])
def test_maxima_of_a_line_are_blended_not_stored_under_a_mask(monoid: str) -> None:
    code = assembly(schedule(monoid, 16, 1000, 16))
    assert f"{monoid}ps" in code
    assert "maskmov" not in code

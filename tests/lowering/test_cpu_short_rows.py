"""Short rows whose vectors run along the rows: values, what is turned, and what is not."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit.backends.cpu.compiler import assembly
from minijit.lowering.cpu import emit_cpu
from minijit.lowering.source import KernelSource
from tests.lowering.kernel_builder import Builder

DTYPES = (np.float16, np.float32, np.float64, np.int8, np.int32, np.uint16, np.bool_)


def choices(xp: Any, x: Any) -> tuple[Any, ...]:
    return (
        xp.argmax(x, axis=1),
        xp.argmin(x, axis=1),
        xp.max(x, axis=1),
        xp.any(x > 1, axis=1),
        xp.all(x > 0, axis=1),
        xp.count_nonzero(x, axis=1),
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("shape", [(127, 9), (128, 9), (1001, 13), (10_000, 10), (777, 31)])
def test_choices_are_numpys(shape: tuple[int, int], dtype: Any) -> None:
    x = np.random.default_rng(shape).integers(0, 5, shape).astype(dtype)
    got = minijit.jit(lambda v: choices(jnp, v))(x)
    for mine, theirs in zip(got, choices(np, x), strict=True):
        np.testing.assert_array_equal(mine, theirs, strict=True)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_nan_wins_in_its_row_alone(dtype: Any) -> None:
    x = np.random.default_rng(1).standard_normal((1003, 10)).astype(dtype)
    for row, column in ((0, 0), (5, 9), (127, 3), (128, 8), (1002, 7)):
        x[row, column] = x[row, 9] = np.nan
    f = minijit.jit(lambda v: (v.max(1), v.min(1), v.argmax(1), v.argmin(1)))
    want = (x.max(1), x.min(1), x.argmax(1), x.argmin(1))
    for mine, theirs in zip(f(x), want, strict=True):
        np.testing.assert_array_equal(mine, theirs, strict=True)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("columns", [9, 10, 20, 32])
def test_sums_are_exact_to_the_last_bits(columns: int, dtype: Any) -> None:
    x = np.random.default_rng(2).uniform(0.8, 1.2, (515, columns)).astype(dtype)
    wide = x.astype(np.longdouble)

    def function(xp: Any, v: Any) -> tuple[Any, ...]:
        shifted = xp.exp(v - v.max(1, keepdims=True))
        return v.sum(1), v.var(1), v.prod(1), xp.log(shifted.sum(1))

    for mine, exact in zip(
        minijit.jit(lambda v: function(jnp, v))(x), function(np, wide), strict=True
    ):
        assert mine.dtype == dtype
        bound = 20 * np.finfo(dtype).eps
        np.testing.assert_allclose(mine.astype(np.longdouble), exact, rtol=bound, atol=bound)


def test_views_and_several_operands_are_read_where_they_are() -> None:
    random = np.random.default_rng(3)
    x = random.standard_normal((3, 400, 12)).astype(np.float32)
    y, weight = x[:, ::-1, 1:11], random.standard_normal(10).astype(np.float32)
    got = minijit.jit(lambda a, b, w: (a * b * w).max(-1))(x[..., :10], y, weight)
    np.testing.assert_array_equal(got, (x[..., :10] * y * weight).max(-1), strict=True)


def reduced(rows: int, columns: int, dtype: Any = np.float32, op: str = "") -> KernelSource:
    build = Builder((rows,), (columns,))
    x = build.load([columns, 1], dtype)
    build.store(build.reduce("max", build.map(op, x) if op else x), [1])
    return emit_cpu(build.kernel())


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "op", "turned"),
    [
        (1000, 10, np.float32, "", True),
        (1000, 10, np.float16, "", True),
        (1000, 20, np.float32, "exp", True),  # LLVM computes four of them one by one
        (1000, 8, np.float32, "", False),  # LLVM takes several rows at a time
        (1000, 20, np.float32, "", False),  # over before they would be turned
        (1000, 24, np.float32, "exp", False),  # whole vectors
        (1000, 33, np.float32, "exp", False),
        (100, 10, np.float32, "", False),
        (1000, 10, np.float64, "", False),
        (1000, 10, np.int8, "", False),
    ],
)
def test_rows_are_turned_where_that_takes_less(
    rows: int, columns: int, dtype: Any, op: str, turned: bool
) -> None:
    source = reduced(rows, columns, dtype, op)
    assert ("1 operands turned" in source.schedule) == turned
    assert source.schedule.startswith("column" if turned else "row")


def test_what_cells_store_is_not_turned_back() -> None:
    build = Builder((1000,), (10,))
    x = build.load([10, 1])
    build.store(build.map("sub", x, build.reduce("max", x)), [10, 1])
    assert "turned" not in emit_cpu(build.kernel()).schedule


def test_a_unit_holds_many_tiles() -> None:
    source = reduced(100_000, 10)
    assert source.launch.units < 100
    assert ", 128):" in source.text


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="looks for x86 instructions"
)
def test_vectors_run_along_the_rows() -> None:
    code = assembly(reduced(1000, 10))
    assert "maxps" in code
    assert "maskmov" not in code

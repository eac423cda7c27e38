"""Generated CPU kernels that reduce, compiled and run, against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.backends.cpu_kernels import check, run
from tests.lowering.cuda_kernels import softmax
from tests.lowering.kernel_builder import Builder, constant

F16, F32, F64 = np.float16, np.float32, np.float64
BOOL, I32, I64, U8 = np.bool_, np.int32, np.int64, np.uint8


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("rows", "cols"),
    [
        (3, 1),
        (70, 2),
        (5, 3),
        (300, 128),
        (2, 1000),
        (1, 70_001),
        (270, 260),
        (270, 1001),
        (65, 5000),
        (65, 20_001),
    ],
)
def test_softmax(rows: int, cols: int, axis: int) -> None:
    source = check(softmax(rows, cols, axis))
    column = axis == 0 and rows >= 8 and cols > 1
    assert source.schedule.startswith("column" if column else "row")


@pytest.mark.parametrize("dtype", [F16, F64])
def test_softmax_of_other_floats(dtype: Any) -> None:
    for axis in (0, 1):
        check(softmax(40, 272, axis, dtype), tolerance=2e-3 if dtype is F16 else 1e-12)


@pytest.mark.parametrize("axis", [0, 1])
def test_layernorm_with_weights_and_row_output(axis: int) -> None:
    build = Builder((60,), (200,))
    strides = [200, 1] if axis else [1, 60]
    x = build.load(strides)
    mean = build.map("mul", build.reduce("sum", x), constant(1 / 200))
    centred = build.map("sub", x, mean)
    square = build.map("mul", centred, centred)
    variance = build.map("mul", build.reduce("sum", square), constant(1 / 200))
    scale = build.map("rsqrt", build.map("add", variance, constant(1e-5)))
    normal = build.map("mul", centred, scale)
    affine = build.map("add", build.map("mul", normal, build.load([0, 1])), build.load([0, 1]))
    build.store(affine, strides)
    build.store(build.map("mul", mean, build.load([1])), [1])
    build.store(build.map("exp", x), strides)
    check(build.kernel(), tolerance=1e-4)


@pytest.mark.parametrize("monoid", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_of_float_and_int(monoid: str, axis: int) -> None:
    for dtype, wide in ((F32, F32), (F64, F64), (I32, I64), (U8, U8)):
        build = Builder((50,), (577,))
        x = build.load([577, 1] if axis == 1 else [1, 50], dtype)
        build.store(build.reduce(monoid, build.convert(x, wide)), [1])
        # Sums of 577 such numbers in float32 are off by up to 2.4e-5 here, NumPy's by 6.7e-5.
        check(build.kernel(), tolerance=3e-5 if wide is F32 else 1e-5)


@pytest.mark.parametrize("cols", [600, 602])
@pytest.mark.parametrize(
    ("monoid", "dtype"), [("sum", F32), ("sum", F64), ("sum", I32), ("prod", F32), ("max", F16)]
)
def test_columns_that_are_added_several_at_a_time(monoid: str, dtype: Any, cols: int) -> None:
    build = Builder((130,), (cols,))
    x = build.load([1, 130], dtype)
    first = build.reduce(monoid, x)
    away = build.map("sub", x, first)
    build.store(build.reduce("max", build.map("mul", away, away)), [1])
    build.store(first, [1])
    source = check(build.kernel(), tolerance=2e-3 if dtype is F16 else 1e-5)
    assert source.schedule.startswith("column")
    assert "own_max" in source.text


@pytest.mark.parametrize("monoid", ["any", "all"])
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_of_bools(monoid: str, axis: int) -> None:
    for cols in (1, 3, 64, 300):
        build = Builder((9,), (cols,))
        x = build.load([cols, 1] if axis else [1, 9], BOOL)
        # Only some rows agree with chance.
        mixed = build.map(
            "logical_or" if monoid == "all" else "logical_and", x, build.load([1, 0], BOOL)
        )
        build.store(build.reduce(monoid, mixed), [1])
        check(build.kernel(), tolerance=0)


@pytest.mark.parametrize("monoid", ["argmax", "argmin"])
@pytest.mark.parametrize(("rows", "cols", "axis"), [(4, 70, 1), (1, 6000, 1), (60, 90, 0)])
def test_positions_of_extrema(monoid: str, rows: int, cols: int, axis: int) -> None:
    # Integers repeat: the first of equals has to win.
    for dtype in (F32, I32, F16):
        build = Builder((rows,), (cols,))
        x = build.load([cols, 1] if axis == 1 else [1, rows], dtype)
        build.store(build.reduce(monoid, x, build.index([0, 1])), [1])
        check(build.kernel(), tolerance=0)


def test_the_first_nan_is_the_extreme() -> None:
    build = Builder((3,), (500,))
    x = build.load([500, 1])
    build.store(build.reduce("argmax", x, build.index([0, 1])), [1])
    build.store(build.reduce("argmin", x, build.index([0, 1])), [1])
    build.store(build.reduce("max", x), [1])
    values = np.random.default_rng(0).standard_normal((3, 500)).astype(F32)
    values[1, [250, 400]] = np.nan
    values[2] = -np.inf
    largest, smallest, top = run(build.kernel(), [values.ravel()])
    assert largest.tolist() == values.argmax(1).tolist()
    assert smallest.tolist() == values.argmin(1).tolist()
    np.testing.assert_array_equal(top, values.max(1))


def test_reduction_over_two_separate_dimensions() -> None:
    for inner in (10, 3000):
        build = Builder((6,), (4, inner))
        build.store(build.reduce("sum", build.load([inner, 6 * inner, 1])), [1])
        check(build.kernel(), tolerance=1e-4)


@pytest.mark.parametrize("middle", [7, 700])
def test_reduction_over_a_middle_axis(middle: int) -> None:
    build = Builder((3, 200), (middle,))
    x = build.load([200 * middle, 1, 200])
    total = build.reduce("sum", build.map("mul", x, build.load([0, 0, 1])))
    build.store(build.map("add", total, build.load([1, 0])), [200, 1])
    source = check(build.kernel(), tolerance=1e-4)
    assert source.schedule.startswith("column")


@pytest.mark.parametrize("size", [4001, 50_000])
def test_ragged_blocks_of_a_long_reduction(size: int) -> None:
    block = 4096
    blocks = -(-size // block)
    build = Builder((blocks, 2), (block,), ragged=size)
    x = build.load([block, size, 1], size=2 * size)
    build.store(build.reduce("sum", x), [2, 1])
    build.store(build.reduce("max", x), [2, 1])
    build.store(build.reduce("sum", constant(1.0)), [2, 1])
    check(build.kernel(), tolerance=1e-4)


def test_ragged_columns() -> None:
    size, block, lanes = 1000, 300, 64
    blocks = -(-size // block)
    build = Builder((blocks, lanes), (block,), ragged=size)
    x = build.load([block * lanes, 1, lanes], size=size * lanes)
    build.store(build.reduce("sum", x), [lanes, 1])
    assert check(build.kernel(), tolerance=1e-4).schedule.startswith("column")


def test_reduction_of_nothing() -> None:
    build = Builder((3,), (0,))
    build.store(build.reduce("sum", build.load([0, 1])), [1])
    (found,) = run(build.kernel(), [np.ones(1, F32)])
    assert found.tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("axis", [0, 1])
def test_sums_are_no_less_accurate_than_numpys(dtype: Any, axis: int) -> None:
    rows, cols = 16, 200_000
    build = Builder((rows,), (cols,))
    x = build.load([cols, 1] if axis else [1, rows], dtype)
    wide = F32 if dtype is F16 else dtype
    build.store(build.reduce("sum", build.convert(x, wide)), [1])
    kernel = build.kernel()
    values = np.random.default_rng(1).random(rows * cols).astype(dtype)
    matrix = values.reshape(rows, cols) if axis else values.reshape(cols, rows).T
    exact = np.array([math.fsum(row) for row in matrix.astype(F64)])
    (found,) = run(kernel, [values])
    theirs = np.sum(np.ascontiguousarray(matrix), axis=1, dtype=wide)
    assert np.abs(found - exact).max() <= np.abs(theirs - exact).max() + np.spacing(
        exact.max().astype(wide)
    )


def test_sum_of_infinities() -> None:
    for dtype in (F32, F64):
        build = Builder((3,), (5000,))
        build.store(build.reduce("sum", build.load([5000, 1], dtype)), [1])
        values = np.ones((3, 5000), dtype)
        values[0, 4000] = np.inf
        values[1, [10, 4000]] = np.inf, -np.inf
        (found,) = run(build.kernel(), [values.ravel()])
        np.testing.assert_array_equal(found, [np.inf, np.nan, 5000])

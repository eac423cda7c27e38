"""Generated CPU kernels, compiled and run, against NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from minijit.backends.cpu.backend import CpuBackend
from minijit.backends.cpu.pool import available_threads, set_threads
from minijit.graph.index import Affine
from minijit.lowering.kernel_ir import Guard, Kernel, Level, Role, Value
from minijit.lowering.source import KernelSource
from tests.lowering.kernel_builder import Builder, constant, evaluate, random_inputs

F16, F32, F64 = np.float16, np.float32, np.float64
BOOL, I8, I32, I64, U8, U64 = np.bool_, np.int8, np.int32, np.int64, np.uint8, np.uint64
BACKEND = CpuBackend()
Arrays = list[np.ndarray[Any, Any]]


def run(kernel: Kernel, inputs: Sequence[Any], scalars: Sequence[Any] = ()) -> Arrays:
    """Compile and launch a kernel on one and on two threads; the results must be the same bits."""
    source = BACKEND.emit(kernel)
    launch = BACKEND.load(source, BACKEND.compile(source))
    results: list[Arrays] = []
    for threads in (1, 2):
        set_threads(threads)
        outputs = [np.zeros(b.size, b.dtype) for b in kernel.buffers if b.role is Role.OUTPUT]
        launch((*inputs, *outputs, *scalars))
        results.append(outputs)
    set_threads(available_threads())
    for one, two in zip(*results, strict=True):
        assert one.tobytes() == two.tobytes()
    return results[0]


def check(
    kernel: Kernel, scalars: Sequence[Any] = (), tolerance: float = 1e-5, seed: int = 0
) -> KernelSource:
    """Compare every output of a kernel with NumPy's; zero tolerance means the same bits."""
    inputs = random_inputs(kernel, seed)
    for result, wanted in zip(
        run(kernel, inputs, scalars), evaluate(kernel, inputs, scalars), strict=True
    ):
        if tolerance:
            np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(result.view(U8), wanted.view(U8))
    return BACKEND.emit(kernel)


def c_strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def arithmetic(shape: Sequence[int], dtype: Any = F32) -> Kernel:
    """(x * y + x) / y - x, which NumPy computes with one rounding an operation."""
    build = Builder(shape)
    strides = c_strides(shape)
    x, y = build.load(strides, dtype), build.load(strides, dtype)
    total = build.map("add", build.map("mul", x, y), x)
    build.store(build.map("sub", build.map("div", total, y), x), strides)
    return build.kernel()


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("shape", [(1,), (7,), (1000,), (100_003,), (37, 411)])
def test_arithmetic_is_numpys_bit_for_bit(shape: tuple[int, ...], dtype: Any) -> None:
    check(arithmetic(shape, dtype), tolerance=0)


@pytest.mark.parametrize("dtype", [I8, U8, I32, I64, U64])
def test_integers_wrap_like_numpys(dtype: Any) -> None:
    build = Builder((999,))
    x, y = build.load([1], dtype), build.load([1], dtype)
    square = build.map("mul", build.map("add", x, constant(100, dtype)), y)
    for _ in range(3):
        square = build.map("mul", square, square)
    build.store(build.map("sub", square, x), [1])
    check(build.kernel(), tolerance=0)


def test_scalar_result_and_scalar_arguments() -> None:
    build = Builder(())
    build.store(build.map("mul", build.load([]), build.read()), [])
    check(build.kernel(), (2.5,), tolerance=0)


def test_arguments_of_every_dtype() -> None:
    scalars = {
        F16: 1 / 3,
        F32: 1 / 3,
        F64: 1 / 3,
        I8: -7,
        I32: -(2**31),
        U64: 2**64 - 1,
        BOOL: True,
    }
    for dtype, scalar in scalars.items():
        build = Builder((5,))
        build.store(
            build.map("select", build.load([1], BOOL), build.read(dtype), build.read(dtype)), [1]
        )
        check(build.kernel(), (scalar, dtype(0)), tolerance=0)


@pytest.mark.parametrize(
    "shape", [(7, 8), (33, 1200), (5, 7), (3, 5, 16), (4, 3, 5), (2, 3, 70_000)]
)
def test_broadcast_operands(shape: tuple[int, ...]) -> None:
    build = Builder(shape)
    strides = c_strides(shape)
    full = build.load(strides)
    inner = build.load([0] * (len(shape) - 1) + [1])
    outer = build.load([1] + [0] * (len(shape) - 1))
    build.store(build.map("mul", build.map("add", full, inner), outer), strides)
    check(build.kernel(), tolerance=0)


@pytest.mark.parametrize("shape", [(6, 10), (300, 500)])
def test_strided_and_flipped_operands(shape: tuple[int, int]) -> None:
    rows, cols = shape
    build = Builder(shape)
    transposed = build.load([1, rows])
    flipped = build.load([cols, -1], offset=cols - 1)
    stepped = build.load([4 * cols, 2], offset=3)
    total = build.map("add", build.map("add", transposed, flipped), stepped)
    build.store(total, [cols, 1])
    build.store(total, [1, rows])
    check(build.kernel(), tolerance=0)


def test_flips_of_whole_arrays_merge_their_dimensions() -> None:
    build = Builder((6, 10))
    build.store(build.load([-10, -1], offset=59), [10, 1])
    assert "i1" not in check(build.kernel(), tolerance=0).text


def test_mixed_dtypes() -> None:
    build = Builder((1000,))
    mask, small, x = build.load([1], BOOL), build.load([1], I8), build.load([1], F32)
    chosen = build.map("select", mask, x, build.convert(small, F32))
    build.store(chosen, [1])
    positive = build.map("gt", x, constant(0.0), dtype=BOOL)
    build.store(positive, [1])
    build.store(build.map("logical_and", positive, mask, dtype=BOOL), [1])
    build.store(build.convert(positive, I32), [1])
    build.store(build.convert(chosen, F16), [1])
    build.store(build.convert(x, BOOL), [1])
    check(build.kernel(), tolerance=0)


@pytest.mark.parametrize("result", [I8, U8, np.int16, np.uint16, I32, np.uint32, I64, U64])
@pytest.mark.parametrize("source", [F32, F64])
def test_float_to_integer_casts(source: Any, result: Any) -> None:
    build = Builder((1000,))
    build.store(build.convert(build.load([1], source), result), [1])
    top = 2.0 ** min(np.iinfo(result).bits - 1, 62)
    low = -1.0 if np.iinfo(result).min == 0 else -top
    values = np.concatenate([np.linspace(low, top * 0.999, 994), [0.5, -0.5, -0.99, 1, 2, 3]])
    values = values.astype(source)
    (found,) = run(build.kernel(), [values])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, values.astype(result))


def test_casts_of_nan_and_infinity_are_defined() -> None:
    build = Builder((64,))
    x = build.load([1])
    build.store(build.convert(x, I32), [1])
    values = np.tile(np.array([np.nan, np.inf, -np.inf, 1e30], F32), 16)
    (found,) = run(build.kernel(), [values])
    assert found.tolist() == [-(2**31)] * 64


def test_float64_is_rounded_to_float16_only_once() -> None:
    build = Builder((200_000,))
    build.store(build.convert(build.load([1], F64), F16), [1])
    random = np.random.default_rng(0)
    halves = random.integers(0, 0x7BFF, 100_000).astype(np.uint16).view(F16).astype(F64)
    # Just above the midpoint of two float16 numbers, where rounding to float32 first gives a tie.
    middles = (halves + np.nextafter(halves.astype(F16), F16(np.inf)).astype(F64)) / 2
    values = np.concatenate([middles * (1 + 2.0**-45), middles * (1 - 2.0**-45)])
    (found,) = run(build.kernel(), [values])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found.view(np.uint16), values.astype(F16).view(np.uint16))


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, -0.0, 0.1, 1e-45, 3.4e38])
def test_constants(number: float) -> None:
    for dtype in (F16, F32, F64):
        build = Builder((9,))
        with np.errstate(all="ignore"):
            number_of_dtype = constant(number, dtype)
        build.store(build.map("copysign", number_of_dtype, build.load([1], dtype)), [1])
        build.store(number_of_dtype, [1])
        check(build.kernel(), tolerance=0)


def test_guarded_loads() -> None:
    # A pad: element i exists where 0 <= i - 3 < 20; what lies outside is never read.
    build = Builder((30,))
    guard = Value("inside", np.dtype(BOOL), Level.ROW)
    build.body.append(Guard(guard, ((Affine(-3, ((0, 1),)), 0, 20),)))
    build.store(build.load([1], offset=-3, size=20, guard=guard), [1])
    x = np.arange(1, 21, dtype=F32)
    (found,) = run(build.kernel(), [x])
    assert found.tolist() == [0] * 3 + x.tolist() + [0] * 7


def test_positions() -> None:
    build = Builder((5, 9))
    build.store(build.map("mul", build.index([100, 1]), constant(2, I64)), [9, 1])
    check(build.kernel(), tolerance=0)


def softmax(rows: int, cols: int, axis: int = 1, dtype: Any = F32) -> Kernel:
    build = Builder((rows,), (cols,))
    strides = [cols, 1] if axis == 1 else [1, rows]
    wide = [F32] if dtype is F16 else [dtype]
    x = build.load(strides, dtype)
    top = build.reduce("max", x, accumulators=wide)
    e = build.map("exp", build.map("sub", x, top))
    total = build.reduce("sum", e, accumulators=wide)
    build.store(build.map("div", e, total), strides)
    return build.kernel()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("rows", "cols"), [(3, 1), (70, 2), (5, 3), (300, 128), (2, 1000), (1, 70_001), (270, 260)]
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
        check(build.kernel())


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
    build = Builder((2, blocks), (block,), ragged=size)
    x = build.load([size, block, 1], size=2 * size)
    build.store(build.reduce("sum", x), [blocks, 1])
    build.store(build.reduce("max", x), [blocks, 1])
    build.store(build.reduce("sum", constant(1.0)), [blocks, 1])
    check(build.kernel(), tolerance=1e-4)


def test_ragged_columns() -> None:
    size, block, lanes = 1000, 300, 64
    blocks = -(-size // block)
    build = Builder((lanes, blocks), (block,), ragged=size)
    x = build.load([1, block * lanes, lanes], size=size * lanes)
    build.store(build.reduce("sum", x), [blocks, 1])
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


def random_kernel(seed: int) -> Kernel:
    """Some rows and columns, operands of any layout, and a random chain of maps and reductions."""
    random = np.random.default_rng(seed)
    sizes = (1, 2, 3, 8, 17, 70, 130)
    rows = tuple(int(n) for n in random.choice(sizes, random.integers(0, 4)))
    cols = tuple(int(n) for n in random.choice(sizes, random.integers(0, 3)))
    if math.prod(rows + cols) > 200_000:
        rows = rows[:1]
    build = Builder(rows, cols)
    count = len(rows + cols)

    def layout(dims: Sequence[int], gaps: int = 1) -> tuple[list[int], int]:
        """Strides of an array over ``dims`` in random order, some flipped; and its offset."""
        strides, step, offset = [0] * count, int(random.integers(1, gaps + 1)), 0
        for dim in random.permutation(list(dims)):
            extent = (rows + cols)[dim]
            flipped = random.random() < 0.2
            strides[dim] = -step if flipped else step
            offset += step * (extent - 1) if flipped else 0
            step *= extent
        return strides, offset

    def load(dtype: Any = F32) -> Value:
        dims = [dim for dim in range(count) if random.random() < 0.8]
        strides, offset = layout(dims, gaps=2)
        return build.load(strides, dtype, offset=offset)

    # Keep the numbers small, so that tolerances mean the same everywhere.
    cells = [load(), load(), build.map("sin", build.convert(load(I32), F32))]
    if random.random() < 0.5:
        cells.append(build.map("sin", build.convert(build.index([1] * count), F32)))
    ops = ("add", "sub", "mul", "max", "exp", "abs", "min")
    for _ in range(int(random.integers(2, 9))):
        op = str(random.choice(ops))
        picked = [cells[int(n)] for n in random.integers(0, len(cells), 2)]
        value = build.map(op, *(picked[:1] if op in ("exp", "abs") else picked))
        cells.append(build.map("sin", value))
        if cols and random.random() < 0.4:
            monoid = str(random.choice(["sum", "max", "min"]))
            total = build.reduce(monoid, cells[-1])
            cells.append(build.map("sin", build.map("mul", total, constant(0.01))))
    for value in cells[-2:]:
        whole = value.level is Level.CELL
        strides, offset = layout(range(count if whole else len(rows)))
        build.store(value, strides, offset=offset)
    return build.kernel()


@pytest.mark.parametrize("seed", range(25))
def test_random_kernels(seed: int) -> None:
    check(random_kernel(seed), tolerance=2e-4)

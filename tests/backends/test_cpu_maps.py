"""Generated elementwise CPU kernels, compiled and run, against NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from minijit.graph.index import Affine
from minijit.graph.layout import contiguous_strides
from minijit.lowering.kernel_ir import Guard, Kernel, Level, Value
from tests.backends.cpu_kernels import check, run
from tests.lowering.kernel_builder import Builder, constant

F16, F32, F64 = np.float16, np.float32, np.float64
BOOL, I8, I32, I64, U8, U64 = np.bool_, np.int8, np.int32, np.int64, np.uint8, np.uint64


def arithmetic(shape: Sequence[int], dtype: Any = F32) -> Kernel:
    """(x * y + x) / y - x, which NumPy computes with one rounding an operation."""
    build = Builder(shape)
    strides = contiguous_strides(shape)
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
    strides = contiguous_strides(shape)
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


@pytest.mark.parametrize("dtype", [BOOL, I8, F16, F32, I32])
@pytest.mark.parametrize("shape", [(128, 128), (16, 300), (200, 129), (130, 67)])
def test_operands_across_the_inner_loop_are_turned(shape: tuple[int, int], dtype: Any) -> None:
    rows, cols = shape
    build = Builder(shape)
    build.store(build.load([1, rows], dtype), [cols, 1])
    source = check(build.kernel(), tolerance=0)
    assert source.schedule.endswith("1 operands turned")
    assert source.text.count("turn(") == 1


def test_two_operands_are_turned_beside_one_that_is_not() -> None:
    build = Builder((5, 70, 90))
    shuffled = build.map("sub", build.load([1, 450, 5]), build.load([6300, 1, -70], offset=6230))
    flipped = build.load([6300, 1, 70])
    row = build.load([0, 0, 1])
    build.store(build.map("mul", build.map("add", shuffled, flipped), row), [6300, 90, 1])
    assert check(build.kernel(), tolerance=0).schedule.endswith("2 operands turned")


@pytest.mark.parametrize(("shape", "dtype"), [((3, 500), F32), ((500, 15), F32), ((64, 64), F64)])
def test_short_dimensions_and_wide_elements_are_not_turned(
    shape: tuple[int, int], dtype: Any
) -> None:
    rows, cols = shape
    build = Builder(shape)
    build.store(build.load([1, rows], dtype), [cols, 1])
    assert "turn" not in check(build.kernel(), tolerance=0).text


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "arity"), [("exp", 1), ("sin", 1), ("pow", 2)])
def test_functions_of_many_uses_return_the_same_bits(name: str, arity: int, dtype: Any) -> None:
    # Few are written out, many are called; both for vectors and for what is left after them.
    x = np.linspace(-3, 3, 1003).astype(dtype)
    results = []
    for times in (1, 9):
        build = Builder((x.size,))
        for _ in range(times):
            build.store(build.map(name, *(build.load([1], dtype) for _ in range(arity))), [1])
        inputs = [x + k for k in range(arity)] * times
        results.append(run(build.kernel(), inputs))
    (few,), many = results
    assert {result.tobytes() for result in many} == {few.tobytes()}

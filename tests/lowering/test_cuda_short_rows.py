"""Rows that fill no sectors: a block moves all of its rows through shared memory at once."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from minijit.backends.base import load_source
from minijit.backends.emulator.backend import EmulatedBackend
from minijit.backends.emulator.counters import Counters
from minijit.backends.emulator.device import EmulatedDevice
from minijit.lowering.cuda import emit_cuda
from minijit.lowering.kernel_ir import Kernel
from tests.lowering.cuda_kernels import softmax
from tests.lowering.kernel_builder import Builder, constant, evaluate, random_inputs
from tests.lowering.simt import compared
from tests.sampling import paired, sampled

F16, F32, F64 = np.float16, np.float32, np.float64
CAPABILITIES = ((8, 0), (9, 0), (10, 0))
THROUGH = "all rows of a block through shared memory"


def interpreted(kernel: Kernel, *, tolerance: float = 1e-5, **options: Any) -> str:
    """Run a kernel thread by thread against NumPy, and return its text."""
    source, _ = compared(kernel, tolerance=tolerance, **options)
    assert THROUGH in source.schedule
    return source.text


def launched(kernel: Kernel, cc: tuple[int, int], tolerance: float) -> Counters:
    """Run the PTX of a kernel against NumPy, and return what that cost."""
    backend = EmulatedBackend(EmulatedDevice(cc, count=True, block_order=3), cc)
    source = backend.emit(kernel)
    binary = backend.compile(source)
    assert (binary.resources["stack"], binary.resources["spill_stores"]) == (0, 0)
    inputs = random_inputs(kernel)
    outputs = [backend.device.empty((b.size,), b.dtype) for b in kernel.outputs]
    load_source(backend, source, binary)((*map(backend.asarray, inputs), *outputs))
    for result, wanted in zip(outputs, evaluate(kernel, inputs), strict=True):
        np.testing.assert_allclose(np.asarray(result), wanted, rtol=tolerance, atol=tolerance)
    assert THROUGH in source.schedule
    (counters,) = backend.device.counters.values()
    return counters


# Odd lengths and even ones, with one thread for a row up to a warp; blocks whole and not.
SHAPES = ((64, 5), (33, 9), (70, 10), (40, 33), (64, 77), (35, 100), (7, 131), (16, 301))


@pytest.mark.parametrize("vectorize", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_softmax(shape: tuple[int, int], vectorize: bool) -> None:
    interpreted(softmax(*shape), vectorize=vectorize)


@pytest.mark.parametrize(
    ("case", "cc"),
    paired(sampled(itertools.product(SHAPES, (F16, F32, F64)), 2), CAPABILITIES),
    ids=str,
)
def test_softmax_moves_each_sector_once(
    case: tuple[tuple[int, int], Any], cc: tuple[int, int]
) -> None:
    (rows, cols), dtype = case
    counters = launched(softmax(rows, cols, dtype=dtype), cc, 2e-3 if dtype is F16 else 1e-5)
    assert counters.l1_sectors == counters.distinct_sectors
    assert counters.bank_conflicts == 0


DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@pytest.mark.parametrize(("dtype", "cc"), paired(DTYPES, CAPABILITIES), ids=str)
def test_all_widths_come_back_as_they_were(dtype: str, cc: tuple[int, int]) -> None:
    """What is read, and the last of its row beside it, in an array of another width."""
    rows, cols = 100, 13
    build = Builder((rows,), (cols,))
    x = build.load([cols, 1], dtype)
    most = build.reduce("any" if dtype == "bool" else "max", x)
    build.store(x, [cols, 1])
    build.store(build.map("eq", x, most, dtype=np.bool_), [cols, 1])
    build.store(most, [1])
    kernel = build.kernel()
    counters = launched(kernel, cc, 0)
    assert counters.l1_sectors == counters.distinct_sectors
    assert counters.bank_conflicts == 0
    interpreted(kernel)


def test_signs_of_half_nans_are_kept() -> None:
    build = Builder((40,), (9,))
    x = build.load([9, 1], F16)
    build.store(build.map("signbit", x, dtype=np.bool_), [9, 1])
    build.store(build.reduce("max", x), [1])
    kernel = build.kernel()
    text = emit_cuda(kernel).text
    assert "read_rows_signed(tile0_" in text
    backend = EmulatedBackend()
    source = backend.emit(kernel)
    x = np.tile(np.array([np.nan, -np.nan, -0.0, 1], F16), 90)
    signs, most = backend.device.empty((360,), np.bool_), backend.device.empty((40,), F16)
    load_source(backend, source, backend.compile(source))((backend.asarray(x), signs, most))
    np.testing.assert_array_equal(np.asarray(signs), np.signbit(x))


def test_values_of_rows_go_through_tiles_of_their_own() -> None:
    """Of a column that is read and of two that are written, rows of a warp lie apart."""
    rows, cols = 64, 77
    build = Builder((rows,), (cols,))
    x, scale = build.load([cols, 1]), build.load([1])
    mean = build.map("mul", build.reduce("sum", x), constant(1 / cols))
    build.store(build.map("mul", build.map("sub", x, mean), scale), [cols, 1])
    build.store(mean, [1])
    build.store(build.reduce("argmax", x, build.index([0, 1])), [1])
    counters = launched(build.kernel(), (9, 0), 1e-5)
    assert counters.l1_sectors == counters.distinct_sectors
    assert counters.bank_conflicts == 0


def test_what_is_shared_by_rows_is_read_in_place() -> None:
    rows, cols = 40, 33
    build = Builder((rows,), (cols,))
    x, weight = build.load([cols, 1]), build.load([0, 1])
    total = build.reduce("sum", x)
    build.store(build.map("add", build.map("div", x, total), weight), [cols, 1])
    assert "load(b1, j)" in interpreted(build.kernel())


def test_a_result_does_not_take_the_place_of_what_is_still_to_be_read() -> None:
    """The first result is known before the second array is read, the second one after."""
    rows, cols = 35, 9
    build = Builder((rows,), (cols,))
    x, late = build.load([cols, 1]), build.load([cols, 1])
    top = build.reduce("max", x)
    build.store(build.map("mul", x, x), [cols, 1])
    build.store(build.map("sub", late, top), [cols, 1])
    text = interpreted(build.kernel())
    assert text.count("read_rows") == text.count("write_rows") == 2
    assert text.count("shared.array") == 2
    written = [line.split("(")[1].split(",")[0] for line in text.splitlines() if "write_r" in line]
    read = [line.split("(")[1].split(",")[0] for line in text.splitlines() if "read_r" in line]
    assert read == written


def test_rows_of_several_dimensions() -> None:
    """One array lies row after row; the other repeats along the first dimension, in place."""
    build = Builder((5, 8), (9,))
    x, mask = build.load([72, 9, 1]), build.load([0, 9, 1])
    z = build.map("add", x, mask)
    build.store(build.map("sub", z, build.reduce("max", z)), [72, 9, 1])
    text = interpreted(build.kernel())
    assert text.count("read_rows") == 1


@pytest.mark.parametrize(
    "strides", [[10, 1], [9, -1], [0, 1]], ids=["rows apart", "backwards", "one row for all"]
)
def test_other_rows_are_read_in_place(strides: list[int]) -> None:
    build = Builder((40,), (9,))
    x = build.load(strides, offset=8 if strides[1] < 0 else 0)
    build.store(build.reduce("max", x), [1])
    assert THROUGH not in emit_cuda(build.kernel()).schedule


@pytest.mark.parametrize("shape", [(100, 8), (100, 64), (1, 33), (100, 3001)], ids=str)
def test_rows_that_gain_nothing_stay_as_they_are(shape: tuple[int, int]) -> None:
    assert THROUGH not in emit_cuda(softmax(*shape)).schedule

"""Results that no cache holds: which kernels stream them, as what code, with what values."""

from __future__ import annotations

import platform
import re
from typing import Any

import numpy as np
import pytest

from minijit.backends.cpu.compiler import assembly
from minijit.lowering.cpu import emit_cpu
from minijit.lowering.kernel_ir import Kernel
from tests.backends.cpu_kernels import run
from tests.lowering.kernel_builder import Builder

LARGE = 1 << 24  # elements of four bytes: 64 MiB

x86 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="looks for x86 instructions"
)


def mapped(shape: tuple[int], op: str = "neg", dtype: Any = np.float32) -> Kernel:
    build = Builder(shape)
    build.store(build.map(op, build.load([1], dtype)), [1])
    return build.kernel("mapped")


def centred(rows: int, cols: int, op: str = "neg") -> Kernel:
    build = Builder((rows,), (cols,))
    x = build.load([cols, 1])
    build.store(build.map(op, build.map("sub", x, build.reduce("max", x))), [cols, 1])
    return build.kernel("centred")


def summed(rows: int, cols: int) -> Kernel:
    build = Builder((rows,), (cols,))
    x = build.load([cols, 1])
    build.store(build.map("neg", x), [cols, 1])
    build.store(build.reduce("sum", x), [1])
    return build.kernel()


def biased(rows: int, cols: int) -> Kernel:
    build = Builder((rows, cols))
    build.store(build.map("add", build.load([cols, 1]), build.load([0, 1])), [cols, 1])
    return build.kernel()


def transposed(rows: int, cols: int) -> Kernel:
    build = Builder((rows, cols))
    build.store(build.load([1, rows]), [cols, 1])
    return build.kernel()


def test_a_large_result_is_collected_in_segments_and_streamed() -> None:
    assert emit_cpu(mapped((LARGE,))).text == (
        "def mapped(start, stop, segment0, b0, b1, extent, block):\n"
        "    # segment0: float32[256] scratch\n"
        "    # b0: float32[16777216] in x0\n"
        "    # b1: float32[16777216] out y0\n"
        "    # extent: int64, 16777216 here\n"
        "    # block: int64, 74752 here\n"
        "    last = min(block*stop, extent)\n"
        "    for low in range(block*start, last, 256):\n"
        "        high = min(low + 256, last)\n"
        "        for i0 in range(low, high):\n"
        "            v0 = b0[i0]  # x0\n"
        "            v1 = float32(neg_float32(v0))  # model.py:12\n"
        "            segment0[i0 - low] = v1\n"
        "        stream(b1, low, segment0, high - low)  # y0\n"
        "    settle_stores()\n"
    )


def test_the_results_of_a_kernel_count_together() -> None:
    for size, streams in ((LARGE // 2, 2), (LARGE // 2 - 1, 0)):
        build = Builder((size,))
        x = build.load([1])
        for op in ("neg", "abs"):
            build.store(build.map(op, x), [1])
        assert emit_cpu(build.kernel()).text.count("stream(") == streams


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(mapped((LARGE - 1,)), id="small"),
        pytest.param(mapped((LARGE,), "exp"), id="bound by computing"),
        pytest.param(biased(1 << 14, 1025), id="rows begin inside of lines"),
        pytest.param(biased(1 << 18, 128), id="short rows"),
        pytest.param(centred(1 << 14, 1024, "tanh"), id="rows bound by computing"),
        pytest.param(summed(1 << 14, 1024), id="sums in the same loop"),
        pytest.param(transposed(1 << 12, 1 << 12), id="across the order in memory"),
    ],
)
def test_what_would_gain_nothing_or_change_is_stored_as_ever(kernel: Kernel) -> None:
    text = emit_cpu(kernel).text
    assert "stream(" not in text
    assert "settle_stores" not in text


def test_the_last_pass_over_rows_streams_and_asks_for_no_place() -> None:
    source = emit_cpu(centred(1 << 14, 1024))
    text = source.text
    assert source.schedule.endswith(", 1 results past the caches")
    assert text.count("stream(b1, 1024*i0 + low, segment0, high - low)") == 1
    assert "prefetch_read" in text
    assert "prefetch_write" not in text
    assert "prefetch_write" in emit_cpu(centred((1 << 14) - 1, 1024)).text


@x86
def test_non_temporal_stores_are_in_large_kernels_alone() -> None:
    for large, small in (
        (mapped((LARGE,)), mapped((LARGE - 1,))),
        (centred(1 << 14, 1024), centred((1 << 14) - 1, 1024)),
    ):
        code = assembly(emit_cpu(large))
        assert re.search(r"\bv?movnt(ps|dq)\b", code)
        # Another thread may read the results once this one says that it is done.
        assert re.search(r"\b(mfence|lock)\b", code)
        assert "movnt" not in assembly(emit_cpu(small))


def streamed(kernel: Kernel, *inputs: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    assert "stream(" in emit_cpu(kernel).text
    return run(kernel, inputs)


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
def test_streamed_maps_equal_numpy(dtype: Any) -> None:
    # The last segment is not whole, and no array of NumPy's need begin where a line does.
    x = np.arange((1 << 26) // np.dtype(dtype).itemsize + 77).astype(np.int8).astype(dtype)
    (result,) = streamed(mapped(x.shape, dtype=dtype), x)
    np.testing.assert_array_equal(result, -x)
    assert result.dtype == x.dtype


def test_results_of_several_types_are_streamed_from_one_loop() -> None:
    build = Builder((LARGE + 5,))
    x = build.load([1])
    build.store(build.map("neg", x), [1])
    build.store(build.map("lt", x, x, dtype=np.bool_), [1])
    build.store(build.convert(x, np.float64), [1])
    x = np.random.default_rng(0).standard_normal(LARGE + 5, dtype=np.float32)
    negative, less, wide = streamed(build.kernel(), x)
    np.testing.assert_array_equal(negative, -x)
    np.testing.assert_array_equal(less, np.zeros(x.shape, bool))
    np.testing.assert_array_equal(wide, x.astype(np.float64))


def test_streamed_rows_equal_numpy() -> None:
    x = np.random.default_rng(0).standard_normal((1 << 12, 4096), dtype=np.float32)
    (result,) = streamed(centred(*x.shape), x.ravel())
    np.testing.assert_array_equal(result, -(x - x.max(axis=1, keepdims=True)).ravel())


def test_streamed_rows_with_a_broadcast_operand_equal_numpy() -> None:
    x = np.random.default_rng(0).standard_normal((1 << 14, 1040), dtype=np.float32)
    (result,) = streamed(biased(*x.shape), x.ravel(), x[0])
    np.testing.assert_array_equal(result, (x + x[0]).ravel())

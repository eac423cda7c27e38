"""CPU kernels with loops and branches, compiled and run, against the interpreter."""

from __future__ import annotations

import math
import platform
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from minijit.backends.cpu.compiler import assembly
from minijit.graph.layout import contiguous_strides
from minijit.lowering.cpu import emit_cpu
from minijit.lowering.kernel_ir import Kernel, Level, Operand, Value
from minijit.lowering.source import KernelSource
from tests.backends.cpu_kernels import run
from tests.lowering.kernel_builder import constant, random_inputs
from tests.lowering.loop_builder import LoopBuilder, interpret
from tests.lowering.random_loops import random_kernel
from tests.sampling import DEEP

BOOL, I32, I64 = np.bool_, np.int32, np.int64
F16, F32, F64 = np.float16, np.float32, np.float64
SHAPES = [(), (1,), (3,), (16,), (37,), (1000,), (5000,), (7, 33), (3, 4, 70)]


def check(kernel: Kernel, scalars: Sequence[Any] = (), tolerance: float = 0.0) -> KernelSource:
    """Compare a kernel, on one and two threads, with the interpreter: the same bits by default."""
    inputs = random_inputs(kernel)
    results, wanted = run(kernel, inputs, scalars), interpret(kernel, inputs, scalars)
    for result, want in zip(results, wanted, strict=True):
        if tolerance:
            np.testing.assert_allclose(result, want, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(result, want)
    return emit_cpu(kernel)


def average(rows: Sequence[int], length: int, dtype: Any = F32, *, reverse: bool = False) -> Kernel:
    """A moving average of ``x[step]``, collected at each step; the last one is stored too."""
    build = LoopBuilder(rows)
    size = math.prod(rows)

    def step(mean: Value) -> list[Operand]:
        strides = [*contiguous_strides(rows), -size if reverse else size]
        offset = size * (length - 1) if reverse else 0
        x = build.load(strides, dtype, offset=offset, size=size * length)
        kept = build.map("mul", constant(0.75, dtype), mean)
        following = build.map("add", kept, build.map("mul", constant(0.25, dtype), x))
        build.store(following, strides, offset=offset)
        return [following]

    (last,) = build.loop([constant(0, dtype)], step, length)
    build.store(last, contiguous_strides(rows))
    return build.kernel("average")


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("rows", SHAPES)
def test_a_scan_is_numpys_loop_bit_for_bit(rows: tuple[int, ...], dtype: Any) -> None:
    check(average(rows, 6, dtype))


@pytest.mark.parametrize("length", [1, 2, 17])
@pytest.mark.parametrize("reverse", [False, True])
def test_lengths_and_directions(length: int, reverse: bool) -> None:
    check(average((300,), length, reverse=reverse))


def test_rows_that_lie_far_apart_are_fetched_ahead() -> None:
    source = check(average((1 << 14,), 20))
    assert source.text.count("prefetch_") == 2
    assert "prefetch_" not in emit_cpu(average((1 << 14,), 2)).text


@pytest.mark.parametrize("rows", SHAPES)
@pytest.mark.parametrize("dtype", [F16, F32, F64, I32, BOOL])
def test_carries_swap(rows: tuple[int, ...], dtype: Any) -> None:
    build = LoopBuilder(rows)
    strides = contiguous_strides(rows)
    inits = [build.load(strides, dtype) for _ in range(3)]
    outs = build.loop(inits, lambda x, y, z: [y, z, x], 5)
    for out in outs:
        build.store(out, strides)
    check(build.kernel())


@pytest.mark.parametrize("rows", [(), (5,), (700,), (40, 50)])
def test_scalars_and_arrays_are_carried_together(rows: tuple[int, ...]) -> None:
    build = LoopBuilder(rows)
    size = math.prod(rows)
    x = build.load(contiguous_strides(rows))

    def step(count: Value, factor: Value, total: Value) -> list[Operand]:
        further = build.map("add", total, build.map("mul", x, factor))
        half = build.map("mul", factor, constant(0.5))
        build.store(further, [*contiguous_strides(rows), size])
        build.store(half, [*[0] * len(rows), 1])
        return [build.map("add", count, constant(1, I32)), half, further]

    inits = [constant(3, I32), constant(2), constant(0)]
    levels = [Level.LAUNCH, Level.LAUNCH, Level.ROW]
    count, factor, total = build.loop(inits, step, 4, levels=levels)
    build.store(count, [])
    build.store(factor, [])
    build.store(total, contiguous_strides(rows))
    source = check(build.kernel())
    if rows:
        # What all points share is computed once for each unit, and stored by one.
        assert re.search(r"if \(low == 0\).*:\n +b\d\[i\d\] = ", source.text)


@pytest.mark.parametrize("rows", [(), (5,), (700,)])
@pytest.mark.parametrize("bound", [0, 1, 9])
def test_while_asks_before_each_step(rows: tuple[int, ...], bound: int) -> None:
    build = LoopBuilder(rows)
    limit = build.read(I32)

    def go_on(count: Value, total: Value) -> Operand:
        return build.map("lt", count, limit, dtype=BOOL)

    def step(count: Value, total: Value) -> list[Operand]:
        more = build.map("add", count, constant(1, I32))
        return [more, build.map("add", total, build.convert(more, F32))]

    inits = [constant(0, I32), build.load(contiguous_strides(rows))]
    levels = [Level.LAUNCH, Level.ROW]
    count, total = build.loop(inits, step, condition=go_on, levels=levels)
    build.store(count, [])
    build.store(total, contiguous_strides(rows))
    check(build.kernel(), (bound,))


def counting(rows: tuple[int, ...], outer: bool = False) -> Kernel:
    """Each point counts up to a limit of its own, in another loop of its own with ``outer``."""
    build = LoopBuilder(rows)
    strides = contiguous_strides(rows)
    limit = build.load(strides, I32)

    def go_on(count: Value, total: Value) -> Operand:
        return build.map("lt", count, limit, dtype=BOOL)

    def step(count: Value, total: Value) -> list[Operand]:
        more = build.map("add", count, constant(1, I32))
        if outer:
            _, total = build.loop([constant(-3, I32), total], inner, condition=go_on)
        return [more, build.map("mul", total, constant(1.5, F32))]

    def inner(count: Value, total: Value) -> list[Operand]:
        more = build.map("add", count, constant(1, I32))
        return [more, build.map("add", total, constant(0.25, F32))]

    count, total = build.loop([constant(-3, I32), build.load(strides)], step, condition=go_on)
    build.store(count, strides)
    build.store(total, strides)
    return build.kernel("counting")


@pytest.mark.parametrize("rows", [(3,), (16,), (50,), (1000,), (7, 33)])
def test_points_leave_a_loop_together_and_keep_what_they_have(rows: tuple[int, ...]) -> None:
    """Vectors take steps until the last of their points is done."""
    kernel = counting(rows)
    source = check(kernel)
    assert "select_float32(" in source.text
    assert re.search(r"any_v\d+ = uint8\(any_v\d+ \| lanes_v\d+\[", source.text)
    limits = random_inputs(kernel)
    counts, _ = run(kernel, limits)
    np.testing.assert_array_equal(counts, np.maximum(limits[0], -3))
    assert len(np.unique(counts)) > 1


def test_points_are_computed_one_by_one_where_a_loop_might_not_end_for_others() -> None:
    source = check(counting((50,), outer=True))
    assert "any_v" not in source.text
    assert "lanes_v" not in source.text


def choice(rows: Sequence[int], blocks: int) -> Kernel:
    build = LoopBuilder(rows)
    strides = contiguous_strides(rows)
    x, y = build.load(strides), build.load(strides)
    both = build.map("add", x, y)

    def block(number: int) -> Callable[[], list[Operand]]:
        def make() -> list[Operand]:
            if number == 0:
                return [x, constant(1, I32)]
            scaled = build.map("mul", both, constant(number))
            return [build.map("sub", scaled, build.load(strides)), constant(number, I32)]

        return make

    value, number = build.branch(build.read(I32), *map(block, range(blocks)))
    build.store(build.map("mul", value, both), strides)
    build.store(number, strides)
    return build.kernel("choice")


@pytest.mark.parametrize("rows", [(), (3,), (37,), (3000,), (7, 33)])
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_a_branch_takes_one_block(rows: tuple[int, ...], blocks: int) -> None:
    kernel = choice(rows, blocks)
    for index in range(blocks):
        source = check(kernel, (index,))
    assert source.text.count("if v") == blocks - 1
    assert not source.launch.scratch, "what follows a branch is written into its blocks"


@pytest.mark.parametrize("index", [-5, 7])
def test_any_other_index_takes_the_last_block(index: int) -> None:
    kernel = choice((100,), 3)
    inputs = random_inputs(kernel)
    for result, last in zip(run(kernel, inputs, (index,)), run(kernel, inputs, (2,)), strict=True):
        np.testing.assert_array_equal(result, last)


@pytest.mark.parametrize("rows", [(), (4,), (37,), (2000,)])
def test_a_branch_in_a_loop_and_a_loop_in_a_branch(rows: tuple[int, ...]) -> None:
    build = LoopBuilder(rows)
    strides = contiguous_strides(rows)
    x = build.load(strides)

    def step(count: Value, total: Value) -> list[Operand]:
        odd = build.map("bitwise_and", count, constant(1, I32))

        def repeated() -> list[Operand]:
            def inner(value: Value) -> list[Operand]:
                return [build.map("sub", build.map("mul", value, constant(0.5)), x)]

            return list(build.loop([total], inner, 3))

        def plain() -> list[Operand]:
            return [build.map("add", total, build.load([*strides, math.prod(rows)]))]

        (value,) = build.branch(odd, plain, repeated)
        following = build.map("mul", value, constant(0.25))
        build.store(following, [*strides, math.prod(rows)])
        return [build.map("add", count, constant(1, I32)), following]

    levels = [Level.LAUNCH, Level.ROW]
    _, last = build.loop([constant(0, I32), constant(1)], step, 5, levels=levels)
    build.store(last, strides)
    check(build.kernel())


@pytest.mark.parametrize("rows", [(), (3,), (16,), (37,), (2000,)])
def test_loops_in_loops(rows: tuple[int, ...]) -> None:
    build = LoopBuilder(rows)
    strides = contiguous_strides(rows)
    size = math.prod(rows)

    def outer(first: Value, second: Value) -> list[Operand]:
        x = build.load([*strides, size])

        def inner(value: Value, other: Value) -> list[Operand]:
            following = build.map("add", build.map("mul", value, constant(0.5)), x)
            build.store(following, [*strides, 3 * size, size])
            return [build.map("sub", other, first), following]

        value, other = build.loop([second, x], inner, 3)
        return [other, value]

    outs = build.loop([constant(1), build.load(strides)], outer, 4)
    for out in outs:
        build.store(out, strides)
    check(build.kernel())


def test_a_loop_in_a_loop_works_in_the_memory_of_the_outer_one() -> None:
    build = LoopBuilder((512,))
    x = build.load([1])

    def outer(value: Value) -> Sequence[Operand]:
        return build.loop([value], lambda v: [build.map("mul", v, x)], 3)

    build.store(build.loop([constant(1)], outer, 4)[0], [1])
    assert len(check(build.kernel()).launch.scratch) == 1


@pytest.mark.parametrize("rows", [(), (3,), (40,)])
@pytest.mark.parametrize("cols", [(5,), (1000,), (5000,), (7, 30)])
def test_rows_are_reduced_in_each_step(rows: tuple[int, ...], cols: tuple[int, ...]) -> None:
    """Power iteration, with the largest value of each step collected."""
    build = LoopBuilder(rows, cols)
    strides = contiguous_strides((*rows, *cols))
    none = [0] * len(cols)
    x, scale = build.load(strides), build.load([0] * len(rows) + [*contiguous_strides(cols)])

    def step(vector: Value, largest: Value) -> list[Operand]:
        scaled = build.map("add", build.map("mul", vector, scale), x)
        total = build.reduce("sum", build.map("mul", scaled, scaled))
        unit = build.map("div", scaled, build.map("sqrt", total))
        top = build.reduce("max", unit)
        build.store(top, [*contiguous_strides(rows), *none, math.prod(rows)])
        return [unit, build.map("add", largest, top)]

    levels = [Level.CELL, Level.ROW]
    unit, largest = build.loop([x, constant(0)], step, 4, levels=levels)
    build.store(unit, strides)
    build.store(largest, [*contiguous_strides(rows), *none])
    check(build.kernel(), tolerance=1e-5)


def test_a_branch_on_the_steps_of_a_loop_that_reduces() -> None:
    build = LoopBuilder((6,), (300,))

    def step(count: Value, vector: Value) -> list[Operand]:
        odd = build.map("bitwise_and", count, constant(1, I32))

        def centred() -> list[Operand]:
            top = build.reduce("max", vector)
            return [build.map("sub", vector, top)]

        (value,) = build.branch(odd, centred, lambda: [build.map("mul", vector, constant(0.5))])
        return [build.map("add", count, constant(1, I32)), value]

    levels = [Level.LAUNCH, Level.CELL]
    _, last = build.loop([constant(0, I32), build.load([300, 1])], step, 5, levels=levels)
    build.store(last, [300, 1])
    check(build.kernel())


@pytest.mark.parametrize("rows", [(), (3,), (16,), (37,), (1000,), (7, 33), (20, 3), (3, 4, 70)])
def test_random_kernels(rows: tuple[int, ...]) -> None:
    for seed in range(4 if DEEP else 2):
        check(random_kernel(rows, seed=10 * sum(rows) + seed), (seed - 1,))


def test_a_scan_reads_as_it_is_meant() -> None:
    assert emit_cpu(average((1000,), 6)).text == (
        "def average(start, stop, lanes_v0, b0, b1, b2):\n"
        "    # lanes_v0: float32[64] scratch\n"
        "    # b0: float32[6000] in x0\n"
        "    # b1: float32[6000] out y0\n"
        "    # b2: float32[1000] out y1\n"
        "    for unit in range(start, stop):\n"
        "        block0 = unit\n"
        "        low, high = 64*block0, min(64*block0 + 64, 1000)\n"
        "        for i0 in range(low, high):\n"
        "            lanes_v0[i0 - low] = float32(0.0)\n"
        "        for i1 in range(6):  # model.py:20\n"
        "            for i0 in range(low, high):\n"
        "                v0 = freeze(lanes_v0[i0 - low])\n"
        "                v1 = b0[i0 + 1000*i1]  # x0\n"
        "                v2 = float32(0.75) * v0  # model.py:12\n"
        "                v3 = float32(0.25) * v1  # model.py:12\n"
        "                v4 = v2 + v3  # model.py:12\n"
        "                b1[i0 + 1000*i1] = v4  # y0\n"
        "                lanes_v0[i0 - low] = v4\n"
        "        for i0 in range(low, high):\n"
        "            v5 = lanes_v0[i0 - low]\n"
        "            b2[i0] = v5  # y1\n"
    )


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="looks for x86 instructions"
)
@pytest.mark.parametrize("rows", [(8,), (4096,)])
def test_steps_run_in_vectors(rows: tuple[int, ...]) -> None:
    code = assembly(emit_cpu(average(rows, 1000)))
    assert re.search(r"\bv?mulps\b", code)
    assert "fmadd" not in code


def clamped(rows: Sequence[int], dtype: Any, length: int = 9) -> Kernel:
    """A loop that multiplies what is still below one, and streams nothing."""
    build = LoopBuilder(rows)
    x = build.load(contiguous_strides(rows), dtype)

    def step(y: Value) -> list[Operand]:
        small = build.map("lt", y, constant(1, dtype), dtype=BOOL)
        return [build.map("select", small, build.map("mul", y, constant(1.5, dtype)), y)]

    (last,) = build.loop([x], step, length)
    build.store(last, contiguous_strides(rows))
    return build.kernel("clamped")


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("rows", [*SHAPES, (63,), (64,), (65,), (4097,), (3, 65)])
def test_steps_that_stream_nothing_take_full_vectors(rows: tuple[int, ...], dtype: Any) -> None:
    source = check(clamped(rows, dtype))
    lanes = 32 if dtype == F64 else 64
    # Dimensions that are contiguous together are one.
    assert (f"high = low + {lanes}" in source.text) == (math.prod(rows) >= lanes)


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="looks for x86 instructions"
)
@pytest.mark.parametrize("dtype", [F32, F64, I32, I64])
def test_what_is_put_back_is_no_store_under_a_mask(dtype: Any) -> None:
    build = LoopBuilder((4096,))
    x = build.load([1], dtype)

    def step(largest: Value) -> list[Operand]:
        row = build.load([1, 4096], dtype, size=4096 * 50)
        return [build.map("select", build.map("gt", row, largest, dtype=BOOL), row, largest)]

    (last,) = build.loop([x], step, 50)
    build.store(last, [1])
    source = check(build.kernel())
    assert source.text.count("freeze(") == 1
    assert "maskmov" not in assembly(source)


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="looks for x86 instructions"
)
@pytest.mark.parametrize("rows", [(64,), (4097,)])
def test_what_is_carried_stays_in_registers(rows: tuple[int, ...]) -> None:
    code = assembly(emit_cpu(clamped(rows, F32, 100)))
    products = [line for line in code.splitlines() if re.search(r"\bv?mulps\b", line)]
    assert products
    assert all("(" not in line for line in products)  # neither read from memory there
    assert "maskmov" not in code  # nor written, element by element where masks are slow

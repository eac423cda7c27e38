"""CPU source: how kernels are cut, what is written, and that LLVM turns it into vector code."""

from __future__ import annotations

import platform
import re

import llvmlite.binding as llvm
import numpy as np
import pytest

from minijit.backends.cpu.compiler import assembly, llvm_code
from minijit.graph.index import Affine
from minijit.lowering.coalesce import coalesce
from minijit.lowering.cpu import emit_cpu
from minijit.lowering.kernel_ir import Kernel, Load, Value
from minijit.lowering.stages import stage_kernel
from tests.lowering.kernel_builder import Builder, constant

x86 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="looks for x86 instructions"
)


def softmax(rows: int = 64, cols: int = 1024) -> Kernel:
    build = Builder((rows,), (cols,))
    x = build.load([cols, 1])
    e = build.map("exp", build.map("sub", x, build.reduce("max", x)))
    build.store(build.map("div", e, build.reduce("sum", e)), [cols, 1])
    return build.kernel("softmax")


def test_softmax_reads_as_it_is_meant() -> None:
    source = emit_cpu(softmax())
    assert source.text == (
        "def softmax(start, stop, kept_v3, b0, b1):\n"
        "    # kept_v3: float32[1024] scratch\n"
        "    # b0: float32[65536] in x0\n"
        "    # b1: float32[65536] out y0\n"
        "    for i0 in range(22*start, min(22*stop, 64)):\n"
        "        max_v1 = float32(-inf)\n"
        "        for i1 in range(1024):\n"
        "            v0 = b0[1024*i0 + i1]  # x0\n"
        "            max_v1 = fold_max(max_v1, v0)  # model.py:12\n"
        "        v1 = max_v1\n"
        "        sum_v4 = float32(0.0)\n"
        "        for i1 in range(1024):\n"
        "            v0 = b0[1024*i0 + i1]  # x0\n"
        "            v2 = v0 - v1  # model.py:12\n"
        "            v3 = exp_nonpositive_float32(v2)  # model.py:12\n"
        "            kept_v3[i1] = v3\n"
        "            sum_v4 = fold_sum(sum_v4, v3)  # model.py:12\n"
        "        v4 = sum_v4\n"
        "        for i1 in range(1024):\n"
        "            v3 = kept_v3[i1]\n"
        "            v5 = v3 / v4  # model.py:12\n"
        "            b1[1024*i0 + i1] = v5  # y0\n"
    )


def test_long_rows_keep_values_where_their_result_will_be() -> None:
    short, long = (emit_cpu(softmax(cols=cols)) for cols in (16_384, 16_385))
    assert [scratch.name for scratch in short.launch.scratch] == ["kept_v3"]
    assert not long.launch.scratch
    assert long.text.count("b1[16385*i0 + i1]") == 3  # kept, read back, and the result
    assert "1 of them in the place of a result" in long.schedule


def kept_of(build: Builder, value: Value, total: Value) -> list[str]:
    """The scratch arrays of a kernel that stores a kept value over a total of its row."""
    build.store(build.map("div", value, total), [LONG, 1])
    return [scratch.name for scratch in emit_cpu(build.kernel()).launch.scratch]


LONG = 40_000


def test_what_is_of_another_type_than_the_result_is_kept_elsewhere() -> None:
    for dtype, kept in ((np.float32, []), (np.float16, ["kept_v1"])):
        build = Builder((64,), (LONG,))
        e = build.map("exp", build.load([LONG, 1], dtype))
        assert kept_of(build, e, build.reduce("max", e)) == kept


def test_two_values_are_not_kept_in_the_place_of_one_result() -> None:
    build = Builder((64,), (LONG,))
    x = build.load([LONG, 1])
    e, t = build.map("exp", x), build.map("tanh", x)
    total = build.map("add", build.reduce("max", e), build.reduce("max", t))
    assert len(kept_of(build, build.map("add", e, t), total)) == 1


def test_expensive_values_are_kept_between_stages() -> None:
    staging = stage_kernel(softmax())
    assert [value.name for value in staging.kept] == ["v3"]
    assert [len(stage.reduces) for stage in staging.stages] == [1, 1, 0]


def test_nothing_is_kept_beyond_the_budget() -> None:
    staging = stage_kernel(softmax(), budget=1024 * 4 - 1)
    assert staging.kept == ()
    computed = [s.out.name for s in staging.stages[2].cells if hasattr(s, "out")]
    assert computed == ["v0", "v2", "v3", "v5"]


def test_loads_are_kept_on_request() -> None:
    staging = stage_kernel(softmax(), keep_loads=True)
    assert [value.name for value in staging.kept] == ["v0", "v3"]
    assert sum(isinstance(s, Load) for stage in staging.stages for s in stage.cells) == 1


def test_cheap_values_are_computed_again() -> None:
    build = Builder((8,), (100,))
    x = build.load([100, 1])
    centred = build.map("sub", x, build.reduce("sum", x))
    total = build.reduce("sum", build.map("mul", centred, centred))
    build.store(build.map("mul", centred, total), [100, 1])
    assert stage_kernel(build.kernel()).kept == ()


def test_stores_happen_as_soon_as_their_values_are_known() -> None:
    build = Builder((8,), (100,))
    x = build.load([100, 1])
    build.store(build.map("exp", x), [100, 1])
    build.store(build.reduce("sum", x), [1])
    staging = stage_kernel(build.kernel())
    assert len(staging.stages) == 1
    assert len(staging.after) == 1


def test_dimensions_that_are_walked_together_merge() -> None:
    build = Builder((2, 1, 3, 4), (5, 6))
    strides = [360, 0, 120, 30, 6, 1]
    build.store(build.map("neg", build.load(strides)), strides)
    kernel = coalesce(build.kernel())
    assert (kernel.rows, kernel.cols) == ((24,), (30,))
    (load,) = (s for s in kernel.body if isinstance(s, Load))
    assert load.index == Affine(0, ((0, 30), (1, 1)))


def test_broadcast_operands_hold_dimensions_apart() -> None:
    build = Builder((2, 3, 4))
    total = build.map("add", build.load([12, 4, 1]), build.load([0, 0, 1]))
    build.store(total, [12, 4, 1])
    assert coalesce(build.kernel()).rows == (6, 4)


def test_rows_take_the_order_of_the_output_in_memory() -> None:
    build = Builder((3, 4, 5))
    build.store(build.load([1, 3, 12]), [1, 3, 12])
    assert coalesce(build.kernel()).rows == (60,)


def test_blocks_of_ragged_kernels_stay_apart() -> None:
    build = Builder((4, 2, 3), (8,), ragged=30)
    build.store(build.reduce("sum", build.load([8, 90, 30, 1])), [6, 3, 1])
    kernel = coalesce(build.kernel())
    assert (kernel.rows, kernel.cols) == ((4, 6), (8,))


def vector_loop(kernel: Kernel) -> str:
    return assembly(emit_cpu(kernel))


@x86
def test_a_chain_of_additions_runs_in_vectors() -> None:
    build = Builder((4096,))
    total = build.load([1])
    for _ in range(6):
        total = build.map("add", build.map("mul", total, build.load([1])), total)
    build.store(total, [1])
    source = emit_cpu(build.kernel())
    code = assembly(source)
    assert len(re.findall(r"\bv?addps\b", code)) >= 6
    # The code serves every size: what is left over after whole vectors is added one by one.
    assert len(re.findall(r"\bv?addss\b", code)) <= 6
    # What the user wrote is not contracted, and eight pointers need no checks for overlap.
    assert "fmadd" not in code
    assert "memcheck" not in llvm_code(source)


@x86
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_runs_in_vectors(dtype: type) -> None:
    build = Builder((4096,))
    build.store(build.map("exp", build.load([1], dtype)), [1])
    kind = "s" if dtype is np.float32 else "d"
    code = vector_loop(build.kernel())
    assert re.search(rf"\bv?mulp{kind}\b|\bvfmadd\w+p{kind}\b", code)
    assert "call" not in code


def hyperbolic(rows: int, times: int = 1) -> Kernel:
    build = Builder((rows,))
    value = build.load([1])
    for _ in range(times):
        value = build.map("tanh", value)
    build.store(value, [1])
    return build.kernel()


def quotients(kernel: Kernel) -> int:
    """How many vectors of quotients the code of a kernel with one division computes."""
    return len(re.findall(r"= fdiv <\d+ x float>", llvm_code(emit_cpu(kernel))))


@pytest.mark.parametrize("rows", [100, 4096])
def test_several_vectors_of_a_long_chain_are_computed_at_a_time(rows: int) -> None:
    assert quotients(hyperbolic(rows)) >= 4


def chain(op: str, times: int) -> Kernel:
    build = Builder((4096,))
    value = build.load([1])
    for _ in range(times):
        value = build.map(op, value, build.load([1]))
    build.store(value, [1])
    return build.kernel()


def test_vectors_of_short_loops_and_chains_are_left_to_llvm() -> None:
    for kernel in (chain("add", 1), hyperbolic(20)):
        assert emit_cpu(kernel).launch.interleave == 0
    assert emit_cpu(chain("add", 100)).launch.interleave == 4
    assert quotients(hyperbolic(20)) < 4


def test_a_function_of_many_uses_is_compiled_once_and_called_for_vectors() -> None:
    few, many = (llvm_code(emit_cpu(hyperbolic(4096, times))) for times in (7, 8))
    assert "@minijit.tanh" not in few
    # Four vectors at a time; LLVM may add a loop over what is left.
    assert len(re.findall(r"call <\d+ x float> @minijit\.tanh_float32", many)) in (32, 40)
    assert len(re.findall(r"call float @minijit\.tanh_float32", many)) == 8
    assert "# tanh_float32: called" in emit_cpu(hyperbolic(4096, 8)).text


@pytest.mark.parametrize(("dtype", "lanes"), [(np.float32, 8), (np.float64, 4)])
def test_called_functions_fill_the_widest_vectors(dtype: type, lanes: int) -> None:
    if not llvm.get_host_cpu_features().get("avx2"):
        pytest.skip("this processor has no AVX2")
    build = Builder((4096,))
    value = build.load([1], dtype)
    for _ in range(8):
        value = build.map("exp", value)
    build.store(value, [1])
    assert f"> @minijit.exp_{dtype.__name__}.{lanes}(" in llvm_code(emit_cpu(build.kernel()))


@x86
@pytest.mark.parametrize(("monoid", "pattern"), [("sum", "addp"), ("max", "maxp"), ("min", "minp")])
@pytest.mark.parametrize("cols", [64, 1000, 100_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reductions_run_in_vectors(monoid: str, pattern: str, cols: int, dtype: type) -> None:
    kind = "s" if dtype is np.float32 else "d"
    build = Builder((64,), (cols,))
    build.store(build.reduce(monoid, build.load([cols, 1], dtype)), [1])
    assert re.search(rf"\bv?{pattern}{kind}\b", vector_loop(build.kernel()))


def positions(cols: int) -> Kernel:
    build = Builder((4,), (cols,))
    build.store(build.reduce("argmax", build.load([cols, 1]), build.index([0, 1])), [1])
    return build.kernel("positions")


def test_positions_are_searched_in_vectors_as_wide_as_those_of_the_values() -> None:
    code = llvm_code(emit_cpu(positions(1000)))
    assert re.search(r"@llvm\.smin\.v\d+i32", code)
    assert not re.search(r"<\d+ x i64>", code)


@pytest.mark.parametrize(("cols", "kind"), [((1 << 31) - 1, "int32"), (1 << 31, "int64")])
def test_positions_are_as_wide_as_a_row_needs(cols: int, kind: str) -> None:
    source = emit_cpu(positions(cols))
    assert f"min_v2_first = {kind}({np.iinfo(kind).max})" in source.text


@x86
@pytest.mark.parametrize("monoid", ["sum", "max"])
def test_column_reductions_run_in_vectors(monoid: str) -> None:
    build = Builder((512,), (300,))
    build.store(build.reduce(monoid, build.load([1, 512])), [1])
    source = emit_cpu(build.kernel())
    assert source.schedule.startswith("column")
    assert re.search(rf"\bv?{'add' if monoid == 'sum' else 'max'}ps\b", assembly(source))


def deviations(shape: tuple[int, int]) -> str:
    build = Builder((shape[1],), (shape[0],))
    x = build.load([1, shape[1]])
    away = build.map("sub", x, build.reduce("max", x))
    build.store(build.reduce("sum", build.map("mul", away, away)), [1])
    return emit_cpu(build.kernel()).text


def test_columns_prefetch_what_no_cache_holds_yet() -> None:
    assert deviations((8192, 512)).count("prefetch_read(b0, i0 + 512*i1 + 4096)") == 2
    # The second pass finds a tile of so few columns in the cache.
    assert deviations((512, 4096)).count("prefetch_read(b0, i0 + 4096*i1 + 32768)") == 1
    # Four columns are taken at a time, and what is left one by one.
    assert deviations((512, 4096)).count("prefetch_read(") == 4
    assert deviations((511, 4096)).count("prefetch_read(") == 5
    # Tiles of whole rows follow each other; small arrays are in the cache.
    assert "prefetch" not in deviations((100_000, 16))
    assert "prefetch" not in deviations((8192, 64))
    assert "prefetch" not in deviations((64, 512))


def test_the_pass_that_computes_longest_prefetches_the_next_row_and_the_place_of_this_one() -> None:
    text = emit_cpu(softmax(4096, 1000)).text
    assert text.count("prefetch_") == 2
    for line in ("prefetch_read(b0, 1000*i0 + i1 + 1000)", "prefetch_write(b1, 1000*i0 + i1)"):
        assert text.index("max_v1 = fold") < text.index(line) < text.index("exp_nonpositive")


def test_a_pass_that_stores_prefetches_the_place_of_the_next_row() -> None:
    build = Builder((4096,), (1000,))
    x = build.load([1000, 1])
    build.store(build.map("tanh", build.map("sub", x, build.reduce("max", x))), [1000, 1])
    text = emit_cpu(build.kernel()).text
    assert "prefetch_read(b0, 1000*i0 + i1 + 1000)" in text
    assert "prefetch_write(b1, 1000*i0 + i1 + 1000)" in text


@pytest.mark.parametrize("shape", [(100, 1000), (100_000, 32), (64, 1 << 16)])
def test_rows_in_near_caches_short_and_very_long_ones_are_left_to_the_hardware(
    shape: tuple[int, int],
) -> None:
    assert "prefetch" not in emit_cpu(softmax(*shape)).text


def test_a_single_pass_is_left_to_the_hardware() -> None:
    build = Builder((4096,), (1000,))
    build.store(build.reduce("sum", build.map("exp", build.load([1000, 1]))), [1])
    assert "prefetch" not in emit_cpu(build.kernel()).text


@pytest.mark.parametrize("cols", [300, 302, 301])
def test_several_columns_are_added_at_a_time(cols: int) -> None:
    text = emit_cpu(summed(512, cols, [1, 512])).text
    assert "i0 + 512*(i1 + 3)" in text
    if cols % 4 == 0:
        assert text.count("= fold_sum(") == 4
        assert re.search(rf"for i1 in range\(256\*segment, min\(.*, {cols}\), 4\):", text)
    else:
        assert text.count("= fold_sum(") == 5
        assert "for i1 in range(256*segment, whole, 4):" in text
        assert "for i1 in range(whole, last):" in text


def test_few_columns_are_taken_at_a_time_where_each_takes_work() -> None:
    build = Builder((512,), (300,))
    value = build.load([1, 512])
    for _ in range(6):
        value = build.map("add", value, value)
    build.store(build.reduce("sum", value), [1])
    source = emit_cpu(build.kernel())
    assert source.text.count("= fold_sum(") == 2
    assert source.launch.interleave == 1  # several columns are work for several vectors


def test_columns_of_few_rows_that_lie_apart_or_of_much_work_are_added_one_by_one() -> None:
    build = Builder((512,), (300,))
    build.store(build.reduce("sum", build.map("exp", build.load([1, 512]))), [1])
    for kernel in (summed(16, 300, [1, 17]), build.kernel()):
        assert emit_cpu(kernel).text.count("= fold_sum(") == 1


def test_tiles_of_columns_are_wide_where_other_rows_make_enough_of_them() -> None:
    build = Builder((64, 512), (128,))
    build.store(build.reduce("sum", build.load([128 * 512, 1, 512])), [512, 1])
    assert "64 units of 512 adjacent rows" in emit_cpu(build.kernel()).schedule
    build = Builder((512,), (128,))
    build.store(build.reduce("sum", build.load([1, 512])), [1])
    assert "8 units of 64 adjacent rows" in emit_cpu(build.kernel()).schedule


def test_tiles_of_rows_that_lie_apart_are_narrow() -> None:
    build = Builder((512, 512), (32,))
    away = build.map("sub", build.load([32, 0, 1]), build.load([0, 32, 1]))
    build.store(build.reduce("sum", build.map("mul", away, away)), [512, 1])
    assert "units of 64 adjacent rows" in emit_cpu(build.kernel()).schedule


@x86
@pytest.mark.parametrize("monoid", ["max", "min"])
def test_columns_that_may_put_back_what_was_there_store_without_masks(monoid: str) -> None:
    build = Builder((512,), (300,))
    build.store(build.reduce(monoid, build.load([1, 512], np.int64)), [1])
    source = emit_cpu(build.kernel())
    assert "freeze(" in source.text
    assert "maskmov" not in assembly(source)


def scaled(rows: int) -> Kernel:
    build = Builder((rows,))
    build.store(build.map("mul", build.load([1]), build.load([1])), [1])
    return build.kernel()


def summed(rows: int, cols: int, strides: list[int]) -> Kernel:
    build = Builder((rows,), (cols,))
    build.store(build.reduce("sum", build.load(strides)), [1])
    return build.kernel()


WIDEST = {
    "map": (scaled(4096), "mulps"),
    "map with an exponential": (hyperbolic(4096), "divps"),
    "row": (summed(64, 1000, [1000, 1]), "addps"),
    "row in passes": (softmax(), "divps"),
    "column": (summed(512, 300, [1, 512]), "addps"),
    "positions": (positions(1000), "cmp\\w*ps|maxps"),
}


@x86
@pytest.mark.parametrize("case", WIDEST)
def test_loops_work_on_the_widest_vectors(case: str) -> None:
    features = llvm.get_host_cpu_features()
    if not features.get("avx2"):
        pytest.skip("this processor has no vectors of 256 bits")
    kernel, instruction = WIDEST[case]
    assert re.search(rf"\bv(?:{instruction})\s.*%[yz]mm", vector_loop(kernel))


@x86
def test_float16_is_converted_in_vectors() -> None:
    build = Builder((4096,))
    x = build.load([1], np.float16)
    build.store(build.map("mul", x, constant(0.5, np.float16)), [1])
    if not llvm.get_host_cpu_features()["f16c"]:
        pytest.skip("this processor has no float16 conversion")
    code = vector_loop(build.kernel())
    assert re.search(r"\bvcvtph2ps\b", code)
    assert "call" not in code


def test_values_that_only_the_vector_dimension_changes_are_computed_once() -> None:
    build = Builder((512, 256))
    total = build.map("add", build.map("sin", build.load([0, 1])), build.load([256, 1]))
    build.store(total, [256, 1])
    source = emit_cpu(build.kernel())
    assert source.text.index("sin_float32") < source.text.index("for i0 in")
    assert [scratch.name for scratch in source.launch.scratch] == ["once_v1"]


def test_sources_of_different_dtypes_differ_in_text() -> None:
    def text(dtype: type) -> str:
        build = Builder((64,))
        x = build.load([1], dtype)
        build.store(build.map("add", x, x), [1])
        return emit_cpu(build.kernel()).text

    assert len({text(dtype) for dtype in (np.float32, np.float64)}) == 2


def normalised(dtype: type) -> str:
    build = Builder((64,), (1024,))
    x = build.load([1024, 1], dtype)
    away = build.map("sub", x, build.reduce("max", x))
    total = build.reduce("sum", build.map("mul", away, away))
    build.store(build.map("div", away, total), [1024, 1])
    return emit_cpu(build.kernel()).text


def test_what_is_rounded_to_float16_is_kept_rather_than_rounded_again() -> None:
    for dtype, kept in ((np.float16, True), (np.float32, False)):
        text = normalised(dtype)
        assert ("kept_" in text) == kept
        assert text.count("v0 - v1") == 2 - kept


@pytest.mark.parametrize("monoid", ["max", "min"])
def test_extrema_of_floats_are_either_of_two_zeros(monoid: str) -> None:
    build = Builder((64,), (1024,))
    build.store(build.reduce(monoid, build.load([1024, 1])), [1])
    calls = re.findall(
        rf"call [^@]*@llvm\.[\w.]*f?{monoid}imum", llvm_code(emit_cpu(build.kernel()))
    )
    assert calls
    assert all(" nsz " in call for call in calls)

"""Generated CUDA kernels, run thread by thread in Python, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minijit.graph.layout import contiguous_strides
from minijit.lowering.cuda import emit_cuda
from minijit.lowering.kernel_ir import Kernel
from tests.lowering.cuda_kernels import softmax
from tests.lowering.kernel_builder import Builder, constant, random_inputs
from tests.lowering.simt import Pointer, compared, in_python, run

F16, F32, F64 = np.float16, np.float32, np.float64
BOOL, I8, I32, I64, U8 = np.bool_, np.int8, np.int32, np.int64, np.uint8


def chain(shape: tuple[int, ...], dtype: Any = F32) -> Kernel:
    """tanh(x * 0.5 + y) over contiguous operands."""
    build = Builder(shape)
    strides = contiguous_strides(shape)
    x, y = build.load(strides, dtype), build.load(strides, dtype)
    z = build.map("add", build.map("mul", x, constant(0.5, dtype)), y)
    build.store(build.map("tanh", z), strides)
    return build.kernel()


# Sizes around a tile of 512 elements (128 threads of 4): none, part, whole, more; odd and even.
@pytest.mark.parametrize("size", [2, 3, 4, 511, 512, 513, 1030])
def test_contiguous_map(size: int) -> None:
    source, buffers = compared(chain((size,)))
    assert source.launch.aligned == (0, 1, 2)
    assert (buffers[0].vectors > 0) == (size >= 4)


@pytest.mark.parametrize("dtype", [F16, F64])
def test_map_of_other_floats(dtype: Any) -> None:
    compared(chain((1030,), dtype), tolerance=2e-3 if dtype is F16 else 1e-12)


@pytest.mark.parametrize("size", [64, 515])
def test_map_without_vectors(size: int) -> None:
    source, buffers = compared(chain((size,)), vectorize=False)
    assert source.launch.aligned == ()
    assert sum(buffer.vectors for buffer in buffers) == 0


@pytest.mark.parametrize("work", [1, 2, 4])
def test_map_with_less_work(work: int) -> None:
    source, _ = compared(chain((600,)), work=work)
    assert source.launch.work <= work


def test_scalar_result_and_scalar_arguments() -> None:
    build = Builder(())
    build.store(build.map("mul", build.load([]), build.read()), [])
    compared(build.kernel(), (2.5,))


@pytest.mark.parametrize("shape", [(7, 8), (33, 12), (5, 7), (3, 5, 16), (4, 3, 5)])
def test_map_with_broadcast_operands(shape: tuple[int, ...]) -> None:
    build = Builder(shape)
    strides = contiguous_strides(shape)
    full = build.load(strides)
    inner = build.load([0] * (len(shape) - 1) + [1])
    outer = build.load([1] + [0] * (len(shape) - 1))
    build.store(build.map("mul", build.map("add", full, inner), outer), strides)
    compared(build.kernel())


def test_map_of_strided_and_flipped_operands() -> None:
    build = Builder((6, 10))
    transposed = build.load([1, 6])
    flipped = build.load([10, -1], offset=9)
    stepped = build.load([40, 2], offset=3)
    total = build.map("add", build.map("add", transposed, flipped), stepped)
    build.store(total, [10, 1])
    compared(build.kernel())


@pytest.mark.parametrize(
    "shape",
    [(32, 32), (64, 96), (17, 33), (70, 40), (3, 300), (270, 3), (16, 70), (5, 16), (2, 40)],
)
def test_transposed_operands_are_read_in_tiles(shape: tuple[int, int]) -> None:
    rows, cols = shape
    build = Builder(shape)
    build.store(build.map("add", build.load([1, rows]), build.load([0, 1])), [cols, 1])
    source, _ = compared(build.kernel())
    assert source.schedule.startswith("tile")


def test_transposition_of_three_dimensions() -> None:
    # x[3, 40, 20] with axes (0, 2, 1), then (2, 0, 1).
    for strides in ([800, 1, 20], [20, 1, 60]):
        build = Builder((3, 20, 40))
        at = build.convert(build.index([0, 1, 0]), F32)
        build.store(build.map("add", build.load(strides), at), [800, 40, 1])
        source, _ = compared(build.kernel())
        assert source.schedule.startswith("tile")


@pytest.mark.parametrize("shape", [(64, 64), (100, 100), (3, 40, 40), (2, 33, 3, 33)], ids=str)
def test_tiles_whose_mirrors_follow_them(shape: tuple[int, ...]) -> None:
    across = next(dim for dim, extent in enumerate(shape) if extent == shape[-1])
    build, strides = Builder(shape), list(contiguous_strides(shape))
    swapped = list(strides)
    swapped[across], swapped[-1] = swapped[-1], swapped[across]
    mirror = build.map("sub", build.load(strides), build.load(swapped, buffer=0))
    build.store(mirror, strides)
    source, _ = compared(build.kernel())
    assert "mirrored" in source.text


def test_every_tile_of_a_square_has_its_number() -> None:
    mirrored = in_python("mirrored")
    for edge in (0, 1, 2, 63, 4095, 4096, 4097, 20_001, 46_339):
        for place in {0, min(1, edge), edge, max(2 * edge - 1, 0), 2 * edge}:
            right, down = mirrored(np.int32(edge * edge + place))
            assert max(right, down) == edge
            assert 2 * min(right, down) + (down > right) == place


@pytest.mark.parametrize("dtype", [F16, F32, F64])
def test_halves_that_change_places_are_read_in_vectors(dtype: Any) -> None:
    build = Builder((6, 64))
    left = build.guard((build.affine([0, 1], 0), 0, 32))
    right = build.guard((build.affine([0, 1], 0), 32, 64))
    a = build.load([64, 1], dtype, offset=32, size=384, guard=left)
    b = build.load([64, 1], dtype, offset=-32, size=384, guard=right)
    build.store(build.map("add", build.map("neg", a), b), [64, 1])
    source, buffers = compared(build.kernel())
    assert "else:" in source.text
    vectors = 6 * 64 * np.dtype(dtype).itemsize // 16
    assert [buffer.vectors for buffer in buffers] == [vectors // 2, vectors // 2, vectors]


def test_neighbours_that_start_inside_of_vectors_are_read_one_by_one() -> None:
    build = Builder((700,))
    build.store(build.map("sub", build.load([1], offset=1), build.load([1])), [1])
    source, buffers = compared(build.kernel())
    assert source.launch.aligned == ()
    assert sum(buffer.vectors for buffer in buffers) == 0


@pytest.mark.parametrize("bound", [30, 32])
def test_a_guard_that_parts_neighbours_is_asked_for_each(bound: int) -> None:
    build = Builder((100,))
    guard = build.guard((build.affine([1], 0), bound, 100))
    build.store(build.load([1], offset=-4, size=100, guard=guard), [1])
    _, buffers = compared(build.kernel())
    assert (sum(buffer.vectors for buffer in buffers) > 0) == (bound == 32)


@pytest.mark.parametrize("shape", [(64, 32), (33, 50)])
def test_results_across_are_written_through_tiles(shape: tuple[int, int]) -> None:
    rows, cols = shape
    build = Builder(shape)
    value = build.map("add", build.load([cols, 1]), build.load([1, rows]))
    build.store(value, [cols, 1])
    build.store(build.map("mul", value, value), [1, rows])
    source, _ = compared(build.kernel())
    assert source.schedule.startswith("tile")
    assert source.text.count("shared.array") == source.text.count("syncthreads") == 2


@pytest.mark.parametrize("shape", [(64, 32), (40, 41)])
def test_tiles_under_a_guard(shape: tuple[int, int]) -> None:
    rows, cols = shape
    build = Builder(shape)
    inside = build.map("ge", build.index([0, 1]), constant(3, np.int64), dtype=np.bool_)
    x = build.load([1, rows], offset=-3 * rows, size=rows * cols, guard=inside)
    build.store(build.map("add", x, build.load([cols, 1])), [cols, 1])
    source, _ = compared(build.kernel())
    assert source.text.count("shared.array") == 1


def test_no_more_tiles_than_shared_memory_holds() -> None:
    build = Builder((32, 48))
    total = build.load([1, 32])
    for _ in range(14):
        total = build.map("add", total, build.load([1, 32]))
    build.store(total, [48, 1])
    source, _ = compared(build.kernel())
    assert source.text.count("shared.array") == 11


def test_map_with_mixed_widths() -> None:
    build = Builder((1000,))
    mask, small, x = build.load([1], BOOL), build.load([1], I8), build.load([1], F32)
    wide = build.convert(small, F32)
    chosen = build.map("select", mask, x, wide)
    build.store(chosen, [1])
    build.store(build.map("gt", x, constant(0.0), dtype=BOOL), [1])
    build.store(build.convert(chosen, F16), [1])
    compared(build.kernel())


def test_map_with_guarded_loads() -> None:
    # A pad: element i exists where 0 <= i - 3 < 20.
    build = Builder((30,))
    at = build.index([1], -3)
    inside = build.map(
        "logical_and",
        build.map("ge", at, constant(0, I64), dtype=BOOL),
        build.map("lt", at, constant(20, I64), dtype=BOOL),
    )
    build.store(build.load([1], offset=-3, size=20, guard=inside), [1])
    compared(build.kernel())


def test_map_writes_positions() -> None:
    build = Builder((5, 9))
    build.store(build.map("mul", build.index([100, 1]), constant(2, I64)), [9, 1])
    compared(build.kernel())


@pytest.mark.parametrize(
    ("rows", "cols"),
    [
        (3, 1), (70, 2), (5, 3), (9, 8), (40, 16), (6, 17), (5, 64), (3, 100), (300, 128),
        (2, 1000), (1, 1003), (270, 260), (2, 4096),
    ],
)  # fmt: skip
def test_softmax_of_rows(rows: int, cols: int) -> None:
    compared(softmax(rows, cols))


@pytest.mark.parametrize(("rows", "cols"), [(1, 5), (3, 40), (40, 9), (33, 130), (20, 700)])
def test_softmax_of_columns(rows: int, cols: int) -> None:
    source, _ = compared(softmax(rows, cols, axis=0))
    assert source.schedule.startswith("column" if rows > 1 else "row")


@pytest.mark.parametrize("dtype", [F16, F64])
def test_softmax_of_other_floats(dtype: Any) -> None:
    compared(softmax(4, 272, dtype=dtype), tolerance=2e-3 if dtype is F16 else 1e-12)


def test_row_longer_than_registers_hold() -> None:
    source, _ = compared(softmax(1, 16384 + 4096 + 24), tolerance=1e-4)
    assert "in passes" in source.schedule


@pytest.mark.parametrize("axis", [0, 1])
def test_long_sums_are_accurate(axis: int) -> None:
    # 2**24 + 1 is no float32: a plain running sum would stop there, this one may not.
    size = 70_000
    build = Builder((1,), (size,)) if axis else Builder((2,), (size,))
    build.store(build.reduce("sum", build.load([0, 1] if axis else [1, 2])), [1])
    kernel = build.kernel()
    x = np.full(kernel.buffers[0].size, 1 / 3, F32)
    x[: 2 if axis == 0 else 1] = 2.0**24
    result = np.zeros(kernel.buffers[1].size, F32)
    source = emit_cuda(kernel)
    assert "in passes" in source.schedule
    run(source, [Pointer(x), Pointer(result)])
    exact = 2.0**24 + (size - 1) * float(F32(1 / 3))
    np.testing.assert_array_less(np.abs(result.astype(F64) - exact), 32.0)


def test_infinite_sums_stay_infinite() -> None:
    build = Builder((1,), (40_000,))
    build.store(build.reduce("sum", build.load([0, 1])), [1])
    x = np.zeros(40_000, F32)
    x[7] = np.inf
    result = np.zeros(1, F32)
    run(emit_cuda(build.kernel()), [Pointer(x), Pointer(result)])
    assert result[0] == np.inf


def test_rows_without_vectors() -> None:
    _, buffers = compared(softmax(5, 96), vectorize=False)
    assert sum(buffer.vectors for buffer in buffers) == 0


@pytest.mark.parametrize("work", [2, 4, 8])
def test_rows_with_less_work(work: int) -> None:
    source, _ = compared(softmax(3, 520), work=work)
    assert source.launch.work <= work


def test_layernorm_with_weights_and_row_output() -> None:
    build = Builder((6,), (200,))
    x = build.load([200, 1])
    mean = build.map("mul", build.reduce("sum", x), constant(1 / 200))
    centred = build.map("sub", x, mean)
    square = build.map("mul", centred, centred)
    variance = build.map("mul", build.reduce("sum", square), constant(1 / 200))
    scale = build.map("rsqrt", build.map("add", variance, constant(1e-5)))
    normal = build.map("mul", centred, scale)
    affine = build.map("add", build.map("mul", normal, build.load([0, 1])), build.load([0, 1]))
    build.store(affine, [200, 1])
    build.store(mean, [1])
    compared(build.kernel(), tolerance=1e-4)


@pytest.mark.parametrize("monoid", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_of_float_and_int(monoid: str, axis: int) -> None:
    for dtype, wide in ((F32, F32), (I32, I64), (U8, U8)):
        build = Builder((5,), (77,))
        x = build.load([77, 1] if axis == 1 else [1, 5], dtype)
        y = build.convert(x, wide)
        build.store(build.reduce(monoid, y), [1])
        compared(build.kernel())


@pytest.mark.parametrize("monoid", ["any", "all"])
def test_reductions_of_bools(monoid: str) -> None:
    for cols in (1, 3, 64, 300):
        build = Builder((9,), (cols,))
        build.store(build.reduce(monoid, build.load([cols, 1], BOOL)), [1])
        compared(build.kernel())


@pytest.mark.parametrize("monoid", ["argmax", "argmin"])
@pytest.mark.parametrize(("rows", "cols", "axis"), [(4, 70, 1), (1, 600, 1), (6, 90, 0)])
def test_positions_of_extrema(monoid: str, rows: int, cols: int, axis: int) -> None:
    # Integers repeat: the first of equals has to win, whichever thread holds it.
    for dtype in (F32, I32):
        build = Builder((rows,), (cols,))
        x = build.load([cols, 1] if axis == 1 else [1, rows], dtype)
        build.store(build.reduce(monoid, x, build.index([0, 1])), [1])
        compared(build.kernel())


def test_reduction_over_two_separate_dimensions() -> None:
    # x[4, 6, 10] reduced over axes 0 and 2.
    build = Builder((6,), (4, 10))
    build.store(build.reduce("sum", build.load([10, 60, 1])), [1])
    compared(build.kernel())


def test_reduction_over_a_middle_axis() -> None:
    build = Builder((3, 20), (7,))
    build.store(build.reduce("sum", build.load([140, 1, 20])), [20, 1])
    source, _ = compared(build.kernel())
    assert source.schedule.startswith("column")


def test_full_reduction_in_two_kernels() -> None:
    size, block = 4001, 512
    blocks = -(-size // block)
    first = Builder((blocks,), (block,), ragged=size)
    first.store(first.reduce("sum", first.load([block, 1], size=size)), [1])
    compared(first.kernel(), tolerance=1e-4)
    second = Builder((), (blocks,))
    second.store(second.reduce("sum", second.load([1])), [])
    compared(second.kernel())


@pytest.mark.parametrize("size", [130, 4001])
def test_ragged_rows_keep_cells(size: int) -> None:
    block = 64
    build = Builder((-(-size // block), 2), (block,), ragged=size)
    x = build.load([block, size, 1], size=2 * size)
    top = build.reduce("max", x)
    build.store(top, [2, 1])
    compared(build.kernel())


def test_reduction_of_nothing() -> None:
    build = Builder((3,), (0,))
    build.store(build.reduce("sum", build.load([0, 1])), [1])
    _, buffers = compared(build.kernel())
    assert buffers[1].array.tolist() == [0, 0, 0]


def test_nan_reaches_the_maximum() -> None:
    build = Builder((2,), (100,))
    build.store(build.reduce("max", build.load([100, 1])), [1])
    kernel = build.kernel()
    x = np.zeros(200, F32)
    x[150] = np.nan
    result = np.zeros(2, F32)
    run(emit_cuda(kernel), [Pointer(x), Pointer(result)])
    np.testing.assert_array_equal(result, [0, np.nan])


def test_sums_are_the_same_bits_every_time() -> None:
    kernel = softmax(3, 1000)
    inputs = random_inputs(kernel)

    def once() -> bytes:
        out = np.zeros(3000, F32)
        run(emit_cuda(kernel), [Pointer(inputs[0]), Pointer(out)])
        return out.tobytes()

    assert once() == once()

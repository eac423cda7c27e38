"""Reports of whole programs: what they say, what they leave alone, and what they must not find."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.debug import KernelReport, LaunchReport, LibraryStep, kernel_report
from minijit.tools import workloads
from minijit.tools.workloads import Workload
from tests.sampling import paired, sampled

F32 = np.float32
RANDOM = np.random.default_rng(3)
MAP = ("gelu", "saxpy chain", "black-scholes", "adam")


def normal(*shape: int, dtype: Any = F32) -> Any:
    return (RANDOM.standard_normal(shape) * 8).astype(dtype)


def of(function: Callable[..., Any], *arrays: Any, **options: Any) -> KernelReport:
    """The report of a function over a namespace, whose results must be those of NumPy."""
    report = kernel_report(lambda *a: function(np, *a), *arrays, **options)
    expected = workloads.as_tuple(function(np, *(a.astype(np.float64) for a in arrays)))
    assert workloads.largest_error(workloads.as_tuple(report.outputs), expected) < 1e-5
    return report


def is_lean(report: KernelReport, most: float, asked: float | None = None) -> None:
    """Assert that no kernel moves more than ``most`` times the fewest bytes, or wastes else.

    Its warps may ask for ``asked`` times as many, if that is not the same.
    """
    assert report.kernels
    for kernel in report.kernels:
        assert kernel.fewest_bytes > 0
        assert kernel.bytes <= most * kernel.fewest_bytes, report
        assert kernel.bytes <= kernel.l2_bytes <= kernel.l1_bytes, report
        assert kernel.l1_bytes <= (most if asked is None else asked) * kernel.fewest_bytes, report
        assert kernel.bank_conflicts == kernel.atomics == 0, report
        assert kernel.stack == kernel.spill_stores == kernel.spill_loads == 0, report


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("size", [1 << 14, 10_003, 65_573])
def test_contiguous_maps(dtype: str, size: int) -> None:
    x, y = normal(size, dtype=dtype), normal(size, dtype=dtype)
    report = kernel_report(lambda x, y: x * y + x, x, y)
    np.testing.assert_array_equal(report.outputs, x * y + x)
    is_lean(report, 1.02)
    assert report.bytes <= 1.02 * report.program_bytes


ROWS = {
    "softmax": (workloads.softmax, 0),
    "layernorm": (workloads.layernorm, 2),
    "rmsnorm": (workloads.rmsnorm, 1),
    "logsumexp": (workloads.logsumexp, 0),
}


ROW_SHAPES = ((64, 128), (16, 1000), (8, 4096), (4, 8192), (2, 16384))


# Of an odd number of shapes every second: the next function takes the others.
@pytest.mark.parametrize(
    ("name", "shape"), sampled(itertools.product(ROWS, ROW_SHAPES), 2), ids=str
)
def test_rows(name: str, shape: tuple[int, int]) -> None:
    function, vectors = ROWS[name]
    report = of(function, normal(*shape), *(normal(shape[1]) for _ in range(vectors)))
    assert len(report.kernels) == 1
    is_lean(report, 1.02)


def row_sums(xp: Any, x: Any) -> Any:
    return xp.sum(x, axis=-1)


def row_positions(xp: Any, x: Any) -> Any:
    return xp.argmax(x, axis=-1)


UNALIGNED = ROWS | {"sums": (row_sums, 0), "argmax": (row_positions, 0)}
LENGTHS = itertools.product(
    (8, 9, 16, 33, 77, 300, 301, 700, 1000, 1023, 4095), ("float16", "float32", "float64")
)
SEEN_ON = itertools.product(UNALIGNED, [(8, 0), (9, 0), (10, 0)])


@pytest.mark.parametrize(("length", "seen"), paired(LENGTHS, list(SEEN_ON)), ids=str)
def test_rows_of_any_length(length: tuple[int, str], seen: tuple[str, tuple[int, int]]) -> None:
    (columns, dtype), (name, cc) = length, seen
    function, vectors = UNALIGNED[name]
    x = normal(64 if columns < 1000 else 16, columns, dtype=dtype) / 8
    weights = [normal(columns, dtype=dtype) for _ in range(vectors)]
    report = kernel_report(lambda *a: function(np, *a), x, *weights, compute_capability=cc)
    # Of results of long rows each warp stores one, in a sector that others store in as well.
    shared = dtype == "float16" and name in ("logsumexp", "sums", "argmax")
    is_lean(report, 1.02, 1.04 if shared else 1.02)
    assert all(kernel.registers <= 64 for kernel in report.kernels)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("columns", [1000, 1024, 4096])
def test_many_rows_of_thousands_take_few_registers(columns: int, dtype: str) -> None:
    for function, vectors in ROWS.values():
        x = normal(264, columns, dtype=dtype)
        weights = [normal(columns, dtype=dtype) for _ in range(vectors)]
        (kernel,) = kernel_report(partial(function, np), x, *weights).kernels
        assert kernel.registers <= 64
        assert "held in registers" in kernel.schedule


@pytest.mark.parametrize(("name", "passes"), [("softmax", 3), ("rmsnorm", 3), ("logsumexp", 1)])
def test_few_long_rows_are_split(name: str, passes: int) -> None:
    function, vectors = ROWS[name]
    x = normal(2, 65536)
    report = of(function, x, *(normal(65536) for _ in range(vectors)))
    is_lean(report, 1.02)
    # Reads and writes of a whole array: one for all reductions and two for the result.
    assert report.bytes <= 1.05 * passes * x.nbytes + 65536 * 4


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("columns", [40_003, 65_536])
def test_parts_of_few_rows_of_any_length(columns: int, dtype: str) -> None:
    x = normal(3, columns, dtype=dtype) / 64
    report = kernel_report(lambda x: (x.sum(1), x.max(1)), x)
    np.testing.assert_allclose(report.outputs[0], x.astype(np.float64).sum(1), rtol=1e-3, atol=0.1)
    np.testing.assert_array_equal(report.outputs[1], x.max(1))
    assert len(report.kernels) == 2
    is_lean(report, 1.02, 1.1)
    assert report.bytes <= 1.02 * x.nbytes


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("columns", [3, 5, 16, 20, 40])
def test_few_long_columns_are_split(columns: int, dtype: str) -> None:
    x = normal(40_000, columns, dtype=dtype) / 64
    report = kernel_report(lambda x: x.sum(0), x)
    np.testing.assert_allclose(report.outputs, x.astype(np.float64).sum(0), rtol=1e-3, atol=1e-2)
    assert len(report.kernels) == 2
    # Neighbouring columns are read together, and no others with them.
    is_lean(report, 1.02, 2)
    assert report.bytes <= 1.02 * x.nbytes


@pytest.mark.parametrize("shape", [(64, 128, 5), (9, 700, 3), (100, 9, 20), (5, 300, 45)], ids=str)
def test_columns_that_lie_apart_in_groups(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    report = kernel_report(lambda x: (x.sum(1), x / x.max(1, keepdims=True)), x)
    wanted = x.sum(1, dtype=np.float64), x / x.max(1, keepdims=True)
    for got, want in zip(report.outputs, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-3)
    assert "column: " in report.kernels[0].schedule
    is_lean(report, 1.05, 2)


def column_sums(xp: Any, x: Any) -> Any:
    return xp.sum(x, axis=0)


def column_softmax(xp: Any, x: Any) -> Any:
    e = xp.exp(x - xp.max(x, axis=0))
    return e / xp.sum(e, axis=0)


COLUMNS = {"sums": column_sums, "mean/var": workloads.column_statistics, "softmax": column_softmax}


COLUMN_SHAPES = ((300, 100), (512, 96), (1024, 512), (2048, 40), (40, 5000))


@pytest.mark.parametrize(
    ("name", "shape"), sampled(itertools.product(COLUMNS, COLUMN_SHAPES), 2), ids=str
)
def test_columns(name: str, shape: tuple[int, int]) -> None:
    report = of(COLUMNS[name], normal(*shape))
    assert len(report.kernels) == 1
    is_lean(report, 1.05, 1.2)
    assert report.bytes <= 1.05 * report.program_bytes


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_other_widths(name: str, dtype: str) -> None:
    x = normal(1024, 96, dtype=dtype)
    is_lean(kernel_report(lambda x: COLUMNS[name](np, x), x), 1.02)


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_too_long_to_be_held_are_read_once_for_each_pass(name: str) -> None:
    report = of(COLUMNS[name], normal(2100, 40))
    reads = {t.dram_sectors / t.fewest for t in report.kernels[0].traffic if not t.written}
    assert reads == {1 if name == "sums" else 2 if name == "mean/var" else 3}


def test_what_many_reductions_exchange_fits_into_shared_memory() -> None:
    x = normal(100, 320, dtype="float64")
    report = kernel_report(lambda x: [(x * n).sum(0) for n in range(30)], x)
    for n, got in enumerate(report.outputs):
        np.testing.assert_allclose(got, (x * n).sum(0), rtol=1e-12, atol=1e-9)
    (kernel,) = report.kernels
    assert 0 < kernel.shared <= 48 << 10


TRANSPOSES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "matrix": (lambda x: x.T, (96, 160)),
    "axes-reversed": (lambda x: x.transpose(2, 1, 0), (32, 3, 64)),
    "last-two": (lambda x: x.transpose(0, 2, 1), (3, 64, 32)),
    "to-the-front": (lambda x: x.transpose(2, 0, 1), (4, 16, 64)),
    "flipped": (lambda x: x[::-1].T, (64, 96)),
    "colours-apart": (lambda x: x.transpose(2, 0, 1), (16, 32, 3)),
    "colours-together": (lambda x: x.transpose(1, 2, 0), (4, 32, 32)),
    "pairs": (lambda x: x.T, (2, 1024)),
}


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
@pytest.mark.parametrize("name", TRANSPOSES)
def test_transposes(name: str, dtype: str) -> None:
    turned, shape = TRANSPOSES[name]
    x = normal(*shape, dtype=dtype)
    report = kernel_report(lambda x: turned(x) + x.dtype.type(1), x)
    np.testing.assert_array_equal(report.outputs, turned(x) + x.dtype.type(1))
    is_lean(report, 1.02)


SYMMETRIC: dict[str, tuple[Any, tuple[int, ...]]] = {
    "matrix": (lambda x: x + x.T, (256, 256)),
    "batch": (lambda x: x - x.transpose(0, 2, 1), (3, 128, 128)),
    "axes-apart": (lambda x: x * x.transpose(2, 1, 0), (64, 3, 64)),
}


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
@pytest.mark.parametrize("name", SYMMETRIC)
def test_what_is_read_both_ways_comes_from_memory_once(name: str, dtype: str) -> None:
    function, shape = SYMMETRIC[name]
    x = normal(*shape, dtype=dtype)
    report = kernel_report(function, x)
    np.testing.assert_array_equal(report.outputs, function(x))
    is_lean(report, 1.02, 1.5)
    assert report.bytes <= 1.02 * report.program_bytes


def rotated(x: Any, y: Any) -> Any:
    return x * y + np.concatenate([-x[:, 64:], x[:, :64]], axis=1)


PLACES = {
    # x at one place, and half of it at each of two others; y; the result.
    "halves": (rotated, 4 / 3),
    "differences": (lambda x, y: x[:, 1:] - x[:, :-1] + y[:, 1:], 1.6),
}


@pytest.mark.parametrize("name", PLACES)
def test_what_is_read_at_several_places_is_asked_for_once_at_each(name: str) -> None:
    function, most = PLACES[name]
    x, y = normal(32, 128), normal(32, 128)
    report = kernel_report(function, x, y)
    np.testing.assert_array_equal(report.outputs, function(x, y))
    (kernel,) = report.kernels
    assert kernel.l1_bytes <= (most + 0.01) * kernel.fewest_bytes
    # The second place is a few elements away, which the block has just read.
    assert kernel.excess <= 1.02


def test_results_across_are_written_in_whole_sectors() -> None:
    x = normal(64, 64)
    report = kernel_report(lambda x: (x + 1, (x * 2).T), x)
    (kernel,) = report.kernels
    # The second result reads x across, and x is read along its rows as well: twice in all.
    assert kernel.l1_bytes == 4 * x.nbytes
    assert kernel.bytes <= kernel.l1_bytes
    assert kernel.bank_conflicts == 0
    for got, want in zip(report.outputs, (x + 1, (x * 2).T), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("make", [lambda f: f, minijit.jit], ids=["plain", "jitted"])
def test_a_strided_program_is_found_out(make: Any) -> None:
    def strided(x: Any) -> Any:
        return x[::16] + F32(1)

    (kernel,) = kernel_report(make(strided), normal(1 << 14)).kernels
    # One element of 4 bytes in a sector of 32: coalescing is bad though no sector is read twice.
    assert kernel.l1_sectors > 4 * kernel.fewest_by_request
    assert kernel.excess <= 1.05


@pytest.mark.parametrize("name", MAP)
@pytest.mark.parametrize("cc", [(8, 0), (10, 0)], ids=["8.0", "10.0"])
def test_workloads_on_other_architectures(name: str, cc: tuple[int, int]) -> None:
    found: Workload = next(w for w in workloads.WORKLOADS if w.name.startswith(name))
    inputs = [x[:10_000] if x.ndim else x for x in found.make_inputs()]
    report = kernel_report(lambda *a: found.function(np, *a), *inputs, compute_capability=cc)
    assert report.compute_capability == cc
    is_lean(report, 1.05)


def test_what_a_report_says() -> None:
    x = normal(16, 1024)
    report = of(workloads.softmax, x)
    (kernel,) = report.kernels
    assert kernel.elements == x.size
    assert kernel.instructions == round(kernel.instructions_per_element * x.size)
    assert kernel.grid * kernel.block * 8 == x.size
    assert kernel.fewest_bytes == 2 * x.nbytes == report.program_bytes
    assert kernel.schedule.startswith("row: ")
    assert kernel.barriers == 32
    assert 0 < kernel.lanes_used <= 1
    assert 0 < kernel.registers < 255
    assert {t.name: t.l1_sectors for t in kernel.traffic} == {"a_0": 2048, "out0": 2048}
    assert json.loads(json.dumps(report.as_dict()))["steps"][0]["excess"] == 1.0
    text = str(report)
    _, heads, row, *_ = text.splitlines()
    assert heads.startswith("step")
    assert row.startswith(kernel.name)
    assert len(heads) == len(row)


def test_library_steps_are_listed() -> None:
    report = of(workloads.dense_tanh_mean, normal(32, 64) / 64, normal(64, 48) / 8, normal(48))
    assert [type(step) for step in report.steps] == [LibraryStep, LaunchReport]
    assert "library: matmul" in str(report)


def test_broadcast_operands_count_once_but_say_so() -> None:
    report = of(workloads.rmsnorm, normal(16, 1024), normal(1024))
    (kernel,) = report.kernels
    (gain,) = (t for t in kernel.traffic if t.broadcast)
    assert (gain.fewest, gain.l1_sectors) == (128, 16 * 128)
    assert kernel.bytes == 32 * (kernel.dram_sectors - gain.dram_sectors + gain.fewest)


def test_broadcast_operands_in_loops_count_once() -> None:
    def averages(x: Any, weights: Any) -> Any:
        def step(mean: Any, row: Any) -> Any:
            mean = row[1] * mean + row[0]
            return mean, mean

        return minijit.lax.scan(step, np.zeros_like(x[0]), (x, weights))

    (kernel,) = kernel_report(averages, normal(16, 256), normal(16)).kernels
    assert {t.name: t.broadcast for t in kernel.traffic if not t.written} == {
        "x": False,
        "weights": True,
    }
    assert kernel.excess == 1.0


def test_ordinary_programs_are_left_alone(counts: Any) -> None:
    f = minijit.jit(lambda x, k: (x * k).sum(), static_argnames="k")
    x = normal(1000)
    compiled = f.lower(x, k=3).compile()
    before = f.stats()
    report = compiled.emulate(x, k=3)
    assert f.stats() == before
    assert float(report.outputs) == pytest.approx(float(f(x, k=3)), rel=1e-5)
    assert f.stats() == before
    with pytest.raises(TypeError, match="compiled for other arguments"):
        compiled.emulate(normal(999), k=3)


def test_types_have_nothing_to_run_on() -> None:
    struct = minijit.ShapeDtypeStruct((8,), np.dtype(F32))
    with pytest.raises(TypeError, match="needs arrays"):
        kernel_report(lambda x: x + 1, struct)


def fewest(function: Callable[..., Any], *arrays: Any) -> int:
    return kernel_report(function, *arrays).program_bytes


def test_only_what_must_move_counts_for_the_program() -> None:
    x, y = normal(64, 128), normal(64, 128)
    one = x.nbytes
    assert fewest(lambda x, y: x + y, x, y) == 3 * one
    assert fewest(lambda x, y: x + x, x, x) == 2 * one
    # An argument that goes unused; results are arrays of their own, copies if need be.
    assert fewest(lambda x, y: x + 1, x, y) == 2 * one
    assert fewest(lambda x, y: (x + 1, y), x, y) == 4 * one
    # A row that is repeated by strides of zero, parts of an array, numbers by value.
    repeated = np.broadcast_to(y[:1], y.shape)
    assert fewest(lambda x, y: x + y, x, repeated) == 2 * one + 128 * 4
    assert fewest(lambda x: x[:, ::4] + 1, x) == one // 2
    assert fewest(lambda x: x[0] + x[1:].sum(axis=0), x) == 63 * 128 * 4 + 128 * 4
    assert fewest(lambda x, a: x * a, x, F32(2)) == 2 * one


def test_captured_arrays_count_where_they_are_used() -> None:
    x, y = normal(64, 128), normal(64, 128)
    assert fewest(lambda x: x + y, x) == 3 * x.nbytes


@pytest.mark.parametrize("wrong", ["9.0", 9.0, (9,), "90", ("9", "0"), None])
def test_a_compute_capability_is_a_pair_of_integers(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"a pair of integers, such as \(9, 0\) for 9\.0, not "):
        kernel_report(lambda x: x + 1, normal(8), compute_capability=wrong)


def test_a_gpu_that_does_not_exist_is_named() -> None:
    with pytest.raises(RuntimeError, match="sm_99"):
        kernel_report(lambda x: x + 1, normal(8), compute_capability=(9, 9))


@pytest.mark.parametrize("device", ["cpu", "cuda-emulated"])
def test_any_device_and_structure(device: str) -> None:
    weights = normal(8)
    with minijit.default_device(device):
        x = minijit.jit(lambda x: x + 1)(normal(4, 8))
        report = kernel_report(lambda d: {"out": (d["x"] * weights, d["n"])}, {"x": x, "n": 3})
    product, n = report.outputs["out"]
    np.testing.assert_array_equal(product, np.asarray(x) * weights)
    assert int(n) == 3
    assert type(product) is np.ndarray

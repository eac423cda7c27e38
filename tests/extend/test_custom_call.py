"""Whole kernels of users between fused ones: CUDA C, Python for numba-cuda, NumPy."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import cuda

import minijit
from minijit.extend import check_primitive, custom_call, unsupported
from minijit.graph.errors import DeclarationError
from tests.conftest import Device

X = np.random.default_rng(3).random((20, 50), dtype=np.float32)
HISTOGRAM = r"""
extern "C" __global__ void histogram(const float* x, int* counts, long long n, int bins) {
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += step) {
        int bin = min(max((int)(x[i] * bins), 0), bins - 1);
        atomicAdd(&counts[bin], 1);
    }
}
"""


def histogram_of_numpy(x: Any, *, bins: int) -> Any:
    places = np.clip((x * bins).astype(np.int32), 0, bins - 1)
    return np.bincount(places.ravel(), minlength=bins).astype(np.int32)


def histogram(**options: Any) -> Any:
    given: dict[str, Any] = {
        "abstract_eval": lambda x, *, bins: minijit.ShapeDtypeStruct((bins,), np.int32),
        "cuda": HISTOGRAM,
        "launch": lambda x, *, bins: (-(-x.size // 256), 256),
        "arguments": lambda x, *, bins: (np.int64(x.size), np.int32(bins)),
        "zeroed": True,
        "cpu": histogram_of_numpy,
    }
    return custom_call("histogram", **given | options)


def shifted_kernel(x: Any, y: Any, by: Any) -> None:
    row, column = cuda.grid(2)
    if row < x.shape[0] and column < x.shape[1]:
        y[row, column] = x[row, column] + by * y.shape[0]


def shifted(**options: Any) -> Any:
    given: dict[str, Any] = {
        "abstract_eval": lambda x: x,
        "cuda": shifted_kernel,
        "launch": lambda x: ((-(-x.shape[0] // 8), -(-x.shape[1] // 16)), (8, 16)),
        "arguments": lambda x: (np.float32(2),),
        "cpu": lambda x: x + np.float32(2 * len(x)),
    }
    return custom_call("shifted", **given | options)


def test_cuda_c_between_fused_kernels(device: Device, counts: Counter[str]) -> None:
    hist = histogram()
    f = minijit.jit(lambda x: np.sqrt(hist(x * x, bins=16).astype(np.float32)) + 1)
    got = device.get(f(device.put(X)))
    want = np.sqrt(histogram_of_numpy(X * X, bins=16).astype(np.float32)) + 1
    np.testing.assert_array_equal(got, want)
    assert (f.stats()["kernels"], f.stats()["eager_steps"]) == (2, 1)
    assert (counts["trace"], counts["eager"], counts["launch"]) == (1, 1, 2)
    assert "histogram[bins=16]" in str(minijit.make_jaxpr(lambda x: hist(x, bins=16))(X))


def test_python_kernels_take_contiguous_arrays(device: Device) -> None:
    shift = shifted()
    x = device.put(np.asfortranarray(X))
    np.testing.assert_array_equal(device.get(shift(x)), X + 40)
    f = minijit.jit(lambda x: shift(x[::2]) * 2)
    np.testing.assert_array_equal(device.get(f(x)), (X[::2] + 20) * 2)


def test_in_loops(device: Device) -> None:
    shift = shifted()
    f = minijit.jit(lambda x: minijit.lax.fori_loop(0, 5, lambda i, v: shift(v) * 0.5, x))
    want = X
    for _ in range(5):
        want = (want + 40) * np.float32(0.5)
    np.testing.assert_allclose(device.get(f(device.put(X))), want, rtol=1e-6)


def test_several_results(device: Device) -> None:
    def split(x: Any, low: Any, high: Any) -> None:
        i = cuda.grid(1)
        if i < x.size:
            low[i] = min(x[i], np.float32(0.5))
            high[i] = x[i] > np.float32(0.5)

    parts = custom_call(
        "parts",
        abstract_eval=lambda x: (x, minijit.ShapeDtypeStruct(x.shape, np.bool_)),
        cuda=cuda.jit(split),
        launch=lambda x: (-(-x.size // 64), 64),
        cpu=lambda x: (np.minimum(x, np.float32(0.5)), x > 0.5),
        multiple_results=True,
    )
    x = X.ravel()
    low, high = device.get(minijit.jit(lambda x: parts(x))(device.put(x)))
    np.testing.assert_array_equal(low, np.minimum(x, np.float32(0.5)))
    np.testing.assert_array_equal(high, x > 0.5)
    assert high.dtype == bool


def test_kernels_of_cupy_are_taken_by_their_source(device: Device) -> None:
    raw = SimpleNamespace(code=HISTOGRAM, name="histogram")  # a RawKernel wants a device
    hist = histogram(cuda=raw)
    got = device.get(minijit.jit(lambda x: hist(x, bins=8))(device.put(X)))
    np.testing.assert_array_equal(got, histogram_of_numpy(X, bins=8))


def test_one_compile_for_many_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    from minijit.backends.cuda import custom

    compiled: list[str] = []
    real = custom._parameters  # read once from what was compiled
    monkeypatch.setattr(custom, "_parameters", lambda *a: (compiled.append("c"), real(*a))[1])
    hist = histogram()
    with minijit.default_device("cuda-emulated"):
        for n in (3, 20):
            minijit.jit(lambda x: hist(x, bins=4))(X[:n])
    assert compiled == ["c"]


def test_reports_name_it_and_count_its_neighbours() -> None:
    hist, shift = histogram(), shifted()
    report = minijit.debug.kernel_report(lambda x: hist(x * x, bins=16) + 1, X)
    names = [step.name for step in report.steps]
    assert names == ["lambda_0", "histogram", "lambda_1"]
    assert [kernel.name for kernel in report.kernels] == ["lambda_0", "lambda_1"]
    text = str(minijit.debug.explain_fusion(lambda x: hist(x * x, bins=16) + 1, X))
    assert "i32[16] = histogram" in text
    loop = lambda x: minijit.lax.fori_loop(0, 5, lambda i, v: shift(v) * 0.5, x)  # noqa: E731
    steps = minijit.debug.kernel_report(loop, X).steps
    assert [step.name for step in steps].count("shifted_kernel") == 5


def test_exported_programs_find_it_by_its_name(tmp_path: Path) -> None:
    shift = shifted()
    path = str(tmp_path / "program")
    minijit.jit(lambda x: shift(x + 1) * 2).lower(X).compile().export(path)
    np.testing.assert_array_equal(minijit.load(path)(X), (X + 1 + 40) * 2)


def test_the_kit() -> None:
    assert check_primitive(histogram(), X, params={"bins": 9}).ok


def test_rules_are_carried() -> None:
    why = unsupported("counts do not change smoothly")
    assert histogram(jvp=why, batch=why).primitive.jvp is why


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cuda": None, "cpu": None}, r"has no code: give cuda=, cpu= .*test_custom_call\.py:\d+"),
        ({"launch": None}, r"has a kernel and no launch="),
        ({"cuda": 3}, r"is no kernel .*test_custom_call\.py:\d+"),
    ],
)
def test_what_is_no_declaration_is_refused_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        histogram(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"cuda": HISTOGRAM.replace("atomicAdd", "atomicSubtract")},
            r"does not compile:\n.*atomicS",
        ),
        ({"entry": "histogramm"}, "the source has no kernel 'histogramm'"),
        ({"launch": lambda x, *, bins: 7}, r"launch= .* returned 7: return \(grid, block\)"),
        ({"launch": lambda x, *, bins: (1, 2048)}, "is larger than 1024"),
        ({"launch": lambda x, *, bins: (0, 32)}, "0 is no extent of a launch"),
        ({"arguments": lambda x, *, bins: (5,)}, "give NumPy scalars"),
        (
            {"arguments": lambda x, *, bins: (np.int64(x.size),)},
            "takes 4 parameters and is given 3: operands 1, results 1, arguments= 1",
        ),
        (
            {"arguments": lambda x, *, bins: (np.int32(x.size), np.int32(bins))},
            "parameter 2 of kernel 'histogram', .* of 8 bytes and is given numpy.int32",
        ),
        (
            {"arguments": lambda x, *, bins: (np.int64(x.size), np.float32(bins))},
            "parameter 3 of kernel 'histogram', .* of 4 bytes and is given numpy.float32",
        ),
        ({"abstract_eval": lambda x, *, bins: bins}, "return what has shape and dtype"),
    ],
)
def test_a_kernel_that_cannot_run_is_refused(options: dict[str, Any], message: str) -> None:
    hist = histogram(**options)
    with minijit.default_device("cuda-emulated"), pytest.raises(DeclarationError, match=message):
        minijit.jit(lambda x: hist(x, bins=4))(X)


def test_parameters_of_all_kinds_are_taken() -> None:
    source = """
    extern "C" __global__ void mixed(
        const float* __restrict__ x, float* y, bool on, signed char c, unsigned short s, double d
    ) { y[threadIdx.x] = on ? x[threadIdx.x] + c + s + d : 0; }
    """
    mixed = custom_call(
        "mixed",
        abstract_eval=lambda x: x,
        cuda=source,
        launch=lambda x: (1, x.size),
        arguments=lambda x: (np.bool_(True), np.int8(-1), np.uint16(7), np.float64(0.5)),
    )
    with minijit.default_device("cuda-emulated"):
        assert np.array_equal(minijit.jit(lambda x: mixed(x))(X[0]), X[0] + np.float32(6.5))


def test_a_python_kernel_that_numba_refuses() -> None:
    def wrong(x: Any, y: Any, by: Any) -> None:
        y[0, 0] = x.nothing

    shift = shifted(cuda=wrong)
    with (
        minijit.default_device("cuda-emulated"),
        pytest.raises(DeclarationError, match=r"test_custom_call\.py:\d+ \(wrong\): .*'nothing'"),
    ):
        minijit.jit(lambda x: shift(x))(X)


def test_results_that_are_not_what_was_said() -> None:
    hist = histogram(cpu=lambda x, *, bins: np.zeros(bins + 1))
    with pytest.raises(DeclarationError, match=r"says i32\[4\], and its code .* returned f64\[5\]"):
        minijit.jit(lambda x: hist(x, bins=4))(X)


def test_a_missing_target_is_told() -> None:
    with pytest.raises(DeclarationError, match="has no code for the CPU: give cpu="):
        minijit.jit(lambda x: histogram(cpu=None)(x, bins=4))(X)


def test_code_for_the_cpu_does_not_stand_in_for_a_kernel() -> None:
    hist = histogram(cuda=None)
    assert minijit.jit(lambda x: hist(x, bins=4))(X).sum() == X.size
    with (
        minijit.default_device("cuda-emulated"),
        pytest.raises(
            DeclarationError, match=r"has no code for CUDA: give cuda=.*test_custom_call"
        ),
    ):
        minijit.jit(lambda x: hist(x, bins=4))(X)


def test_a_traced_parameter_is_refused() -> None:
    hist = histogram()
    with pytest.raises(
        TypeError, match=r"bins= of 'histogram' is traced.*test_custom_call\.py:\d+"
    ):
        minijit.jit(lambda x, n: hist(x, bins=n))(X, 4)


@pytest.mark.parametrize(
    ("said", "made", "message"),
    [
        (lambda x: x, lambda x: (x, x), r"multiple_results= is given: return a tuple.*\.py:\d+"),
        (lambda x: (x, x), lambda x: (x,), r"says 2 results, and .* returned 1: .*\.py:\d+"),
        (lambda x: (x, x), lambda x: x, r"says 2 results, and .* returned ndarray: .*\.py:\d+"),
    ],
)
def test_numbers_of_results_that_disagree_are_refused(said: Any, made: Any, message: str) -> None:
    call = custom_call("several_said", abstract_eval=said, cpu=made, multiple_results=True)
    with pytest.raises(DeclarationError, match=message):
        minijit.jit(lambda x: call(x))(X)

"""What only a GPU shows: that it runs our kernels, where, and with NumPy's values.

Every body also runs on the emulated device, at smaller sizes and for a few programs, so that the
first run on a card finds faults of the kernels and not of the tests. The benchmark's sweeps are
checked by the benchmark, before it times them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.tools.workloads import WORKLOADS, as_tuple, find, largest_error
from tests.backends.test_cuda_programs import PROGRAMS, softmax
from tests.gpu.conftest import Place
from tests.test_examples import COMPARISONS, PITFALLS
from tests.test_examples_cuda import EXAMPLES, run_example

NEEDS = {"image_filter": "skimage", "logistic_regression_digits": "sklearn"}
RANDOM = np.random.default_rng(11)


def everywhere(everything: Iterable[str], here: Iterable[str]) -> Any:
    """Parametrize ``place`` and ``name``: every name on a GPU, a few on the emulated one."""
    gpu = [pytest.param("cuda", name, marks=pytest.mark.gpu) for name in everything]
    few = [pytest.param("cuda-emulated", name) for name in here]
    return pytest.mark.parametrize(("place", "name"), gpu + few, indirect=["place"])


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape, dtype=np.float32)


@everywhere(PROGRAMS, ("chain", "half", "softmax_strided", "scalar", "sum_split"))
def test_program_gives_numpys_result(place: Place, name: str) -> None:
    function, arguments = PROGRAMS[name]
    moved = [place.put(a) if isinstance(a, np.ndarray) else a for a in arguments]
    results = place.get(as_tuple(minijit.jit(function)(*moved)))
    tolerance = 2e-3 if name in ("half", "sum_half") else 1e-5
    for result, wanted in zip(results, as_tuple(function(*arguments)), strict=True):
        assert result.dtype == wanted.dtype
        np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)


@everywhere((workload.name for workload in WORKLOADS), ("scale and shift 8", "softmax 4x8"))
def test_workload_is_within_its_tolerance(place: Place, name: str) -> None:
    workload = find(name)
    inputs = workload.make_inputs()
    jitted = minijit.jit(lambda *arrays: workload.function(np, *arrays))
    results = place.get(as_tuple(jitted(*map(place.put, inputs))))
    assert largest_error(results, workload.reference(inputs)) <= workload.tolerance


@everywhere(EXAMPLES, ("layernorm", "pitfalls_static_arguments"))
def test_example_agrees_with_the_eager_library(place: Place, name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    with place.cupy():
        printed = run_example(name, "--quick", "--device", "cuda")
    if name in PITFALLS:
        assert "programs" in printed
        return
    differences = [float(text) for text in re.findall(r"largest difference  (\S+)", printed)]
    # CuPy's functions have errors of their own.
    for difference, (most, _, _) in zip(differences, COMPARISONS[name], strict=True):
        assert difference <= 10 * most


def test_elementwise_results_have_numpys_bits(place: Place) -> None:
    def function(x: Any, y: Any) -> Any:
        return np.sqrt(np.abs(x)) * y + x / y - np.minimum(x, y), x * y + x, np.floor(x) < y

    size = place.size(1 << 20, 600)
    with np.errstate(all="ignore"):
        # All kinds of bits: subnormals, infinities, NaN.
        x, y = (RANDOM.integers(0, 1 << 32, size, np.uint32).view(np.float32) for _ in range(2))
        wanted = function(x, y)
    results = place.get(minijit.jit(function)(place.put(x), place.put(y)))
    for result, want in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result, want)
        numbers = ~np.isnan(want) if want.dtype.kind == "f" else slice(None)
        assert result[numbers].tobytes() == want[numbers].tobytes()


def test_results_are_the_same_bits_at_every_call(place: Place) -> None:
    x = place.put(floats(place.size(1 << 22, 5000)))
    results = {place.get(minijit.jit(lambda v: v.sum())(x)).tobytes() for _ in range(3)}
    assert len(results) == 1


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_views_are_read_in_place(place: Place, dtype: str) -> None:
    def function(v: Any) -> Any:
        return v + v

    host = RANDOM.integers(0, 100, 600).astype(dtype)
    array, jitted = place.put(host), minijit.jit(function)
    for view in (
        lambda a: a,
        lambda a: a[1:],
        lambda a: a[3:-2],
        lambda a: a[::2],
        lambda a: a[::-1],
        lambda a: a[5:261].reshape(16, 16).T,
    ):
        np.testing.assert_array_equal(place.get(jitted(view(array))), function(view(host)))


def test_row_kernels_read_unaligned_views(place: Place) -> None:
    host = floats(33 * 64 + 1)
    result = place.get(minijit.jit(softmax)(place.put(host)[1:].reshape(33, 64)))
    np.testing.assert_allclose(result, softmax(host[1:].reshape(33, 64)), rtol=1e-5)


def test_empty_and_scalar_arrays(place: Place) -> None:
    jitted = minijit.jit(lambda v: v * 2 + 1)
    for host in (np.float32(3) * np.ones(()), np.ones((0, 4), np.float32), np.ones((1, 1))):
        result = place.get(jitted(place.put(host)))
        assert result.shape == host.shape
        np.testing.assert_array_equal(result, host * 2 + 1)


def test_positions_beyond_32_bits(place: Place) -> None:
    size = place.size((1 << 31) + 4099, 4099)
    if place.real and place.xp.cuda.runtime.memGetInfo()[0] < 3 * size:
        pytest.skip("the GPU has too little free memory")
    x = place.put(place.xp.zeros(size, np.int8))
    x[0], x[size // 2], x[size - 1] = 1, 2, 3
    more = minijit.jit(lambda v: v + np.int8(1))(x)
    assert [int(more[n]) for n in (0, 1, size // 2, size - 2, size - 1)] == [2, 1, 3, 1, 4]
    assert int(minijit.jit(lambda v: v.sum())(x)) == 6
    assert int(minijit.jit(lambda v: v.argmax())(x)) == size - 1


def test_rows_and_columns_beyond_32_bits(place: Place) -> None:
    rows, columns = place.size(70_000, 20), place.size(32_768, 64)
    if place.real and place.xp.cuda.runtime.memGetInfo()[0] < 3 * rows * columns:
        pytest.skip("the GPU has too little free memory")
    x = place.put(place.xp.zeros((rows, columns), np.uint8))
    x[rows - 1, columns - 1] = 9
    by_row, by_column = minijit.jit(lambda v: (v.max(axis=1), v.sum(axis=0)))(x)
    assert (int(by_row[0]), int(by_row[rows - 1]), int(by_row.sum())) == (0, 9, 9)
    assert (int(by_column[0]), int(by_column[columns - 1]), int(by_column.sum())) == (0, 9, 9)


def test_kernels_run_on_the_current_stream(place: Place) -> None:
    steps = place.size(200, 3)
    jitted = minijit.jit(lambda v: v * 2 + 1)
    x = place.put(np.zeros(place.size(1 << 24, 256), np.float32))
    minijit.block_until_ready(jitted(x))
    with place.stream():
        late = x
        for _ in range(steps):
            # On a GPU this is still running when the kernel is launched.
            late = late + 1
        result = place.get(jitted(late))
    assert (result == 2 * steps + 1).all()


def test_graphs_are_replayed_on_the_current_stream(place: Place) -> None:
    steps = place.size(2000, 70)

    def waves(u: Any) -> Any:
        return lax.fori_loop(0, steps, lambda _, v: v - 0.25 * (v - jnp.roll(v, 1)), u)

    host = floats(place.size(100_000, 40))
    with minijit.disable_jit():
        wanted = waves(host)
    jitted = minijit.jit(waves)
    for call in (1, 2):
        with place.stream():
            result = place.get(jitted(place.put(host)))
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
        assert jitted.stats()["graph_launches"] >= 4 * call


def test_conditions_are_read_after_several_steps(place: Place) -> None:
    def halved(u: Any, least: Any) -> Any:
        return lax.while_loop(lambda v: v[0] > least, lambda v: v[::-1] * np.float32(0.5), u)

    jitted, host = minijit.jit(halved), np.full(place.size(100_000, 40), 1, np.float32)
    for power in (0, 1, 2, 9, 40):
        with place.stream():
            result = place.get(jitted(place.put(host), np.float32(0.5**power)))
        assert (result == np.float32(0.5**power)).all()
    stats = jitted.stats()
    assert stats["host_steps"] == 52
    assert stats["host_reads"] < 25


def test_threads_launch_side_by_side(place: Place) -> None:
    jitted = minijit.jit(lambda v, factor: v * factor)
    host = floats(place.size(100_000, 100))
    x = place.put(host)
    minijit.block_until_ready(jitted(x, 1))

    def work(thread: int) -> bool:
        with place.stream():
            return all(
                np.array_equal(place.get(jitted(x, factor)), host * np.float32(factor))
                for factor in range(100 * thread, 100 * thread + place.size(50, 3))
            )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_numpy_arrays_are_copied_over(place: Place, counts: Any) -> None:
    host = floats(4, 4)
    result = minijit.jit(softmax)(host)
    assert counts["copy_to_device"] == 1
    assert place.backend.is_array(result)
    assert result.block_until_ready() is result
    np.testing.assert_allclose(place.get(result), softmax(host), rtol=1e-5)

"""What is counted: on kernels that waste something on purpose, and on ours, which must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cuda
from numba.cuda import float32, float64, int32

from minijit.backends.base import load_source
from minijit.backends.emulator.backend import EmulatedBackend
from minijit.backends.emulator.counters import Counters
from minijit.backends.emulator.device import EmulatedDevice
from minijit.lowering.kernel_ir import Kernel, Role
from tests.backends.emulator.emulated_kernels import run
from tests.lowering import cuda_kernels
from tests.lowering.kernel_builder import evaluate, random_inputs
from tests.sampling import paired

F32 = np.float32


def counted(function: Callable[..., Any], *arguments: Any, **options: Any) -> Counters:
    counters = Counters()
    run(function, *arguments, counters=counters, **options)
    return counters


def contiguous(source: Any, out: Any) -> None:
    i = cuda.grid(1)
    out[i] = source[i]


def strided(source: Any, out: Any) -> None:
    i = cuda.grid(1)
    out[i] = source[8 * i]


def broadcast(source: Any, out: Any) -> None:
    i = cuda.grid(1)
    out[i] = source[i // 32]


def shifted(source: Any, out: Any) -> None:
    i = cuda.grid(1)
    out[i] = source[i + 1]


@pytest.mark.parametrize(
    ("function", "sectors", "fewest", "distinct"),
    [
        (contiguous, 4 + 4, 4 + 4, 4 + 4),
        (strided, 32 + 4, 4 + 4, 32 + 4),
        (broadcast, 1 + 4, 1 + 4, 0.125 + 4),
        (shifted, 5 + 4, 4 + 4, 4.125 + 4),
    ],
)
def test_sectors(
    function: Callable[..., Any], sectors: float, fewest: float, distinct: float
) -> None:
    counters = counted(function, np.zeros(2048, F32), np.zeros(256, F32), grid=2, block=128)
    assert (counters.l1_sectors, counters.fewest_sectors) == (8 * sectors, 8 * fewest)
    assert counters.distinct_sectors == 8 * distinct


def through_shared(out: Any, stride: Any) -> None:
    held = cuda.shared.array(1056, float32)
    i = int32(cuda.threadIdx.x)
    held[i * stride] = float32(i)
    cuda.syncthreads()
    out[i] = held[i * stride]


@pytest.mark.parametrize(("stride", "turns"), [(1, 1), (2, 2), (4, 4), (32, 32), (33, 1), (3, 1)])
def test_bank_conflicts(stride: int, turns: int) -> None:
    counters = counted(through_shared, np.zeros(32, F32), np.int32(stride))
    assert counters.shared_requests == 2
    assert counters.bank_conflicts == 2 * (turns - 1)
    assert counters.barriers == 1


def doubles_of_few_lanes(out: Any, lanes: Any, stride: Any) -> None:
    held = cuda.shared.array(512, float64)
    i = int32(cuda.threadIdx.x)
    if i % lanes == 0:
        held[i // lanes * stride] = float64(i)
    cuda.syncthreads()
    out[i] = float32(0)


@pytest.mark.parametrize(
    ("lanes", "stride", "turns"), [(1, 1, 1), (4, 4, 1), (4, 16, 4), (2, 4, 2)]
)
def test_wide_accesses_are_served_by_halves_of_the_lanes(
    lanes: int, stride: int, turns: int
) -> None:
    arguments = np.zeros(32, F32), np.int32(lanes), np.int32(stride)
    assert counted(doubles_of_few_lanes, *arguments).bank_conflicts == 2 * (turns - 1)


def diverging(out: Any) -> None:
    i = cuda.grid(1)
    n = int32(0)
    while n < i % 4:
        n += int32(1)
        out[i] = float32(n)


def test_divergence_and_lanes() -> None:
    counters = counted(diverging, np.zeros(64, F32), block=64)
    assert counters.divergent_branches >= 2 * 3
    used = counters.thread_instructions / (32 * counters.warp_instructions)
    assert 0.4 < used < 0.95
    assert counted(contiguous, np.zeros(64, F32), np.zeros(64, F32)).divergent_branches == 0


def launched(kernel: Kernel, cc: tuple[int, int] = (9, 0)) -> tuple[Counters, Any, Any]:
    backend = EmulatedBackend(EmulatedDevice(cc, count=True, block_order=1), cc)
    source = backend.emit(kernel)
    inputs = random_inputs(kernel)
    if kernel.name in ("adam", "black_scholes"):
        inputs = [np.abs(x) + F32(0.1) for x in inputs]
    scalars = tuple(F32(0.25) for _ in kernel.arguments)
    outputs = [
        backend.allocator((b.size,), b.dtype)() for b in kernel.buffers if b.role is Role.OUTPUT
    ]
    launcher = load_source(backend, source, backend.compile(source))
    launcher((*map(backend.asarray, inputs), *outputs, *scalars))
    return backend.device.counters[kernel.name], outputs, evaluate(kernel, inputs, scalars)


# Small, and each by the schedule of its large form; the allowed sectors over those of the launch.
KERNELS: dict[str, tuple[Callable[[], Kernel], float]] = {
    "gelu": (lambda: cuda_kernels.gelu(1 << 14), 1.05),
    "gelu odd": (lambda: cuda_kernels.gelu(10_003), 1.05),
    "adam": (lambda: cuda_kernels.adam(10_000), 1.05),
    "black-scholes": (lambda: cuda_kernels.black_scholes(4096), 1.05),
    "bias": (lambda: cuda_kernels.bias(64, 256), 1.6),
    "transpose": (lambda: cuda_kernels.transpose(96, 128), 1.55),
    "softmax": (lambda: cuda_kernels.softmax(16, 1024), 1.05),
    "softmax short": (lambda: cuda_kernels.softmax(500, 20), 1.01),
    "softmax block": (lambda: cuda_kernels.softmax(4, 8192), 1.05),
    "softmax odd": (lambda: cuda_kernels.softmax(16, 1001), 1.02),
    "softmax columns": (lambda: cuda_kernels.softmax(64, 256, axis=0), 1.2),
    "layernorm": (lambda: cuda_kernels.layernorm(8, 1024), 2.0),
    "rmsnorm": (lambda: cuda_kernels.rmsnorm(8, 768), 1.7),
    # The row does not fit one block: it is read once for each pass.
    "softmax in passes": (lambda: cuda_kernels.softmax(2, 65536), 2.0),
    "logsumexp": (lambda: cuda_kernels.logsumexp(8, 1024), 1.05),
    "column sum": (lambda: cuda_kernels.column_sum(512, 96), 1.2),
    "long sum": (lambda: cuda_kernels.long_sum(200_001), 1.05),
    "argmax": (lambda: cuda_kernels.argmax(8, 1024), 1.05),
}


@pytest.mark.parametrize(("name", "cc"), paired(KERNELS, [(8, 0), (9, 0), (10, 0)]), ids=str)
def test_kernel_is_right_and_moves_little(name: str, cc: tuple[int, int]) -> None:
    make, allowed = KERNELS[name]
    counters, results, expected = launched(make(), cc)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(np.asarray(result), wanted, rtol=2e-5, atol=2e-5)
    assert counters.bank_conflicts == 0
    assert counters.l1_sectors <= allowed * counters.distinct_sectors
    if name not in ("transpose", "softmax columns"):
        assert counters.l1_sectors <= 1.05 * counters.fewest_sectors
    assert counters.atomics == 0

"""CPU kernels compiled, run on one and on two threads, and compared with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijit.backends.base import load_source
from minijit.backends.cpu.backend import CpuBackend
from minijit.backends.cpu.pool import available_threads, set_threads
from minijit.lowering.kernel_ir import Kernel, Role
from minijit.lowering.source import KernelSource
from tests.lowering.kernel_builder import evaluate, random_inputs

BACKEND = CpuBackend()
Arrays = list[np.ndarray[Any, Any]]


def run(kernel: Kernel, inputs: Sequence[Any], scalars: Sequence[Any] = ()) -> Arrays:
    """Compile and launch a kernel on one and on two threads; the results must be the same bits."""
    source = BACKEND.emit(kernel)
    launch = load_source(BACKEND, source, BACKEND.compile(source))
    results: list[Arrays] = []
    for threads in (1, 2):
        set_threads(threads)
        outputs = [np.zeros(b.size, b.dtype) for b in kernel.buffers if b.role is Role.OUTPUT]
        launch((*inputs, *outputs, *scalars))
        results.append(outputs)
    set_threads(available_threads())
    for one, two in zip(*results, strict=True):
        assert one.tobytes() == two.tobytes()
    return results[0]


def check(
    kernel: Kernel, scalars: Sequence[Any] = (), tolerance: float = 1e-5, seed: int = 0
) -> KernelSource:
    """Compare every output of a kernel with NumPy's; zero tolerance means the same bits."""
    inputs = random_inputs(kernel, seed)
    for result, wanted in zip(
        run(kernel, inputs, scalars), evaluate(kernel, inputs, scalars), strict=True
    ):
        if tolerance:
            np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(result.view(np.uint8), wanted.view(np.uint8))
    return BACKEND.emit(kernel)

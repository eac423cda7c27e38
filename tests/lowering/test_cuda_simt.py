"""The Python stand-in for a GPU finds the faults that it is there to find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import cuda

from minijit.kernels.cuda import VOCABULARY
from minijit.kernels.cuda.warp import shuffle_xor
from minijit.lowering.cuda import CudaLaunch
from minijit.lowering.kernel_ir import Buffer, Kernel, Role
from minijit.lowering.source import KernelSource
from tests.lowering.simt import Pointer, run

F32 = np.dtype(np.float32)
SHARED = "s = cuda.shared.array(64, float32)\ns[t] = load(b0, t)"


def execute(body: str, threads: int = 64, aligned: bool = True) -> np.ndarray[Any, Any]:
    """Run a kernel of one block over ``b0`` (0, 1, 2 ... 63) and an output ``b1`` of 64."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    buffers = (Buffer("x", F32, Role.INPUT, True, 64), Buffer("y", F32, Role.OUTPUT, True, 64))
    kernel = Kernel("kernel", (64,), (), buffers, (), ())
    names = {**VOCABULARY, "syncthreads": cuda.syncthreads, "shuffle_xor": shuffle_xor}
    names["float32"] = np.float32
    text = f"def kernel(b0, b1):\n    t = thread_index()\n{lines}"
    launch = CudaLaunch(1, threads, 0, (0,), True, 1)
    out = np.zeros(64, np.float32)
    x = Pointer(np.arange(64, dtype=np.float32), aligned)
    run(KernelSource(kernel, text, names, "", launch), [x, Pointer(out)])
    return out


def test_threads_exchange_values() -> None:
    out = execute("store(b1, t, shuffle_xor(load(b0, t), 1))")
    assert out.tolist() == [float(n ^ 1) for n in range(64)]


def test_a_barrier_makes_shared_memory_visible() -> None:
    body = (
        "s = cuda.shared.array(64, float32)\n"
        "s[t] = load(b0, t)\n"
        "syncthreads()\n"
        "store(b1, t, s[63 - t])"
    )
    assert execute(body).tolist() == [float(63 - n) for n in range(64)]


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("store(b1, t, load(b0, t + 1))", "load of element 64"),
        ("store(b1, t - 1, load(b0, t))", "store to element -1"),
        ("store(b1, t // 2, load(b0, t))", "written twice"),
        ("v = cuda.local.array(4, float32)\nload_vector(v, 0, b0, t)", "not a multiple of 4"),
        ("if t < 40:\n    shuffle_xor(load(b0, t), 1)", "diverge"),
        ("if t < 32:\n    syncthreads()", "misses a barrier"),
        (f"{SHARED}\ns[63 - t]", "not written"),
        (f"{SHARED}\nsyncthreads()\ns[63 - t] = load(b0, t)\nv = s[t]", "race"),
        ("s = cuda.shared.array(1, float32)\ns[0] = load(b0, t)", "race"),
        ("narrow(1 << 31)", "does not fit"),
    ],
)
def test_faults_are_found(body: str, fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        execute(body)


def test_vectors_need_aligned_buffers() -> None:
    body = "v = cuda.local.array(4, float32)\nload_vector(v, 0, b0, 0)"
    execute(body)
    with pytest.raises(AssertionError, match="unaligned"):
        execute(body, aligned=False)


def test_registers_hold_garbage_before_they_are_written() -> None:
    out = execute("v = cuda.local.array(1, float32)\nstore(b1, t, v[0])")
    assert (out != 0).all()

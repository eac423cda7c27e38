"""CUDA kernels with loops and branches: the compiled PTX on the emulated device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.backends import registry
from minijit.backends.emulator.backend import EmulatedBackend
from minijit.backends.emulator.device import EmulatedDevice
from minijit.graph.tree import flatten
from minijit.lowering.kernel_ir import Kernel
from tests.lowering.kernel_builder import random_inputs
from tests.lowering.loop_builder import interpret
from tests.lowering.random_loops import random_kernel

F32 = np.float32
rng = np.random.default_rng(7)


def run(kernel: Kernel, inputs: Sequence[Any], scalars: Sequence[Any]) -> list[Any]:
    """Compile and launch a kernel; nothing that a thread holds lies in memory."""
    backend = EmulatedBackend(EmulatedDevice(block_order=3))
    source = backend.emit(kernel)
    binary = backend.compile(source)
    assert (binary.resources["stack"], binary.resources["spill_stores"]) == (0, 0)
    buffers = [backend.asarray(x) for x in inputs]
    outputs = [backend.device.empty((b.size,), b.dtype) for b in kernel.outputs]
    backend.load(source, binary)((*buffers, *outputs, *scalars))
    return [np.asarray(x) for x in outputs]


@pytest.mark.parametrize("rows", [(), (37,), (7, 33), (300,)])
@pytest.mark.parametrize("seed", range(2))
def test_random_kernels(rows: tuple[int, ...], seed: int) -> None:
    kernel = random_kernel(rows, 100 * len(rows) + sum(rows) + seed)
    inputs = random_inputs(kernel)
    for index in (0, 2):
        results = run(kernel, inputs, (index,))
        for result, want in zip(results, interpret(kernel, inputs, (index,)), strict=True):
            np.testing.assert_array_equal(result, want)


def average(x: Any) -> Any:
    def step(mean: Any, row: Any) -> Any:
        mean = 0.75 * mean + 0.25 * row
        return mean, mean

    return lax.scan(step, jnp.zeros_like(x[0]), x)


def softmax_steps(x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        state = state * row
        e = jnp.exp(state - state.max(-1, keepdims=True))
        state = e / e.sum(-1, keepdims=True)
        return state, (state.max(-1), state)

    return lax.scan(step, x[0], x)


def unit_steps(x: Any) -> Any:
    """One reduction a step: the exchange of a step must not meet that of the next one."""

    def step(state: Any, row: Any) -> Any:
        return state / jnp.sqrt((state * state).sum(-1, keepdims=True)) + row, None

    return lax.scan(step, x[0], x)[0]


def newton(x: Any) -> Any:
    def go_on(state: Any) -> Any:
        return jnp.abs(state[1]).max() > 1e-4

    def step(state: Any) -> Any:
        root, _ = state
        change = (root * root - x) / (2 * root)
        return root - change, change

    return lax.while_loop(go_on, step, (x, x))[0]


def mandelbrot(real: Any, imaginary: Any) -> Any:
    def step(i: Any, state: Any) -> Any:
        x, y, count = state
        alive = x * x + y * y < 4
        new = jnp.where(alive, x * x - y * y + real, x), jnp.where(alive, 2 * x * y + imaginary, y)
        return (*new, count + alive.astype(np.int32))

    zero = jnp.zeros_like(real)
    return lax.fori_loop(0, 20, step, (zero, zero, zero.astype(np.int32)))[2]


def scalar_steps(x: Any) -> Any:
    def step(total: Any, value: Any) -> Any:
        return jnp.tanh(total + value), lax.cond(value > 0.5, lambda: total, lambda: -1.0)

    return lax.scan(step, 0.0, x, reverse=True)


def nested(x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, value: value * row + i, state), None

    return lax.scan(step, x[0], x)[0]


def random(*shape: int) -> Any:
    return rng.random(shape, dtype=F32)


PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "average": (average, (random(9, 300),)),
    "half average": (average, (random(9, 77).astype(np.float16),)),
    "short rows": (softmax_steps, (random(4, 5, 8),)),
    "rows of a block": (softmax_steps, (random(3, 3, 300),)),
    "long rows": (softmax_steps, (random(3, 2, 2000),)),
    "one exchange a step": (unit_steps, (random(6, 3, 700),)),
    "until all have converged": (newton, (1 + random(150),)),
    "mandelbrot": (mandelbrot, (random(9, 37), random(9, 37))),
    "scalar": (scalar_steps, (random(40),)),
    "nested": (nested, (random(4, 30),)),
    "position in a row": (
        lambda x: lax.scan(lambda h, row: (h + row, (h + row).argmax(-1)), x[0], x),
        (random(4, 3, 50),),
    ),
    "row branch": (
        lambda p, x: lax.cond(p > 0, lambda: x / x.sum(1, keepdims=True), lambda: x - 1),
        (F32(1), random(5, 80)),
    ),
    "switch": (
        lambda n, x: lax.switch(n, [jnp.exp, jnp.sin, lambda v: v * 2], x) + 1,
        (np.int32(1), random(100)),
    ),
}


@pytest.mark.parametrize("cc", [(8, 0), (9, 0), (10, 0)], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_run_in_one_kernel(
    name: str, cc: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    function, arguments = PROGRAMS[name]
    backend = EmulatedBackend(EmulatedDevice(cc, block_order=5), cc)
    built = []
    build = backend._build

    def noting(source: Any) -> Any:
        built.append(build(source))
        return built[-1]

    monkeypatch.setattr(backend, "_build", noting)
    monkeypatch.setitem(registry._backends, "cuda-emulated", backend)
    with minijit.default_device("cuda-emulated"), minijit.debug.count() as events:
        got = minijit.jit(function)(*arguments)
    assert events["launch"] == 1
    assert all(b.resources["cc"] == 10 * cc[0] for b in built)
    assert all(b.resources["stack"] == b.resources["spill_stores"] == 0 for b in built)
    wanted = flatten(function(*arguments))[0]
    for result, want in zip(flatten(got)[0], map(np.asarray, wanted), strict=True):
        assert (result.shape, result.dtype) == (want.shape, want.dtype)
        tolerance = 2e-3 if want.dtype == np.float16 else 4e-6
        np.testing.assert_allclose(np.asarray(result), want, rtol=tolerance, atol=tolerance)

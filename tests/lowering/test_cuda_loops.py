"""CUDA kernels with loops and branches: the compiled PTX on the emulated device."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.backends import registry
from minijit.backends.base import Binary, load_source
from minijit.backends.emulator.backend import EmulatedBackend
from minijit.backends.emulator.counters import Counters
from minijit.backends.emulator.device import EmulatedDevice
from minijit.graph.tree import flatten
from minijit.lowering.kernel_ir import Kernel, Level, Operand, Value
from minijit.lowering.source import KernelSource
from tests.lowering import simt
from tests.lowering.kernel_builder import constant, random_inputs
from tests.lowering.loop_builder import LoopBuilder, interpret
from tests.lowering.random_loops import random_kernel
from tests.lowering.simt import Pointer
from tests.sampling import paired

F16, F32 = np.float16, np.float32
rng = np.random.default_rng(7)


CAPABILITIES = [(8, 0), (9, 0), (10, 0)]


def run(
    kernel: Kernel,
    inputs: Sequence[Any],
    scalars: Sequence[Any] = (),
    cc: tuple[int, int] = (9, 0),
) -> list[Any]:
    """Compile and launch a kernel; nothing that a thread holds lies in memory."""
    backend = EmulatedBackend(EmulatedDevice(cc, block_order=3), cc)
    source = backend.emit(kernel)
    binary = backend.compile(source)
    assert (binary.resources["stack"], binary.resources["spill_stores"]) == (0, 0)
    buffers = [backend.asarray(x) for x in inputs]
    outputs = [backend.device.empty((b.size,), b.dtype) for b in kernel.outputs]
    load_source(backend, source, binary)((*buffers, *outputs, *scalars))
    return [np.asarray(x) for x in outputs]


def written_once(kernel: Kernel, inputs: Sequence[Any]) -> bool:
    """Whether one thread stores each element of the outputs; the device would not notice more."""
    source = EmulatedBackend().emit(kernel)
    outputs = [Pointer.of(np.zeros(b.size, b.dtype)) for b in kernel.outputs]
    simt.run(source, [*map(Pointer.of, inputs), *outputs])
    return all(bool((output.writes == 1).all()) for output in outputs)


ROWS = ((), (37,), (7, 33), (300,))


@pytest.mark.parametrize(
    ("case", "cc"), paired(itertools.product(ROWS, range(2)), CAPABILITIES), ids=str
)
def test_random_kernels(case: tuple[tuple[int, ...], int], cc: tuple[int, int]) -> None:
    rows, seed = case
    kernel = random_kernel(rows, 100 * len(rows) + sum(rows) + seed)
    inputs = random_inputs(kernel)
    for index in (0, 2):
        results = run(kernel, inputs, (index,), cc)
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


def unit_columns(x: Any) -> Any:
    """Neighbours in memory are rows of the kernel: the reduced axis comes before the last."""

    def step(state: Any, row: Any) -> Any:
        state = state / jnp.sqrt((state * state).sum(0, keepdims=True)) + row
        return state, (state, state.argmax(0))

    return lax.scan(step, jnp.ones_like(x[0]), x)


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


def last_axis(x: Any, weights: Any) -> Any:
    """Steps lie side by side in memory, points far apart; ``ys`` lie there across."""

    def step(mean: Any, column: Any) -> Any:
        x, w = column
        mean = w * mean + x
        return mean, (mean, mean > 1)

    return lax.scan(step, jnp.zeros_like(x[..., 0]), (jnp.moveaxis(x, -1, 0), weights))


def counts(x: Any) -> Any:
    """Values of all steps that lie as those that are read."""
    return lax.scan(lambda t, column: (t + column,) * 2, jnp.zeros_like(x[:, 0]), x.T)


def passes(x: Any, weights: Any) -> Any:
    """A loop in a loop whose steps lie side by side."""

    def step(means: Any, weight: Any) -> Any:
        means = lax.scan(lambda m, column: (weight * m + column, None), means, x.T)[0]
        return means, -means

    return lax.scan(step, jnp.zeros_like(x[:, 0]), weights)


def marks(x: Any) -> Any:
    """What is read and what is written at each step have elements of several widths."""

    def step(mean: Any, row: Any) -> Any:
        mean = 0.75 * mean + 0.25 * row
        return mean, (mean > 0.5, row, (mean * 100).astype(np.int8))

    return lax.scan(step, jnp.zeros_like(x[0]), x)


def epochs(x: Any) -> Any:
    """A loop over the same steps again and again."""

    def epoch(state: Any, rate: Any) -> Any:
        state = lax.scan(lambda s, row: (s * rate + row, None), state, x)[0]
        return state, state

    return lax.scan(epoch, jnp.zeros_like(x[0]), x[:3, 0])


def most_of_rows(x: Any) -> Any:
    """Of rows one element is stored at each step, and one is read."""
    shares = x[..., 0]

    def step(state: Any, row: Any) -> Any:
        cells, share = row
        state = state * share[..., None] + cells
        return state, (state.max(-1), state.argmax(-1))

    return lax.scan(step, x[0], (x, shares * 1))


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
    "columns of a warp": (unit_columns, (random(4, 5, 33),)),
    "columns of a block": (unit_columns, (random(3, 150, 40),)),
    "columns too long to hold": (unit_columns, (random(2, 1100, 8),)),
    "until all have converged": (newton, (1 + random(150),)),
    "mandelbrot": (mandelbrot, (random(9, 37), random(9, 37))),
    "scalar": (scalar_steps, (random(40),)),
    "last axis": (last_axis, (random(50, 100), random(100))),
    "last axis of half": (
        last_axis,
        (random(3, 11, 77).astype(np.float16), random(77).astype(np.float16)),
    ),
    "few steps of the last axis": (last_axis, (random(40, 9), random(9))),
    "passes over the last axis": (passes, (random(5, 41), random(35) / 2)),
    "steps of several widths": (marks, (random(21, 77),)),
    "half steps of several widths": (marks, (random(33, 301).astype(np.float16),)),
    "steps again and again": (epochs, (random(21, 45),)),
    "elements of rows": (most_of_rows, (random(19, 5, 33),)),
    "rows that begin within sectors": (softmax_steps, (random(3, 24, 301),)),
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


@dataclasses.dataclass(frozen=True)
class Ran:
    """What one call of a program on a new emulated device came to."""

    results: Any
    launches: int
    binary: Binary
    counters: Counters


def ran(function: Any, arguments: Sequence[Any], cc: tuple[int, int] = (9, 0)) -> Ran:
    """Compile a program anew, for ``cc``, and run it; it must be one kernel."""
    backend = EmulatedBackend(EmulatedDevice(cc, count=True, block_order=5), cc)
    compiled = []

    def noting(source: KernelSource) -> Binary:
        compiled.append(compile_(source))
        return compiled[-1]

    compile_ = backend.compile
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "compile", noting)
        patch.setitem(registry._backends, "cuda-emulated", backend)
        # The cache does not tell apart two backends of one name.
        minijit.clear_caches()
        with minijit.default_device("cuda-emulated"), minijit.debug.count() as events:
            results = minijit.jit(function)(*arguments)
        minijit.clear_caches()
    (binary,), (counters,) = compiled, backend.device.counters.values()
    assert binary.resources["cc"] == 10 * cc[0]
    return Ran(results, events["launch"], binary, counters)


@pytest.mark.parametrize(("name", "cc"), paired(PROGRAMS, CAPABILITIES), ids=str)
def test_programs_run_in_one_kernel(name: str, cc: tuple[int, int]) -> None:
    function, arguments = PROGRAMS[name]
    got = ran(function, arguments, cc)
    assert got.launches == 1
    assert (got.binary.resources["stack"], got.binary.resources["spill_stores"]) == (0, 0)
    wanted = flatten(function(*arguments))[0]
    for result, want in zip(flatten(got.results)[0], map(np.asarray, wanted), strict=True):
        assert (result.shape, result.dtype) == (want.shape, want.dtype)
        tolerance = 2e-3 if want.dtype == np.float16 else 4e-6
        np.testing.assert_allclose(np.asarray(result), want, rtol=tolerance, atol=tolerance)


def either(p: Any, x: Any) -> Any:
    return lax.cond(p > 0, lambda: jnp.exp(x) * 2, lambda: x - 1)


# Sectors that warps ask for over those of arguments and results; memory moves fewer. Rows of a scan
# that reduces are read twice at first.
TRAFFIC: dict[str, tuple[Any, tuple[Any, ...], float]] = {
    "average": (average, (random(16, 1024),), 1.01),
    "half average": (average, (random(16, 1024).astype(np.float16),), 1.01),
    "rows that are not aligned": (average, (random(9, 300),), 1.01),
    "odd rows": (average, (random(40, 301),), 1.01),
    "odd half rows": (average, (random(40, 77).astype(np.float16),), 1.02),
    "odd rows that a step reduces": (softmax_steps, (random(40, 7, 301),), 1.1),
    "odd half rows that a step reduces": (softmax_steps, (random(40, 7, 77).astype(F16),), 1.1),
    "many odd rows that a step reduces": (softmax_steps, (random(20, 24, 301),), 1.1),
    "odd steps of several blocks": (average, (random(40, 1001),), 1.25),
    "odd half steps of several blocks": (average, (random(40, 1001).astype(F16),), 1.5),
    "many short rows": (softmax_steps, (random(40, 40, 9),), 2.2),
    "many short half rows": (softmax_steps, (random(40, 100, 5).astype(F16),), 2.2),
    "few long odd rows": (softmax_steps, (random(40, 7, 1001),), 1.3),
    "few long odd half rows": (softmax_steps, (random(40, 7, 1001).astype(F16),), 1.6),
    "short rows of one block": (softmax_steps, (random(40, 7, 9),), 1.1),
    "many long half rows": (softmax_steps, (random(20, 32, 1023).astype(F16),), 1.1),
    "mandelbrot": (mandelbrot, (random(32, 32), random(32, 32)), 1.01),
    "branch": (either, (F32(1), random(1024)), 1.05),
    "short rows": (softmax_steps, (random(8, 64, 8),), 1.2),
    "short half rows": (softmax_steps, (random(8, 64, 16).astype(np.float16),), 1.3),
    "rows of a block": (softmax_steps, (random(8, 4, 512),), 1.2),
    "last axis": (last_axis, (random(64, 256), random(256)), 1.05),
    "last axis that is not aligned": (last_axis, (random(64, 301), random(301)), 1.15),
    "counts along the last axis": (counts, (rng.integers(0, 9, (32, 128), np.uint8),), 1.05),
    "doubles along the last axis": (counts, (rng.random((32, 64)),), 1.05),
    "scalar": (scalar_steps, (random(1000),), 1.02),
    "columns": (unit_columns, (random(8, 100, 64),), 1.01),
    "half columns": (unit_columns, (random(8, 20, 64).astype(np.float16),), 1.01),
    "columns that are not aligned": (unit_columns, (random(8, 16, 100),), 1.2),
}


@pytest.mark.parametrize("name", TRAFFIC)
def test_memory_is_moved_once(name: str) -> None:
    function, arguments, allowed = TRAFFIC[name]
    got = ran(function, arguments)
    arrays = [np.asarray(x) for x in (*arguments, *flatten(got.results)[0]) if np.ndim(x)]
    fewest = sum(-(-array.nbytes // 32) for array in arrays)
    assert got.counters.dram_sectors <= min(allowed, 1.06) * fewest
    assert got.counters.l1_sectors <= allowed * fewest
    assert got.counters.bank_conflicts == 0


def test_only_the_taken_block_runs() -> None:
    x = random(256)
    expensive = ran(either, (F32(1), x)).counters.warp_instructions
    assert ran(either, (F32(-1), x)).counters.warp_instructions < 0.8 * expensive


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_code_does_not_grow_with_the_steps(depth: int) -> None:
    def lines(steps: int) -> int:
        build = LoopBuilder((64,))

        def around(level: int, value: Operand) -> Operand:
            if level == 0:
                return build.map("add", build.map("exp", value), constant(0.25))
            return build.loop([value], lambda carry: [around(level - 1, carry)], steps)[0]

        build.store(around(depth, build.load([1])), [1])
        backend = EmulatedBackend()
        return backend.compile(backend.emit(build.kernel())).code.count(b"\n")

    assert lines(100_000) <= 1.05 * lines(20)
    assert lines(16) < 400


@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("dtype", [np.float16, F32, np.float64, np.int32, np.int64, np.bool_])
def test_carries_change_at_once(dtype: Any, steps: int) -> None:
    op = "bitwise_xor" if dtype is np.bool_ else "add"
    build = LoopBuilder((5, 33))
    first, second = build.load([33, 1], dtype), build.load([1, 5], dtype)
    outs = build.loop([first, second, first], lambda a, b, c: [b, a, build.map(op, a, c)], steps)
    for out in outs:
        build.store(out, [33, 1])
    kernel = build.kernel()
    x, y = random_inputs(kernel)
    results = run(kernel, (x, y))
    a, b = x.reshape(5, 33), y.reshape(33, 5).T
    c = a
    for _ in range(steps):
        a, b, c = b, a, (a ^ c if dtype is np.bool_ else a + c)
    for result, want in zip(results, (a, b, c), strict=True):
        np.testing.assert_array_equal(result.reshape(5, 33), want)


STEPS_EACH_WAY = itertools.product((1, 6, 70), (False, True))


@pytest.mark.parametrize(("way", "rows"), paired(STEPS_EACH_WAY, (300, 1, 128, 31)), ids=str)
def test_values_of_all_steps(way: tuple[int, bool], rows: int) -> None:
    """A carry of each point and one that all share, whose values one point stores."""
    steps, backwards = way
    build = LoopBuilder((rows,))
    start, stride = (steps - 1, -1) if backwards else (0, 1)

    def step(mean: Value, total: Value) -> Sequence[Operand]:
        x = build.load([1, stride * rows], offset=start * rows, size=rows * steps)
        weight = build.load([0, stride], np.int32, offset=start, size=steps)
        mean = build.map("add", build.map("mul", mean, constant(0.5)), x)
        total = build.map("add", total, weight)
        build.store(mean, [1, stride * rows], offset=start * rows)
        build.store(total, [0, stride], offset=start)
        return mean, total

    inits = [constant(0), constant(3, np.int32)]
    mean, total = build.loop(inits, step, steps, levels=[Level.ROW, Level.LAUNCH])
    build.store(mean, [1])
    build.store(total, [0])
    kernel = build.kernel()
    x, weights = random_inputs(kernel)
    means, totals, last, last_total = run(kernel, (x, weights))
    assert written_once(kernel, (x, weights))
    order = range(steps)[::-1] if backwards else range(steps)
    value, count = np.zeros(rows, F32), np.int32(3)
    for t in order:
        value, count = value * F32(0.5) + x.reshape(steps, rows)[t], count + weights[t]
        np.testing.assert_array_equal(means.reshape(steps, rows)[t], value)
        assert totals[t] == count
    np.testing.assert_array_equal(last, value)
    assert last_total[0] == count


class Sparse(Pointer):
    """An array too large to have one: its elements follow from their positions."""

    def get(self, index: int) -> Any:
        return self.register.type(index % 251)


def test_sequences_far_apart() -> None:
    """Positions beyond int32 in few points."""
    far, steps = 2**31 + 5, 40
    build = LoopBuilder((3,))
    outs = build.loop(
        [constant(0, np.int32)],
        lambda total: [build.map("add", total, build.load([far, 1], np.int32, size=3 * far))],
        steps,
        levels=[Level.ROW],
    )
    build.store(outs[0], [1])
    source = EmulatedBackend().emit(build.kernel())
    assert "read_windows" in source.text
    out = np.zeros(3, np.int32)
    simt.run(source, [Sparse(np.zeros(1, np.int32)), Pointer.of(out)])
    np.testing.assert_array_equal(
        out, [sum((r * far + t) % 251 for t in range(steps)) for r in range(3)]
    )


@pytest.mark.parametrize("cc", CAPABILITIES, ids=str)
def test_loop_in_a_branch_in_a_loop(cc: tuple[int, int]) -> None:
    """The branch follows the step; each of its loops runs until a scalar of its own says so."""
    build = LoopBuilder((77,))

    def until(bound: Operand, op: str, value: Operand) -> Sequence[Operand]:
        return build.loop(
            [constant(0, np.int32), value],
            lambda n, v: [build.map("add", n, constant(1, np.int32)), build.map(op, v, v)],
            condition=lambda n, v: build.map("lt", n, bound, dtype=np.bool_),
            levels=[Level.LAUNCH, Level.ROW],
        )[1:]

    def step(count: Value, value: Value) -> Sequence[Operand]:
        (value,) = build.branch(
            count,
            lambda: until(count, "add", value),
            lambda: until(constant(2, np.int32), "mul", value),
            lambda: [build.map("sub", value, constant(1))],
        )
        return build.map("add", count, constant(1, np.int32)), value

    inits = [constant(0, np.int32), build.load([1])]
    _, value = build.loop(inits, step, 5, levels=[Level.LAUNCH, Level.ROW])
    build.store(value, [1])
    kernel = build.kernel()
    (x,) = random_inputs(kernel)
    want = x * x
    want = want * want - 1 - 1 - 1
    np.testing.assert_array_equal(run(kernel, (x,), cc=cc)[0], want)

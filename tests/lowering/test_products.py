"""Products of rows with matrices inside loops: in the kernel, on both targets."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.backends.registry import get_backend
from minijit.debug import explain_fusion
from minijit.graph import events
from minijit.graph.index import Affine
from minijit.graph.tree import flatten
from minijit.lowering.check import KernelError, check_kernel
from minijit.lowering.demand import Program
from minijit.lowering.kernel_ir import (
    Block,
    Kernel,
    Level,
    Node,
    Place,
    Product,
    Value,
    with_blocks,
)
from minijit.lowering.lower import lower_group
from minijit.lowering.partition import Group, partition
from minijit.runtime.pipeline import optimize
from tests.conftest import Device, on_each_device
from tests.lowering.interpret import FEW_ROWS, run_program
from tests.sampling import paired
from tests.transforms.random_programs import trace

RANDOM = np.random.default_rng(5)
Function = Callable[..., Any]
Array = np.ndarray[Any, Any]
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def draw(*shape: int, dtype: Any = np.float32) -> Array:
    return (RANDOM.standard_normal(shape) * 0.4).astype(dtype)


def elman(h: Any, w: Any, xs: Any) -> Any:
    return lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), h, xs)[0]


def turned(h: Any, w: Any, xs: Any) -> Any:
    return lax.scan(lambda h, x: (jnp.tanh(h @ w.T + x), h), h, xs)


def from_the_left(h: Any, w: Any, xs: Any) -> Any:
    return lax.scan(lambda h, x: (jnp.tanh(w @ h + x), h), h, xs)


def dotted(h: Any, w: Any, xs: Any) -> Any:
    return lax.scan(lambda h, x: (jnp.tanh(jnp.dot(h, w) + x), None), h, xs)[0]


def summed(h: Any, w: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        return jnp.tanh(jnp.einsum("bk,nk->bn", h, w) + x), None

    return lax.scan(step, h, xs)[0]


def alone(h: Any, w: Any) -> Any:
    return lax.scan(lambda h, _: (h @ w, h), h, None, length=4)


def scaled(h: Any, w: Any, xs: Any) -> Any:
    """The matrix is the same at each step, but is not in memory."""
    return lax.scan(lambda h, x: (jnp.tanh(h @ (w * 2).T + x), None), h, xs)[0]


def read_out(h: Any, w: Any, out: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(h @ w + x)
        return h, h @ out

    return lax.scan(step, h, xs)


def fed(h: Any, w: Any, inputs: Any, xs: Any) -> Any:
    return lax.scan(lambda h, x: (jnp.tanh(h @ w + x @ inputs), None), h, xs)[0]


def squash(x: Any) -> Any:
    return 1 / (1 + jnp.exp(-x))


def lstm(h: Any, c: Any, own: Any, inputs: Any, bias: Any, xs: Any) -> Any:
    """One product gives all four gates, which are cut out of it (S. Hochreiter, 1997)."""
    n = h.shape[-1]

    def step(state: Any, x: Any) -> Any:
        h, c = state
        z = h @ own + x @ inputs + bias
        keep, add, new, show = (z[:, k * n : k * n + n] for k in range(4))
        c = squash(keep) * c + squash(add) * jnp.tanh(new)
        h = squash(show) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(step, (h, c), xs)


def gru(h: Any, update: Any, reset: Any, new: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        z, r = squash(h @ update + x), squash(h @ reset + x)
        h = (1 - z) * jnp.tanh((r * h) @ new + x) + z * h
        return h, h.max(-1)

    return lax.scan(step, h, xs)


def normalised(h: Any, w: Any, xs: Any) -> Any:
    """Rows are multiplied and reduced, and a value of each row is carried."""

    def step(state: Any, x: Any) -> Any:
        h, size = state
        h = h @ w + x * size
        size = jnp.sqrt((h * h).mean(-1, keepdims=True))
        return (h / size, size), size[:, 0]

    return lax.scan(step, (h, h[:, :1] * 0 + 1), xs)


def total(h: Any, w: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(h @ w + x)
        return h, (h.sum(), h.mean() * 2, abs(h).max())

    return lax.scan(step, h, xs)


def power_iteration(a: Any, v: Any) -> Any:
    def moves(state: Any) -> Any:
        return (state[1] > 1e-5) & (state[2] < 50)

    def step(state: Any) -> Any:
        v, _, count = state
        u = a @ v
        u = u / jnp.sqrt((u * u).sum())
        return u, abs(u - v).max(), count + 1

    return lax.while_loop(moves, step, (v, np.float32(1), np.int32(0)))


def nested(h: Any, w: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, h: jnp.tanh(h @ w + i), h) + x, None

    return lax.scan(step, h, xs)[0]


def chosen(h: Any, w: Any, xs: Any) -> Any:
    """A branch in the loop, taken by all rows, multiplies."""

    def step(h: Any, x: Any) -> Any:
        return lax.cond(x[0, 0] > 0, lambda: h @ w, lambda: h - x), None

    return lax.scan(step, h, xs)[0]


def symmetric(n: int) -> Array:
    a = draw(n, n)
    return a @ a.T


WITH_NAN = draw(9, 9)
WITH_NAN[2, 3], WITH_NAN[5, 1] = np.nan, np.inf

PROGRAMS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "elman": (elman, (draw(6, 16), draw(16, 16), draw(5, 6, 16))),
    "no whole vectors": (elman, (draw(7, 13), draw(13, 13), draw(5, 7, 13))),
    "many rows": (elman, (draw(70, 37), draw(37, 37), draw(3, 70, 37))),
    "one row": (elman, (draw(1, 19), draw(19, 19), draw(5, 1, 19))),
    "one value": (elman, (draw(1, 1), draw(1, 1), draw(5, 1, 1))),
    "one value a row": (elman, (draw(7, 1), draw(1, 1), draw(5, 7, 1))),
    "vector": (elman, (draw(19), draw(19, 19), draw(5, 19))),
    "rows of two axes": (elman, (draw(2, 3, 5), draw(5, 5), draw(4, 2, 3, 5))),
    "double": (elman, tuple(draw(*s, dtype=F64) for s in [(7, 13), (13, 13), (5, 7, 13)])),
    "half": (elman, tuple(draw(*s, dtype=np.float16) for s in [(7, 13), (13, 13), (5, 7, 13)])),
    "strided": (elman, (draw(6, 9), draw(18, 18)[::2, ::-2], draw(5, 9, 6).transpose(0, 2, 1))),
    "not finite": (elman, (draw(6, 9), WITH_NAN, draw(5, 6, 9))),
    "no steps": (elman, (draw(6, 9), draw(9, 9), draw(0, 6, 9))),
    "turned": (turned, (draw(6, 16), draw(16, 16), draw(5, 6, 16))),
    "vector from the left": (from_the_left, (draw(17), draw(17, 17), draw(5, 17))),
    "columns from the left": (from_the_left, (draw(17, 6), draw(17, 17), draw(5, 17, 6))),
    "dot": (dotted, (draw(6, 9), draw(9, 9), draw(5, 6, 9))),
    "einsum": (summed, (draw(6, 9), draw(9, 9), draw(5, 6, 9))),
    "nothing else": (alone, (draw(6, 9), draw(9, 9))),
    "scaled": (scaled, (draw(6, 9), draw(9, 9), draw(5, 6, 9))),
    "read out": (read_out, (draw(6, 9), draw(9, 9), draw(9), draw(5, 6, 9))),
    "read out a column": (read_out, (draw(6, 9), draw(9, 9), draw(9, 1), draw(5, 6, 9))),
    "fed": (fed, (draw(6, 9), draw(9, 9), draw(4, 9), draw(5, 6, 4))),
    "fed more": (fed, (draw(6, 9), draw(9, 9), draw(21, 9), draw(5, 6, 21))),
    "fed one value": (fed, (draw(6, 9), draw(9, 9), draw(1, 9), draw(5, 6, 1))),
    "half, fed": (
        fed,
        tuple(draw(*s, dtype=np.float16) for s in [(6, 9), (9, 9), (4, 9), (5, 6, 4)]),
    ),
    "lstm": (lstm, (draw(5, 8), draw(5, 8), draw(8, 32), draw(3, 32), draw(32), draw(4, 5, 3))),
    "gru": (gru, (draw(6, 9), draw(9, 9), draw(9, 9), draw(9, 9), draw(5, 6, 9))),
    "normalised": (normalised, (draw(6, 9), draw(9, 9), draw(5, 6, 9))),
    "total": (total, (draw(6, 9), draw(9, 9), draw(5, 6, 9))),
    "power iteration": (power_iteration, (symmetric(12), draw(12))),
    "nested": (nested, (draw(6, 9), draw(9, 9), draw(3, 6, 9))),
    "chosen": (chosen, (draw(6, 9), draw(9, 9), draw(6, 6, 9))),
}


def tolerance(dtype: np.dtype[Any]) -> float:
    return {2: 4e-3, 4: 3e-6, 8: 1e-14}.get(dtype.itemsize, 0) if dtype.kind == "f" else 0


# The emulated device takes one program of each kind, the CPU all.
KINDS = (
    "many rows",
    "one value a row",
    "vector",
    "rows of two axes",
    "half",
    "strided",
    "not finite",
    "no steps",
    "turned",
    "columns from the left",
    "einsum",
    "scaled",
    "read out a column",
    "fed more",
    "lstm",
    "gru",
    "normalised",
    "total",
    "power iteration",
    "nested",
    "chosen",
)


@on_each_device("name", PROGRAMS, emulated=KINDS)
def test_loops_that_multiply_are_kernels(name: str, device: Device) -> None:
    function, args = PROGRAMS[name]
    jitted = minijit.jit(lambda *values: function(*values))
    with events.count() as ran:
        got = device.get(jitted(*map(device.put, args)))
    with minijit.disable_jit(), np.errstate(all="ignore"):
        expected = function(*args)
    for result, want in zip(flatten(got)[0], map(np.asarray, flatten(expected)[0]), strict=True):
        assert (result.shape, result.dtype) == (want.shape, want.dtype)
        close = tolerance(want.dtype)
        np.testing.assert_allclose(result, want, rtol=close, atol=close)
    after = {"total": 1, "scaled": 1, "no steps": -1}.get(name, 0)
    assert ran["host_loop"] == (name == "no steps")
    assert (ran["launch"], ran["matmul"]) == (1 + after, 0)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "no steps"])
def test_interpreter(name: str) -> None:
    function, args = PROGRAMS[name]
    jaxpr = optimize(trace(lambda *xs: flatten(function(*xs))[0], args))
    got, parts = run_program(jaxpr, args)
    assert parts.blocked == ()
    with minijit.disable_jit(), np.errstate(all="ignore"):
        expected = flatten(function(*args))[0]
    for result, want in zip(got, map(np.asarray, expected), strict=True):
        close = tolerance(want.dtype)
        np.testing.assert_allclose(result, want, rtol=close, atol=close)


SHAPES = [tuple(map(int, RANDOM.integers(1, 40, 4))) for _ in range(6)]


SHAPES += [(1, 2, 1, 1), (3, 64, 1, 33)]
FLOATS = (F32, F64)


@on_each_device("case", itertools.product(SHAPES, FLOATS), emulated=paired(SHAPES, FLOATS))
def test_no_less_accurate_than_numpy(
    case: tuple[tuple[int, int, int, int], np.dtype[Any]], device: Device
) -> None:
    shape, dtype = case
    rows, size, length, inputs = shape
    args = [
        draw(*s, dtype=dtype)
        for s in ((rows, size), (size, size), (inputs, size), (length, rows, inputs))
    ]
    args[1] /= np.sqrt(size, dtype=dtype)
    jitted = minijit.jit(lambda *values: fed(*values))
    with events.count() as ran:
        got = device.get(jitted(*map(device.put, args)))
    assert (ran["launch"], ran["host_loop"]) == (1, 0)
    h, w, weights, xs = (x.astype(np.longdouble) for x in args)
    plain = args[0]
    for x, exact in zip(args[3], xs, strict=True):
        h = np.tanh(h @ w + exact @ weights)
        plain = np.tanh(plain @ args[1] + x @ args[2])
    few = 16 * np.finfo(dtype).eps
    assert abs(got - h).max() <= max(2 * abs(plain - h).max(), few)


def test_results_do_not_depend_on_threads() -> None:
    args = draw(64, 32), draw(32, 32), draw(20, 64, 32)
    results = []
    for threads in (1, 2, 3):
        with minijit.config.override(num_threads=threads):
            results.append(minijit.jit(lambda *values: elman(*values))(*args).tobytes())
    assert len(set(results)) == 1


def both_change(h: Any, w: Any, xs: Any) -> Any:
    return lax.scan(lambda h, x: (h @ h.T @ w + x, None), h, xs)[0]


def matrix_of_the_step(h: Any, w: Any, xs: Any) -> Any:
    return lax.scan(lambda h, x: (jnp.tanh(h @ x + w), None), h, xs)[0]


def integers(h: Any, w: Any, xs: Any) -> Any:
    return lax.scan(lambda h, x: (h @ w + x, None), h, xs)[0]


def perceptron(h: Any, w: Any, xs: Any) -> Any:
    """The inner row is longer than the one that is carried."""
    return lax.scan(lambda h, x: (jnp.maximum(h @ w, 0) @ w.T + x, None), h, xs)[0]


def outside(h: Any, w: Any, xs: Any) -> Any:
    return lax.cond(xs[0, 0, 0] > 0, lambda: h @ w, lambda: h * 2)


REFUSED: dict[str, tuple[Function, tuple[Any, ...], str]] = {
    "both change": (
        both_change,
        (draw(4, 4), draw(4, 4), draw(3, 4, 4)),
        "both factors of a matmul change at each step",
    ),
    "a matrix for each step": (
        matrix_of_the_step,
        (draw(4, 4), draw(4, 4), draw(3, 4, 4)),
        "both factors of a matmul change at each step",
    ),
    "integers": (
        integers,
        tuple(np.ones(s, np.int32) for s in [(4, 4), (4, 4), (3, 4, 4)]),
        "matmul of int32 is run by the array library",
    ),
    "rows of two lengths": (
        perceptron,
        (draw(4, 4), draw(4, 9), draw(3, 4, 4)),
        "its body reduces or multiplies rows of several shapes, or along several axes",
    ),
    "no loop": (
        outside,
        (draw(4, 4), draw(4, 4), draw(3, 4, 4)),
        "matmul is run by the array library",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_kernel_multiplies_says_why(name: str, device: Device) -> None:
    function, args, why = REFUSED[name]
    given = [device.put(x) for x in args]
    got = device.get(minijit.jit(lambda *values: function(*values))(*given))
    with minijit.disable_jit():
        np.testing.assert_allclose(got, function(*args), rtol=1e-5, atol=1e-5)
    (loop,) = explain_fusion(function, *given).loops
    assert loop.how.partition(";")[0] == f"driven by the host: {why}"


def _half_everywhere() -> Any:
    return jnp.broadcast_to(jnp.asarray(np.float32(0.5)), (8, 8))


@pytest.mark.parametrize("where", ["outside", "in a step", "around"])
def test_one_number_is_a_matrix(where: str, device: Device) -> None:
    def steps(h: Any, xs: Any) -> Any:
        if where == "outside":
            return elman(h, _half_everywhere(), xs)
        if where == "in a step":
            return lax.scan(lambda h, x: (jnp.tanh(h @ _half_everywhere() + x), None), h, xs)[0]
        return lax.scan(lambda h, x: (elman(h, _half_everywhere(), x[None]), None), h, xs)[0]

    h, xs = draw(2, 8), draw(3, 8)
    got = device.get(minijit.jit(steps)(device.put(h), device.put(xs)))
    for x in xs:
        h = np.tanh(h @ np.full((8, 8), 0.5, np.float32) + x)
    np.testing.assert_allclose(got, h, rtol=1e-5, atol=1e-6)


def test_large_matrices_are_the_librarys(device: Device) -> None:
    most = get_backend(device.name).most_matrix_bytes
    n = int((most // 4) ** 0.5) + 1
    args = [device.put(x) for x in (draw(2, n), draw(n, n), draw(1, 2, n))]
    (loop,) = explain_fusion(elman, *args).loops
    assert loop.how.startswith(
        f"driven by the host: matrices of {4 * n * n} bytes are more than a loop keeps: {most}; "
        "the array library multiplies with them"
    )
    small = [device.put(x) for x in (draw(2, n - 1), draw(n - 1, n - 1), draw(1, 2, n - 1))]
    (loop,) = explain_fusion(elman, *small).loops
    assert loop.how == f"in kernel, row by row, {n - 1} values each, multiplied by 1 matrix"


def kernel() -> Kernel:
    args = draw(4, 3), draw(3, 3), draw(2, 4, 3)
    program = Program(optimize(trace(lambda *xs: flatten(elman(*xs))[0], args)))
    parts = partition(program, FEW_ROWS)
    (group,) = parts.steps
    assert isinstance(group, Group)
    return lower_group(program, group, parts.stored, {}, "kernel").kernel


def test_text() -> None:
    assert "cell   v2: f32 = product v1 b2[i1 + 3*i3] over i3 < 3" in str(kernel())


BEYOND, OF_THE_ROW, OF_THE_STEP = (
    Place(2, Affine(offset, terms))
    for offset, terms in ((1, ((1, 1), (3, 3))), (0, ((0, 1), (3, 1))), (0, ((2, 1), (3, 3))))
)
MALFORMED: dict[str, tuple[dict[str, Any], str]] = {
    "out of bounds": ({"matrix": BEYOND}, r"reaches \[1, 9\] of 9"),
    "a matrix for each row": ({"matrix": OF_THE_ROW}, "another one for each row or step"),
    "a matrix for each step": ({"matrix": OF_THE_STEP}, "another one for each row or step"),
    "a row that differs along columns": ({"row": Place(0, Affine(0, ((1, 1),)))}, "to column"),
    "other terms than cells": ({"terms": 2}, "a product counts 2 terms by i3"),
    "a result of rows": ({"out": Value("v2", F32, Level.ROW)}, "the cells of a row"),
    "a row of single values": ({"row": Value("v9", F32, Level.ROW)}, "are the cells of its row"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_checker(name: str) -> None:
    changes, why = MALFORMED[name]

    def malformed(node: Node) -> Node:
        if isinstance(node, Product):
            return dataclasses.replace(node, **changes)
        return with_blocks(node, lambda b: Block(tuple(map(malformed, b.body)), b.results))

    good = kernel()
    check_kernel(good)
    with pytest.raises(KernelError, match=why):
        check_kernel(dataclasses.replace(good, body=tuple(map(malformed, good.body))))

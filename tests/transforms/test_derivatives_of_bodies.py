"""Derivatives of branches and loops, on both targets."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import minijit
from minijit import lax
from minijit.transforms import separate_bodies
from minijit.transforms.separate import separate
from tests.conftest import Device, on_each_device
from tests.derivatives import assert_differentiable

Array = np.ndarray[Any, Any]


def _rows(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape)


def _scan_cells(x: Any, a: Any) -> Any:
    """A recurrence of each cell, with a carry that starts without a tangent."""
    start = np.zeros(x.shape[1:])
    return lax.scan(lambda c, row: ((c := np.tanh(a * c + row)), c * c), start, x)[1]


def _scan_reversed(x: Any, a: Any) -> Any:
    last, ys = lax.scan(lambda c, row: (np.sin(c) * a + row, c), x[0], x, reverse=True)
    return last + ys.sum(0)


def _scan_shared(x: Any, a: Any) -> Any:
    """A scalar that all cells and steps read."""
    return lax.scan(lambda c, row: (c * a + row * row, None), x[0], x)[0] * a


def _scan_matrix(x: Any, w: Any) -> Any:
    return lax.scan(lambda h, row: ((h := np.tanh(row + h @ w)), h.sum()), np.zeros(3), x)[1]


def _scan_pairs(x: Any, y: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        (a, n), (p, q) = state, row
        return (a * p + q, n + 1), {"a": a * n, "q": q}

    (a, n), out = lax.scan(step, (y[0], 0), (x, y))
    return a * n + (out["a"] + out["q"]).sum(0)


def _nested(x: Any, a: Any) -> Any:
    def inner(c: Any, v: Any) -> Any:
        return c * a + np.sin(v), c * v

    def outer(c: Any, row: Any) -> Any:
        c, ys = lax.scan(inner, c, row)
        return c, ys.sum()

    return lax.scan(outer, a * a, x)[1]


def _branch_in_scan(x: Any, a: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        c = lax.cond(v > 0, lambda c: np.sin(c) * a + v, lambda c: c * c, c)
        return c, c

    return lax.scan(step, a, x)[1]


def _scan_in_branch(x: Any, a: Any) -> Any:
    def yes(x: Any) -> Any:
        return lax.scan(lambda c, v: (c * a + v, None), 1.0, x)[0]

    return lax.cond(a > 0, yes, lambda x: x.sum() * a, x)


def _branches(x: Any, a: Any) -> Any:
    """Branches that keep different things, and results of which one has no derivative."""
    functions = (
        lambda x: (np.exp(x) * x.sum(), 1.0),
        lambda x: (x * a, x.max()),
        lambda x: (np.ones_like(x), a * a),
    )
    y, z = zip(*(lax.switch(n, functions, x) for n in range(3)), strict=True)
    return sum(y) * sum(z)


def _unknown_branch(x: Any, a: Any) -> Any:
    y, z = lax.cond(
        x[0] > 0, lambda x: (np.exp(x) * x.sum(), a), lambda x: (x * a, (x @ x) * x[1]), x
    )
    return y * z


def _counted(x: Any, a: Any) -> Any:
    return lax.fori_loop(0, 4, lambda i, v: np.sin(v) * a + i * x, x)


LOOPS: dict[str, tuple[Any, list[Array]]] = {
    "cells": (_scan_cells, [_rows(4, 3), _rows(3)]),
    "reversed": (_scan_reversed, [_rows(4, 2), _rows(2)]),
    "shared": (_scan_shared, [_rows(4, 3), np.full((), 0.7)]),
    "matrix": (_scan_matrix, [_rows(4, 3), _rows(3, 3)]),
    "pairs": (_scan_pairs, [_rows(3, 2), _rows(3, 2) + 0.5]),
    "nested": (_nested, [_rows(3, 2), np.full((), 0.7)]),
    "branch-in-scan": (_branch_in_scan, [_rows(6), np.full((), 0.7)]),
    "scan-in-branch": (_scan_in_branch, [_rows(4), np.full((), 0.7)]),
    "branches": (_branches, [_rows(3), np.full((), 0.7)]),
    "unknown-branch": (_unknown_branch, [_rows(3), np.full((), 0.7)]),
    "counted": (_counted, [_rows(3), np.full((), 0.7)]),
    "no-steps": (lambda x: lax.fori_loop(0, 0, lambda i, v: v * v, x) * x, [_rows(3)]),
}
FEW = ["cells", "matrix", "unknown-branch"]


@on_each_device("name", LOOPS, FEW)
def test_loops_and_branches(device: Device, name: str) -> None:
    function, operands = LOOPS[name]
    assert_differentiable(device, function, operands)


@pytest.mark.parametrize("value", [2.0, -2.0])
def test_the_branch_that_is_taken_has_the_derivative(value: float) -> None:
    slope = minijit.grad(lambda x: lax.cond(x > 0, lambda v: v * v, lambda v: -3 * v, x))
    assert float(slope(np.float32(value))) == (4 if value > 0 else -3)


def _halved(x: Any) -> Any:
    return lax.while_loop(lambda v: v > 1, lambda v: v * v / 2, x) * x


def test_while_loops_go_forward() -> None:
    value, tangent = minijit.jvp(_halved, (np.float64(1.5),), (np.float64(2),))
    x = 1.5
    steps, v, dv = 0, x, 1.0
    while v > 1:
        v, dv, steps = v * v / 2, v * dv, steps + 1
    assert steps
    assert float(value) == pytest.approx(v * x)
    assert float(tangent) == pytest.approx(2 * (dv * x + v))


def test_while_loops_do_not_go_backward() -> None:
    message = (
        r"^while_loop, .*\(at test_derivatives_of_bodies.py:\d+ \(_halved\)\).*lax.scan.*fori_loop"
    )
    for refused in (minijit.grad, lambda f: lambda x: minijit.linearize(f, x)):
        with pytest.raises(TypeError, match=message):
            refused(_halved)(np.float32(1.5))
    with pytest.raises(TypeError, match="fori_loop with traced bounds"):
        minijit.jit(minijit.grad(lambda x, n: lax.fori_loop(0, n, lambda i, v: v * x, x)))(
            np.float32(1), 3
        )


def test_a_while_loop_of_constants_is_no_obstacle() -> None:
    def f(x: Any, n: Any) -> Any:
        count = lax.while_loop(lambda v: v < n, lambda v: v * 2, 1)
        return x * x * count

    assert float(minijit.grad(f)(np.float32(3), 5)) == 2 * 3 * 8


def test_a_scan_of_cells_is_two_loops(device: Device, counts: Counter[str]) -> None:
    x, a = (each.astype(np.float32) for each in (_rows(16, 5), _rows(5)))
    slope = minijit.jit(minijit.grad(lambda x, a: _scan_cells(x, a).sum(), (0, 1)))
    compiled = slope.lower(*map(device.put, (x, a))).compile()
    assert len(compiled.kernels()) == 2


def _cases(count: int, last: Any) -> Any:
    """A chain of conditions, the last alternative of which is the deepest."""

    def case(number: int, x: Any) -> Any:
        if number == count:
            return last(x)
        return lax.cond(x > number, lambda v: v * number, lambda v: case(number + 1, v), x)

    return lambda x: case(0, x)


@pytest.mark.parametrize("transform", ["grad", "jvp"])
def test_bodies_inside_bodies_are_differentiated_once(transform: str) -> None:
    asked: Counter[str] = Counter()

    @minijit.custom_jvp
    def forward(x: Any) -> Any:
        return np.sin(x)

    @forward.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        asked["rule"] += 1
        return np.sin(primals[0]), tangents[0] * np.cos(primals[0])

    @minijit.custom_vjp
    def reverse(x: Any) -> Any:
        return x * x

    def backward(kept: Any, cotangent: Any) -> Any:
        asked["backward"] += 1
        return (2 * kept * cotangent,)

    reverse.defvjp(lambda x: (x * x, x), backward)
    x = np.float64(-0.5)
    if transform == "jvp":
        _, slope = minijit.jvp(_cases(6, forward), (x,), (np.float64(1),))
        assert asked == {"rule": 1}
        np.testing.assert_allclose(slope, np.cos(x))
    else:
        slope = minijit.grad(_cases(6, lambda v: forward(reverse(v))))(x)
        assert asked == {"rule": 1, "backward": 1}
        np.testing.assert_allclose(slope, np.cos(x * x) * 2 * x)


def test_branches_inside_branches_are_cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[str] = []

    def counted(jaxpr: Any, *args: Any, **kwargs: Any) -> Any:
        bodies.append(jaxpr.name)
        return separate(jaxpr, *args, **kwargs)

    monkeypatch.setattr(separate_bodies, "separate", counted)
    slope = minijit.grad(_cases(6, np.sin))(np.float64(-0.5))
    assert len(bodies) == 2 * 6
    np.testing.assert_allclose(slope, np.cos(-0.5))


def test_branches_need_not_depend_on_the_same() -> None:
    """A branch without a derivative gives zeros, be it of a tangent or of a cotangent."""

    def f(x: Any, y: Any, z: Any) -> Any:
        return lax.switch(
            z, [lambda x, y: (x * y, x), lambda x, y: (y, 2.0), lambda x, y: (1.0, x)], x, y
        )

    x, y = np.float64(3), np.float64(5)
    for number, (wanted, of_x, of_y) in enumerate([(15 + 3, 6, 3), (5 + 2, 0, 1), (1 + 3, 1, 0)]):

        def total(x: Any, y: Any, number: int = number) -> Any:
            return sum(f(x, y, np.int32(number)))

        assert minijit.value_and_grad(total, (0, 1))(x, y) == (wanted, (of_x, of_y))
        assert minijit.jvp(total, (x, y), (1.0, 10.0)) == (wanted, of_x + 10 * of_y)


def test_long_chains_of_factors_in_a_step() -> None:
    """What a sum over cells is multiplied by is gone through once, not once for each way to it."""
    depth, times = 300, np.array([0.25, 0.5])

    def f(a: Any, x: Any) -> Any:
        def step(c: Any, time: Any) -> Any:
            factor = a * time
            for _ in range(depth):
                factor = np.sin(factor)
            return c * factor, None

        return lax.scan(step, x, times)[0].sum()

    a, x = np.float64(1.25), np.array([1.0, 2.0, 4.0])
    with minijit.disable_jit():
        slope = minijit.grad(f)(a, x)
    value = times * a
    change = times.copy()
    for _ in range(depth):
        change = change * np.cos(value)
        value = np.sin(value)
    wanted = x.sum() * (change[0] * value[1] + value[0] * change[1])
    np.testing.assert_allclose(slope, wanted, rtol=1e-12)

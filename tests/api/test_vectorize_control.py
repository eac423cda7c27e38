"""``vmap`` of branches, loops and effects: each element goes its own way, in few kernels."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import minijit
from minijit import jit, lax, vmap
from tests.api.test_vectorize import IN_EVERY_WAY, X, Y, assert_same, disabled, softmax
from tests.conftest import Device


@IN_EVERY_WAY
def test_branches_by_a_mapped_predicate(wrap: Any) -> None:
    def one(x: Any, y: Any) -> Any:
        return lax.cond(x > 3, lambda v: v * 2 + y, lambda v: -v, x)

    got = wrap(vmap(one, in_axes=(0, None)))(X[0], np.float32(1))
    assert_same(got, np.where(X[0] > 3, X[0] * 2 + 1, -X[0]))
    rows = wrap(
        vmap(lambda n, v: lax.switch(n, [lambda v: v, lambda v: v * 2, lambda v: v - Y], v))
    )
    assert_same(rows(np.array([2, 0, 5]), X), np.stack([X[0] - Y, X[1], X[2] - Y]))


def test_a_branch_that_all_share_stays_one(counts: Counter[str]) -> None:
    f = jit(lambda p, x: vmap(lambda v: lax.cond(p, lambda u: u * 2, lambda u: u - Y, v))(x))
    assert_same(f(True, X), X * 2)
    assert_same(f(False, X), X - Y)
    text = str(minijit.make_jaxpr(f)(True, X))
    assert "cond" in text
    assert "select" not in text


@IN_EVERY_WAY
def test_loops_end_for_each_element_when_its_own_condition_fails(wrap: Any) -> None:
    def halved(x: Any) -> Any:
        return lax.while_loop(lambda s: s[0] > 1, lambda s: (s[0] / 2, s[1] + 1), (x, 0))

    start = np.array([0.5, 3, 100, 1], np.float32)
    values, steps = wrap(vmap(halved))(start)
    assert_same(values, np.array([0.5, 0.75, 0.78125, 1], np.float32))
    assert_same(steps, np.array([0, 2, 7, 0]))


@IN_EVERY_WAY
def test_loops_in_loops_end_for_elements_that_are_done(wrap: Any) -> None:
    """The inner loop would not end for an element at which the outer one has stopped."""

    def one(x: Any) -> Any:
        def step(s: Any) -> Any:
            y = lax.while_loop(lambda y: y != 1, lambda y: y // 2, s[0])
            return s[0] - 1, s[1] + y

        return lax.while_loop(lambda s: s[0] > 0, step, (x, x * 0))[1]

    start = np.array([3, 0, 5], np.int32)
    assert_same(wrap(vmap(one))(start), start)
    pairs = wrap(vmap(vmap(one)))
    assert_same(pairs(np.stack([start, start[::-1]])), np.stack([start, start[::-1]]))


@IN_EVERY_WAY
def test_loops_in_branches_run_for_their_own_elements(wrap: Any) -> None:
    """The loop would not end for an element that takes the other branch."""

    def one(x: Any) -> Any:
        def down(v: Any) -> Any:
            def ended(total: Any, _: Any) -> Any:
                return total + lax.while_loop(lambda y: y != 0, lambda y: y - 1, v), None

            return lax.scan(ended, v, length=2)[0]

        return lax.cond(x >= 0, jit(down), lambda v: v * 2, x)

    assert_same(wrap(vmap(one))(np.array([3, -2, 0])), np.array([3, -4, 0]))


@IN_EVERY_WAY
def test_scans(wrap: Any) -> None:
    def one(start: Any, xs: Any, factor: Any) -> Any:
        return lax.scan(lambda c, x: (c * factor + x, (c - x, factor)), start, xs, reverse=True)

    f = wrap(vmap(one, in_axes=(0, None, None), out_axes=(0, (1, None))))
    carry, (ys, same) = f(X, Y, np.float32(2))
    want, rows = X, []
    for y in Y[::-1]:
        rows.append(want - y)
        want = want * 2 + y
    assert_same(carry, want)
    assert_same(ys, np.stack(rows[::-1]))
    assert_same(same, np.full(4, 2, np.float32))
    own = wrap(vmap(lambda xs: lax.scan(lambda c, x: (c + x, c), np.float32(0), xs)))(X)
    assert_same(own[0], X.sum(1))
    assert_same(own[1], np.cumsum(X, 1) - X)


@pytest.mark.parametrize("wrap", [jit, disabled], ids=["jit", "disabled"])
def test_prints_come_element_by_element(wrap: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def one(x: Any, y: Any) -> Any:
        minijit.debug.print("{} {}", x, y)
        return lax.cond(x > 1, shown, lambda v: v, x)

    def shown(v: Any) -> Any:
        minijit.debug.print("over {}", v)
        return v * 2

    got = wrap(vmap(one, in_axes=(0, None)))(np.array([1, 2, 3]), 7)
    assert_same(got, np.array([1, 4, 6]))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line[0] != "o"] == ["1 7", "2 7", "3 7"]
    assert [line for line in lines if line[0] == "o"] == ["over 2", "over 3"]


# Kernels


def newton(a: Any) -> Any:
    def unsolved(s: Any) -> Any:
        return (abs(s[0] * s[0] - a) > 1e-3) & (s[1] < 50)

    return lax.while_loop(unsolved, lambda s: ((s[0] + a / s[0]) / 2, s[1] + 1), (a, 0))


def vector_loop(v: Any) -> Any:
    return lax.while_loop(lambda s: s[0].max() > 1, lambda s: (s[0] / 2, s[1] + 1), (v, 0))


KERNELS: dict[str, tuple[Any, dict[str, Any], int]] = {
    "a row": (softmax, {}, 1),
    "a column": (softmax, {"in_axes": 1, "out_axes": 1}, 1),
    "a column as a row": (softmax, {"in_axes": 1}, 1),
    "a row as a column": (softmax, {"out_axes": 1}, 1),
    "cells": (vmap(lambda x: np.tanh(x) * 2 + 1), {}, 1),
    "pieces": (lambda v: np.pad(v, 1)[2:] + np.concatenate([v[1:], v[:1]]), {}, 1),
    "dot products": (lambda v: v @ (v * 2), {}, 1),
    "positions": (lambda v: v.argmax() + np.arange(4)[1], {}, 1),
    "a loop in a cell": (vmap(newton), {}, 1),
    "a loop over a row": (vector_loop, {}, 1),
    "a counted loop": (lambda v: lax.fori_loop(0, 3, lambda i, c: c * 2 + i, v), {}, 1),
    "branches": (vmap(lambda x: lax.cond(x > 3, np.sqrt, lambda u: -u, x)), {}, 1),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_batch_takes_the_kernels_of_whole_arrays(name: str, device: Device) -> None:
    function, axes, kernels = KERNELS[name]
    f = jit(vmap(function, **axes))
    got = device.get(f(device.put(X)))
    want = disabled(vmap(function, **axes))(X)
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        assert_same(a, b, 2e-6)
    stats = f.lower(device.put(X)).compile()
    assert len(stats.kernels()) == kernels
    assert f.stats()["host_loops"] == f.stats()["eager_steps"] == 0


def test_loops_that_no_kernel_holds_run_for_all_lanes_together(device: Device) -> None:
    """The host goes on until the last lane is done; a lane that is done keeps what it has."""
    matrix = np.eye(4, dtype=np.float32)[::-1] / 2

    def one(v: Any) -> Any:
        def step(s: Any) -> Any:
            return np.cumsum(s[0] @ matrix) / 2, s[1] + 1

        return lax.while_loop(lambda s: (s[0].max() > 0.5) & (s[1] < 20), step, (v, 0))

    f = jit(vmap(one))
    got = device.get(f(device.put(X)))
    want = disabled(vmap(one))(X)
    assert_same(got[0], want[0], 1e-6)
    assert_same(got[1], want[1])
    assert len(set(want[1].tolist())) > 1
    assert (f.stats()["host_loops"], f.stats()["host_steps"]) == (1, want[1].max())


@pytest.mark.parametrize(
    ("rows", "columns"),
    [((0,), (None,)), ((None,), (0,)), ((0,), (0,))],
    ids=["left", "right", "both"],
)
def test_products_are_those_of_whole_matrices(rows: Any, columns: Any, device: Device) -> None:
    """One call of the library, whatever is mapped; only two matrices make a stack of them."""
    w = np.stack([X[:, :3], X[:, 1:], X[:, :3] - 1])
    matrix = w if columns[0] == 0 else w[0]
    f = jit(vmap(lambda v, m: v @ m, in_axes=(*rows, *columns)))
    vectors = X[:, :3] if rows[0] == 0 else X[0, :3]
    got = device.get(f(device.put(vectors), device.put(matrix)))
    steps = [
        (vectors[n] if rows[0] == 0 else vectors) @ (matrix[n] if columns[0] == 0 else matrix)
        for n in range(3)
    ]
    assert_same(got, np.stack(steps), 1e-6)
    assert str(minijit.make_jaxpr(f)(vectors, matrix)).count("matmul") == 1

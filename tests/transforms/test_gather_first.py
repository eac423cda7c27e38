"""Gathers in front of elementwise operations: fewer elements, fewer kernels, the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit.graph.check import check_jaxpr
from minijit.graph.evaluate import evaluate
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.trace import abstractify, trace_function
from minijit.runtime.pipeline import optimize
from tests.conftest import Device

RNG = np.random.default_rng(11)
X = RNG.normal(size=(40, 30)).astype(np.float32)
BIAS = RNG.normal(size=30).astype(np.float32)
COLUMN = RNG.normal(size=(40, 1)).astype(np.float32)
ROWS = RNG.integers(0, 40, 7)
LABELS = RNG.integers(0, 30, 40)


def optimized(function: Callable[..., Any], args: tuple[Any, ...]) -> Jaxpr:
    names = [f"x{n}" for n in range(len(args))]

    def flat(tracers: list[Any]) -> list[Any]:
        result = function(*tracers)
        return list(result) if isinstance(result, tuple) else [result]

    traced = trace_function(flat, list(map(abstractify, args)), names, "f")
    jaxpr = optimize(traced.jaxpr)
    check_jaxpr(jaxpr)
    return jaxpr


def sizes(jaxpr: Jaxpr, name: str) -> list[int]:
    """How many elements each equation of that name gives."""
    return [eqn.outvars[0].aval.size for eqn in jaxpr.eqns if eqn.primitive.name == name]


MOVED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str, int]] = {
    "unary": (lambda x, i: np.exp(x)[i], (X, ROWS), "exp", 7 * 30),
    "a-chain": (lambda x, i: np.exp(np.tanh(x) * 2)[i], (X, ROWS), "tanh", 7 * 30),
    "a-row": (lambda x, b, i: np.exp(x + b)[i], (X, BIAS, ROWS), "exp", 7 * 30),
    "a-column": (lambda x, b, i: np.exp(x + b)[i], (X, COLUMN, ROWS), "exp", 7 * 30),
    "along-columns": (lambda x, b, i: np.exp(x + b)[:, i], (X, COLUMN, ROWS % 30), "exp", 40 * 7),
    "one-of-each-row": (
        lambda x, i: np.take_along_axis(np.exp(x), i[:, None], 1), (X, LABELS), "exp", 40,
    ),
    "two-gathers": (lambda x, i: np.exp(x)[i] + np.exp(x)[i[::-1]], (X, ROWS), "exp", 7 * 30),
    "repeated-alone": (
        lambda b, i: jnp.broadcast_to(np.exp(b), (40, 30))[i], (BIAS, ROWS), "exp", 30,
    ),
}  # fmt: skip
KEPT: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str, int]] = {
    "more-than-there-are": (
        lambda x, i: np.exp(x)[i], (X, np.tile(ROWS, 9)), "exp", 40 * 30,
    ),
    "needed-elsewhere": (
        lambda x, i: np.exp(x)[i].sum() + np.exp(x).sum(), (X, ROWS), "exp", 40 * 30,
    ),
    "needed-in-another-gather-of-all": (
        lambda x, i: np.exp(x)[i].sum() + np.exp(x)[np.tile(i, 9)].sum(), (X, ROWS), "exp", 40 * 30,
    ),
    "positions": (lambda t, i: t[np.abs(i)], (BIAS, ROWS % 30), "abs", 7),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED | KEPT)
def test_computed_for_as_many(name: str, device: Device) -> None:
    function, args, operation, size = (MOVED | KEPT)[name]
    jaxpr = optimized(function, args)
    assert set(sizes(jaxpr, operation)) == {size}
    want = np.asarray(function(*args))
    np.testing.assert_allclose(evaluate(jaxpr, args)[0], want, rtol=1e-6)
    got = device.get(minijit.jit(function)(*map(device.put, args)))
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_a_result_is_read_where_it_is() -> None:
    def both(x: Any, i: Any) -> Any:
        e = np.exp(x)
        return e, e[i[:2]]

    assert sizes(optimized(both, (X, ROWS)), "exp") == [40 * 30]


def test_every_element_at_its_own_place_is_no_gather() -> None:
    function = lambda x, i: (x.sum(1)[:, None] * x)[np.arange(40), i]  # noqa: E731
    assert len(minijit.jit(function).lower(X, LABELS).compile().kernels()) == 1


def test_the_loss_of_a_classifier_reads_its_scores_once() -> None:
    def loss(scores: Any, labels: Any) -> Any:
        logs = scores - jnp.logsumexp(scores, axis=-1)[:, None]
        return -np.take_along_axis(logs, labels[:, None], -1)[:, 0]

    function = minijit.jit(loss)
    assert len(function.lower(X, LABELS).compile().kernels()) == 1
    sums = np.log(np.exp(X.astype(np.float64)).sum(1))
    np.testing.assert_allclose(function(X, LABELS), sums - X[np.arange(40), LABELS], rtol=1e-5)


def test_the_gradient_of_what_takes_one_of_each_row_is_a_choice(device: Device) -> None:
    def loss(scores: Any, labels: Any) -> Any:
        logs = scores - jnp.logsumexp(scores, axis=-1)[:, None]
        return -np.take_along_axis(logs, labels[:, None], -1).sum()

    gradient = minijit.jit(minijit.grad(loss))
    assert len(gradient.lower(X, LABELS).compile().kernels()) == 1
    e = np.exp(X.astype(np.float64))
    want = e / e.sum(1, keepdims=True)
    want[np.arange(40), LABELS] -= 1
    got = device.get(gradient(device.put(X), device.put(LABELS)))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


CHOICES: dict[str, tuple[Callable[..., Any], bool]] = {
    "last-axis": (lambda x, i, v: x.at[np.arange(40), i].set(v), True),
    "middle-axis": (lambda x, i, v: x.T.at[i, np.arange(40)].add(v).T, True),
    "extremum": (lambda x, i, v: x.at[np.arange(40)[:, None], i[:, None]].max(v[:, None]), True),
    "rows-twice": (lambda x, i, v: x.at[np.arange(40), i].add(v).at[i, i % 30].add(v), False),
    "fewer-rows": (lambda x, i, v: x.at[np.arange(7), i[:7]].set(v[:7]), False),
    "other-order": (lambda x, i, v: x.at[np.arange(39, -1, -1), i].set(v), False),
}


@pytest.mark.parametrize("name", CHOICES)
def test_one_update_of_each_row_is_a_choice(name: str, device: Device) -> None:
    function, fused = CHOICES[name]
    values = RNG.normal(size=40).astype(np.float32)
    jaxpr = optimized(function, (X, LABELS, values))
    assert bool(sizes(jaxpr, "scatter")) is not fused
    got = device.get(minijit.jit(function)(*map(device.put, (X, LABELS, values))))
    want = evaluate(make_plain(function), (X, LABELS, values))[0]
    np.testing.assert_allclose(got, want, rtol=1e-6)


def make_plain(function: Callable[..., Any]) -> Jaxpr:
    """The program as it is traced, in which the array library scatters."""
    avals = list(map(abstractify, (X, LABELS, X[:, 0])))
    return trace_function(lambda ts: [function(*ts)], avals, ["x", "i", "v"], "f").jaxpr


def test_what_is_cheap_is_computed_again() -> None:
    def loss(scores: Any, labels: Any) -> Any:
        shifted = scores - scores.max(axis=-1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        return -np.take_along_axis(logs, labels[:, None], -1)[:, 0]

    function = minijit.jit(loss)
    assert len(function.lower(X, LABELS).compile().kernels()) == 1
    np.testing.assert_allclose(function(X, LABELS), loss(X, LABELS), rtol=1e-5)


def test_few_are_computed_again_whatever_it_takes() -> None:
    function = minijit.jit(lambda x, i: (np.exp(x)[i].sum(1), np.exp(x).sum(0)))
    jaxpr = optimized(lambda x, i: np.exp(x)[i].sum() + np.exp(x).sum(), (X, ROWS[:2]))
    assert sorted(sizes(jaxpr, "exp")) == [2 * 30, 40 * 30]
    few, whole = function(X, ROWS[:2])
    np.testing.assert_allclose(few, np.exp(X)[ROWS[:2]].sum(1), rtol=1e-5)
    np.testing.assert_allclose(whole, np.exp(X).sum(0), rtol=1e-5)

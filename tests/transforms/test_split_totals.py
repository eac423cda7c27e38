"""Totals over rows that scans collect, before and after they are split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit.numpy as jnp
from minijit import lax
from minijit.graph.check import check_jaxpr
from minijit.graph.evaluate import evaluate
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.tree import flatten
from minijit.transforms.inline import inline_calls
from minijit.transforms.simplify import simplify
from minijit.transforms.split_totals import split_totals
from tests.transforms.random_programs import trace

RANDOM = np.random.default_rng(2)
Step = Callable[[Any], Any]


def draw(*shape: int, dtype: Any = np.float32) -> Any:
    return RANDOM.standard_normal(shape).astype(dtype)


def program(collect: Step, dtype: Any = np.float32) -> tuple[Jaxpr, Jaxpr, list[Any]]:
    """Return a scan that multiplies rows and collects, before and after, with its arguments."""

    def function(h: Any, w: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(h @ w + x)
            return h, collect(h)

        return flatten(lax.scan(step, h, xs))[0]

    args = [draw(3, 4, dtype=dtype), draw(4, 4, dtype=dtype), draw(5, 3, 4, dtype=dtype)]
    before = simplify(inline_calls(trace(function, args)))
    after = split_totals(before)
    check_jaxpr(after)
    assert after.out_avals == before.out_avals
    return before, after, args


def axes(jaxpr: Jaxpr) -> list[tuple[int, ...]]:
    return [eqn.params["axes"] for eqn in jaxpr.eqns if eqn.primitive.monoid is not None]


def body(jaxpr: Jaxpr) -> Jaxpr:
    (scan,) = (eqn for eqn in jaxpr.eqns if eqn.primitive.name == "scan")
    inner: Jaxpr = scan.params["jaxpr"]
    return inner


SPLIT: dict[str, tuple[Step, int]] = {
    "sum": (lambda h: h.sum(), 1),
    "largest": (lambda h: h.max(), 1),
    "all": (lambda h: (h > -2).all(), 1),
    "mean and what follows": (lambda h: jnp.exp(h.mean() * 2), 1),
    "several": (lambda h: (h.sum(), h.min(), h), 2),
}


@pytest.mark.parametrize("name", SPLIT)
def test_rows_are_reduced_in_the_step_and_the_rest_after(name: str) -> None:
    collect, count = SPLIT[name]
    before, after, args = program(collect)
    assert axes(body(before)) == [(0, 1)] * count
    assert axes(body(after)) == [(1,)] * count
    assert axes(after) == [(1,)] * count
    for got, want in zip(evaluate(after, args), evaluate(before, args), strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


KEPT: dict[str, tuple[Step, Any]] = {
    "rows": (lambda h: h.sum(1), np.float32),
    "positions": (lambda h: h.argmax(), np.float32),
    "half, whose partial sums would be rounded": (lambda h: h.max(), np.float16),
    "no rows": (lambda h: h.sum(0), np.float32),
    "needed by each element": (lambda h: h / h.max(), np.float32),
    "twice the same": (lambda h: (lambda s: (s, s))(h.max()), np.float32),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_left_as_it_is(name: str) -> None:
    before, after, _ = program(*KEPT[name])
    assert str(after) == str(before)


def test_a_total_that_the_next_step_needs_stays() -> None:
    def function(h: Any, w: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            h, size = state
            h = h @ w / size
            return (h, h.sum()), h.sum()

        return flatten(lax.scan(step, (h, np.float32(1)), None, length=3))[0]

    before = simplify(inline_calls(trace(function, [draw(3, 4), draw(4, 4)])))
    assert str(split_totals(before)) == str(before)

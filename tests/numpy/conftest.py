"""The comparison that all tests of the namespace make: eager, traced, plain code, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit.graph.aval import ShapedArray
from minijit.graph.check import check_jaxpr
from minijit.graph.evaluate import evaluate
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.trace import abstractify, trace_function
from tests.conftest import Device
from tests.ops.samples import assert_near

Function = Callable[..., Any]


def trace(function: Function, *args: Any) -> Jaxpr:
    """The jaxpr of ``function`` on arguments of the types of ``args``."""

    def flat(tracers: list[Any]) -> list[Any]:
        return leaves(function(*tracers))

    names = [f"x{position}" for position in range(len(args))]
    avals: list[ShapedArray] = [abstractify(arg) for arg in args]
    jaxpr = trace_function(flat, avals, names, "function").jaxpr
    check_jaxpr(jaxpr)
    return jaxpr


def leaves(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def assert_same(got: Any, want: Any) -> None:
    """Shape, dtype and every bit agree (NaN with NaN)."""
    got, want = np.asarray(got), np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_array_equal(got, want)
    if got.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.fixture
def same_as_numpy(device: Device) -> Callable[..., None]:
    """``check(f, *arrays)``: ``f(np, *arrays)`` is what ``f(jnp, ...)`` gives, in every way.

    Eager and traced the bits are NumPy's, on one device; compiled, sums may be rounded otherwise.
    """

    def check(function: Function, *arrays: Any) -> None:
        wanted = leaves(function(np, *arrays))
        if device.name == "cpu":
            ways = {
                "traced": evaluate(trace(lambda *ts: function(jnp, *ts), *arrays), arrays),
                "eager": leaves(function(jnp, *arrays)),
                "plain": evaluate(trace(lambda *ts: function(np, *ts), *arrays), arrays),
            }
            for way, results in ways.items():
                assert len(results) == len(wanted), way
                for got, want in zip(results, wanted, strict=True):
                    assert_same(got, want)
        compiled = minijit.jit(lambda *ts: leaves(function(jnp, *ts)))
        for got, want in zip(device.get(compiled(*map(device.put, arrays))), wanted, strict=True):
            assert_near(got, want)

    return check


@pytest.fixture
def traced() -> Callable[..., Any]:
    """``traced(f, *args)``: what the jaxpr of ``f`` gives on ``args``, one result or a list."""

    def run(function: Function, *args: Any) -> Any:
        results = evaluate(trace(function, *args), args)
        return results[0] if len(results) == 1 else results

    return run


@pytest.fixture
def jaxpr_of() -> Callable[..., Jaxpr]:
    """``jaxpr_of(f, *args)``: the program of ``f``."""
    return trace

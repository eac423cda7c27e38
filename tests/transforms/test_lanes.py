"""Loops that lanes leave one by one: the same loop for all lanes together, step by step."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import minijit
from minijit import lax, vmap
from minijit.graph.check import check_jaxpr
from minijit.graph.evaluate import evaluate
from minijit.graph.jaxpr import Jaxpr
from minijit.transforms.lanes import together

X = np.array([[0.5, 3, 1], [9, 1, 1], [1, 40, 2]], np.float32)


def halved(most: Any, row: Any) -> Any:
    """Halve until nothing is above ``most``; count, and keep what never changes."""

    def step(s: Any) -> Any:
        return s[0] / 2, s[1] + row[0], s[2]

    return lax.while_loop(lambda s: s[0].max() > most, step, (row, 0 * row[0], row))


def loops(jaxpr: Jaxpr) -> Jaxpr:
    """The program with its loops for all lanes together, checked."""
    changed = dataclasses.replace(jaxpr, eqns=tuple(map(together, jaxpr.eqns)))
    check_jaxpr(changed)
    return changed


def test_lanes_that_are_done_keep_what_they_have() -> None:
    args = (np.array([1, 2, 3], np.float32), X)
    jaxpr = minijit.make_jaxpr(vmap(halved))(*args)
    (loop,) = (eqn for eqn in jaxpr.eqns if eqn.primitive.name == "while")
    assert loop.params["condition"].out_avals[0].shape == (3,)
    joined = loops(jaxpr)
    (loop,) = (eqn for eqn in joined.eqns if eqn.primitive.name == "while")
    assert loop.params["condition"].out_avals[0].shape == ()
    with minijit.disable_jit():
        want = vmap(halved)(*args)
    for program in (jaxpr, joined):
        for got, value in zip(evaluate(program, args), want, strict=True):
            assert (got.shape, got.dtype) == (value.shape, value.dtype)
            np.testing.assert_array_equal(got, value)


def test_lanes_of_lanes() -> None:
    cube = np.stack([X, X[::-1] * 3])
    args = (np.array([1, 2], np.float32), cube)
    function = vmap(vmap(halved, in_axes=(None, 0)))
    jaxpr = minijit.make_jaxpr(function)(*args)
    with minijit.disable_jit():
        want = function(*args)
    for program in (jaxpr, loops(jaxpr)):
        for got, value in zip(evaluate(program, args), want, strict=True):
            np.testing.assert_array_equal(got, value)


def test_other_equations_stay_as_they_are() -> None:
    jaxpr = minijit.make_jaxpr(lambda x: lax.while_loop(lambda v: v.max() > 1, np.sqrt, x) + 1)(X)
    assert [together(eqn) for eqn in jaxpr.eqns] == list(jaxpr.eqns)

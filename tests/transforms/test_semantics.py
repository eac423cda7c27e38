"""Every pass, on random programs: the same values before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.graph.check import check_jaxpr
from minijit.graph.evaluate import evaluate
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.primitive import Kind
from minijit.runtime.pipeline import optimize
from minijit.transforms.common_subexpr import share_common_subexpressions
from minijit.transforms.dead_code import eliminate_dead_code
from minijit.transforms.fold import fold_constants
from minijit.transforms.inline import inline_calls
from minijit.transforms.own_outputs import own_outputs
from tests.transforms.random_programs import Function, assert_equal, random_program, trace

PASSES: tuple[Callable[[Jaxpr], Jaxpr], ...] = (
    share_common_subexpressions,
    eliminate_dead_code,
    fold_constants,
    own_outputs,
    optimize,
)


@pytest.mark.parametrize("seed", range(2000, 2200, 20))
def test_passes_keep_every_value(seed: int) -> None:
    for number in range(seed, seed + 20):
        function, args = random_program(number, 5 + number % 20)
        with np.errstate(all="ignore"):
            want = function(*args)
            jaxpr = trace(function, args)
            assert_equal(evaluate(jaxpr, args), want)
            for pass_ in PASSES:
                changed = pass_(jaxpr)
                check_jaxpr(changed)
                assert_equal(evaluate(changed, args), want)
                assert changed.out_avals == jaxpr.out_avals


def calling(inner: Function) -> Function:
    def outer(*xs: Any) -> list[Any]:
        return [*inner(*xs), *inner(*xs), *minijit.jit(lambda *ys: inner(*ys))(*xs)]

    return outer


def repeating(function: Function) -> Function:
    return lambda *xs: [*function(*xs), *xs, *function(*xs)]


@pytest.mark.parametrize("seed", range(3000, 3050, 10))
def test_calls_of_calls_are_inlined(seed: int) -> None:
    for number in range(seed, seed + 10):
        function, args = random_program(number, 6)
        outer = calling(minijit.jit(function))
        with np.errstate(all="ignore"):
            jaxpr = trace(outer, args)
            flat = inline_calls(jaxpr)
            check_jaxpr(flat)
            assert all(eqn.primitive.kind is not Kind.CALL for eqn in flat.eqns)
            assert_equal(evaluate(flat, args), function(*args) * 3)
            assert_equal(evaluate(jaxpr, args), function(*args) * 3)


def test_optimized_results_are_all_defined_and_no_two_the_same() -> None:
    for seed in range(4000, 4050):
        function, args = random_program(seed, 8)
        jaxpr = optimize(trace(repeating(function), args))
        defined = {var for eqn in jaxpr.eqns for var in eqn.outvars}
        assert set(jaxpr.outvars) <= defined
        assert len(set(jaxpr.outvars)) == len(jaxpr.outvars)

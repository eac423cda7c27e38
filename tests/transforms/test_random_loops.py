"""Passes over random programs with loops and branches: every value stays what it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
from minijit import lax
from minijit.graph.check import check_jaxpr
from minijit.graph.evaluate import evaluate
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.pretty import canonical_text
from minijit.graph.primitive import Kind
from minijit.runtime.pipeline import optimize
from minijit.transforms.absorb import absorb_consumers
from minijit.transforms.common_subexpr import share_common_subexpressions
from minijit.transforms.dead_code import eliminate_dead_code
from minijit.transforms.fold import fold_constants
from minijit.transforms.hoist import hoist_invariants
from minijit.transforms.inline import inline_calls
from minijit.transforms.own_outputs import own_outputs
from minijit.transforms.simplify import simplify, simplify_loops
from tests.sampling import sampled
from tests.transforms.random_bodies import random_loop_program, reference
from tests.transforms.random_programs import assert_equal, trace
from tests.transforms.test_loops import everything

Pass = Callable[[Jaxpr], Jaxpr]
PASSES: tuple[Pass, ...] = (
    hoist_invariants,
    absorb_consumers,
    eliminate_dead_code,
    fold_constants,
    share_common_subexpressions,
    inline_calls,
    own_outputs,
    simplify,
    simplify_loops,
    optimize,
)


@pytest.mark.parametrize("seed", sampled(range(8000, 8200, 20), 2))
def test_passes_keep_every_value(seed: int) -> None:
    changed = dict.fromkeys(PASSES, 0)
    for number in range(seed, seed + 20):
        function, args = random_loop_program(number, 4 + number % 10)
        want = reference(function, args)
        with np.errstate(all="ignore"):
            jaxpr = trace(function, args)
            before = canonical_text(jaxpr)
            assert_equal(evaluate(jaxpr, args), want)
            for pass_ in PASSES:
                after = pass_(jaxpr)
                check_jaxpr(after)
                assert after.out_avals == jaxpr.out_avals
                assert_equal(evaluate(after, args), want)
                changed[pass_] += canonical_text(after) != before
        assert canonical_text(jaxpr) == before, "a pass has changed its argument"
    # Programs on which a pass does nothing would show nothing.
    assert all(changed[pass_] for pass_ in (hoist_invariants, eliminate_dead_code, optimize))


@pytest.mark.parametrize("seed", range(8500, 8540, 10))
def test_jitted_programs_with_loops_are_inlined(seed: int) -> None:
    for number in range(seed, seed + 10):
        function, args = random_loop_program(number, 5)
        inner = minijit.jit(function)

        def outer(*xs: Any, inner: Any = inner) -> list[Any]:
            again = lax.fori_loop(0, 2, lambda _, s: [*inner(*xs)], inner(*xs))
            return [*inner(*xs), *again]

        want = reference(function, args) * 2
        with np.errstate(all="ignore"):
            flat = inline_calls(trace(outer, args))
            check_jaxpr(flat)
            assert all(eqn.primitive.kind is not Kind.CALL for eqn in everything(flat))
            assert_equal(evaluate(flat, args), want)
            assert_equal(evaluate(optimize(flat), args), want)

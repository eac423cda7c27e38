"""Passes over loops and branches: programs before and after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.graph.check import check_jaxpr
from minijit.graph.evaluate import evaluate
from minijit.graph.jaxpr import Jaxpr, JaxprEqn, subjaxprs
from minijit.graph.pretty import canonical_text
from minijit.graph.primitive import Kind
from minijit.graph.tree import flatten
from minijit.transforms.absorb import absorb_consumers
from minijit.transforms.dead_code import eliminate_dead_code
from minijit.transforms.fold import fold_constants
from minijit.transforms.hoist import hoist_invariants
from minijit.transforms.inline import inline_calls
from minijit.transforms.simplify import simplify, simplify_loops
from tests.transforms.random_programs import assert_equal, trace

X = np.arange(12, dtype=np.float32).reshape(4, 3)
V = np.array([1, 2, 4], np.float32)
Pass = Callable[[Jaxpr], Jaxpr]


def rewritten(pass_: Pass, function: Callable[..., Any], *args: Any) -> Jaxpr:
    """Return the program after a pass, which has changed no result."""
    before = trace(lambda *xs: flatten(function(*xs))[0], args)
    after = pass_(before)
    check_jaxpr(after)
    assert after.out_avals == before.out_avals
    assert_equal(evaluate(after, args), evaluate(before, args))
    with minijit.disable_jit():
        assert_equal(evaluate(after, args), flatten(function(*args))[0])
    return after


def names(jaxpr: Jaxpr) -> list[str]:
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def structured(jaxpr: Jaxpr) -> list[JaxprEqn]:
    return [eqn for eqn in jaxpr.eqns if eqn.primitive.kind in (Kind.LOOP, Kind.BRANCH)]


def only(jaxpr: Jaxpr) -> JaxprEqn:
    (eqn,) = structured(jaxpr)
    return eqn


def everything(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    for eqn in jaxpr.eqns:
        yield eqn
        for body in subjaxprs(eqn):
            yield from everything(body)


# Hoisting


def test_a_reduction_that_no_step_changes_leaves_the_loop() -> None:
    def function(x: Any, v: Any) -> Any:
        return lax.scan(lambda c, row: (c * v.sum() + row, c.max()), v, x)

    after = rewritten(hoist_invariants, function, X, V)
    assert names(after) == ["reduce_sum", "scan"]
    assert names(only(after).params["jaxpr"]) == ["mul", "add", "reduce_max"]


def test_what_it_needs_leaves_with_it_and_what_is_cheap_stays() -> None:
    def function(x: Any, v: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            doubled = v * 2
            return c + row * doubled * jnp.exp(doubled).sum(), None

        return lax.scan(step, v, x)[0]

    after = rewritten(hoist_invariants, function, X, V)
    assert names(after) == ["mul", "exp", "reduce_sum", "scan"]
    assert "reduce_sum" not in names(only(after).params["jaxpr"])
    assert "mul" in names(only(after).params["jaxpr"])


def test_a_product_leaves_a_while_loop_and_its_condition() -> None:
    def function(x: Any, v: Any) -> Any:
        return lax.while_loop(
            lambda s: s[0] < (x @ v).max(), lambda s: (s[0] + 9, s[1] + x @ v), (v[0], v[1] + x @ v)
        )

    after = rewritten(hoist_invariants, function, X, V)
    loop = only(after)
    assert all(eqn.primitive.kind is not Kind.LIBRARY for b in subjaxprs(loop) for eqn in b.eqns)
    assert names(loop.params["condition"]) == ["lt"]
    assert names(after).count("reduce_max") == 1


def test_what_two_loops_do_not_change_leaves_both() -> None:
    def function(x: Any, v: Any) -> Any:
        def outer(c: Any, row: Any) -> Any:
            inner = lax.fori_loop(0, 3, lambda _, s: s + v.sum() + row.sum(), c)
            return inner, None

        return lax.scan(outer, v, x)[0]

    after = rewritten(hoist_invariants, function, X, V)
    assert names(after) == ["reduce_sum", "scan"]
    outer = only(after).params["jaxpr"]
    assert names(outer) == ["reduce_sum", "scan"]
    assert "reduce_sum" not in names(only(outer).params["jaxpr"])


def test_an_inner_loop_over_constants_runs_once() -> None:
    def function(x: Any, v: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            power = lax.fori_loop(0, 4, lambda _, s: s * 2, v)
            return c + row * power, None

        return lax.scan(step, v, x)[0]

    after = rewritten(hoist_invariants, function, X, V)
    assert names(after) == ["scan", "scan"]
    assert structured(structured(after)[1].params["jaxpr"]) == []


@pytest.mark.parametrize("inside", ["body", "branch", "scan"])
def test_a_loop_that_might_not_end_waits_for_the_step(inside: str) -> None:
    """In a loop of no steps it must not start."""

    def function(n: Any, stride: Any) -> Any:
        def count() -> Any:
            return lax.while_loop(lambda s: s > 0, lambda s: s - stride, stride * 0 + 6)

        def step(_: int, total: Any) -> Any:
            if inside == "branch":
                return total + lax.cond(stride < 9, count, lambda: stride)
            if inside == "scan":
                return total + lax.scan(lambda c, _: (c + count(), None), stride, None, 2)[0]
            return total + count() * 2

        return lax.fori_loop(0, n, step, stride)

    zero, two = np.int64(0), np.int64(2)
    after = rewritten(hoist_invariants, function, two, two)
    assert not [eqn for eqn in structured(after)[:-1] if "while" in eqn.primitive.name]
    assert "while" in [
        eqn.primitive.name for eqn in everything(structured(after)[-1].params["body"])
    ]
    assert minijit.jit(function)(zero, zero) == 0


def test_nothing_leaves_the_blocks_of_a_branch() -> None:
    """It might not have run at all."""

    def function(x: Any, v: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            return lax.cond(row[0] > 100, lambda: c / v.sum(), lambda: c + row), None

        return lax.scan(step, v, x)[0]

    after = rewritten(hoist_invariants, function, X, V)
    assert names(after) == ["scan"]


def test_a_loop_without_steps_keeps_its_results() -> None:
    function = lambda v: lax.fori_loop(0, 0, lambda _, s: s + v.sum(), v)  # noqa: E731
    rewritten(simplify_loops, function, V)


# Absorbing


def test_an_elementwise_consumer_moves_into_the_step() -> None:
    def function(x: Any, v: Any, k: Any) -> Any:
        last, ys = lax.scan(lambda c, row: (c + row, c * 2), v, x)
        return last, jnp.exp(ys * k) - x, ys

    after = rewritten(absorb_consumers, function, X, V, np.float32(0.1))
    assert names(after) == ["scan"]
    loop = only(after)
    assert names(loop.params["jaxpr"]) == ["add", "mul", "mul", "exp", "sub"]
    assert (loop.params["consts"], loop.params["carries"]) == (1, 1)
    # What was taken apart already is taken apart a second time; simplification finds nothing wrong.
    assert names(rewritten(simplify_loops, function, X, V, np.float32(0.1))) == ["scan"]


def test_a_reversed_scan_absorbs_at_the_same_rows() -> None:
    def function(x: Any, v: Any) -> Any:
        doubled = x * 2
        return lax.scan(lambda c, row: (c + row, c), v, x, reverse=True)[1] - doubled

    assert names(rewritten(absorb_consumers, function, X, V)) == ["mul", "scan"]


def later(x: Any, v: Any) -> Any:
    last, ys = lax.scan(lambda c, row: (c + row, c), v, x)
    return ys * last[0]


def broadcast(x: Any, v: Any) -> Any:
    return lax.scan(lambda c, row: (c + row, c), v, x)[1] * v


def of_two(x: Any, v: Any) -> Any:
    first = lax.scan(lambda c, row: (c + row, c), v, x)[1]
    return first + lax.scan(lambda c, row: (c - row, c), v, x)[1]


def of_a_product(x: Any, v: Any) -> Any:
    return lax.scan(lambda c, row: ((x[:3] @ c), c), v, x)[1] + 1


def of_a_view(x: Any, v: Any) -> Any:
    return lax.scan(lambda c, row: (c + row, c), v, x)[1][::-1] + 1


@pytest.mark.parametrize("function", [later, broadcast, of_two, of_a_product, of_a_view])
def test_what_a_step_cannot_know_stays_outside(function: Callable[..., Any]) -> None:
    before = trace(lambda *xs: flatten(function(*xs))[0], (X, V))
    after = rewritten(absorb_consumers, function, X, V)
    assert canonical_text(after) == canonical_text(before)


# Dead code in bodies


def test_unread_results_carries_and_operands_disappear() -> None:
    def function(x: Any, v: Any) -> Any:
        def step(state: Any, rows: Any) -> Any:
            a, b, c = state
            return (a + rows[0], b * rows[1].sum(), c + a), (a, jnp.sin(b), c)

        (a, _, _), (ys, _, _) = lax.scan(step, (v, v[0], v), (x, x + 1))
        return a, ys

    after = rewritten(eliminate_dead_code, function, X, V)
    assert names(after) == ["scan"]
    loop = only(after)
    assert (loop.params["carries"], len(loop.invars), len(loop.outvars)) == (1, 2, 2)
    assert names(loop.params["jaxpr"]) == ["add"]


def test_a_carry_that_a_needed_one_reads_is_needed() -> None:
    def function(x: Any, v: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            a, b, c, d = state
            return (a + b, b + c, c + row, d * 2), None

        return lax.scan(step, (v, v, v, v), x)[0][0]

    loop = only(rewritten(eliminate_dead_code, function, X, V))
    assert loop.params["carries"] == 3
    assert names(loop.params["jaxpr"]) == ["add"] * 3


def test_what_the_condition_asks_for_is_needed() -> None:
    def function(v: Any) -> Any:
        def step(s: Any) -> Any:
            return s[0] + 1, s[1] * 2, s[2] + s[1]

        return lax.while_loop(lambda s: s[0] < 5, step, (v[0], v, v))[1]

    loop = only(rewritten(eliminate_dead_code, function, V))
    assert len(loop.outvars) == 2
    assert sorted(names(loop.params["body"])) == ["add", "mul"]


def test_results_and_operands_of_branches() -> None:
    def function(x: Any, v: Any) -> Any:
        return lax.cond(
            v[0] > 0,
            lambda a, b, c: (a + 1, jnp.exp(b), a),
            lambda a, b, c: (a - 1, jnp.sin(c), a * 2),
            v, x, x * 2,
        )[::2]  # fmt: skip

    after = rewritten(eliminate_dead_code, function, X, V)
    branch = only(after)
    assert [names(body) for body in branch.params["branches"]] == [["sub", "mul"], ["add"]]
    assert len(branch.invars) == 2
    assert "mul" not in names(after)


def test_nothing_is_needed_of_a_loop_that_nobody_reads() -> None:
    def function(x: Any, v: Any) -> Any:
        lax.scan(lambda c, row: (c + row, c), v, x)
        lax.cond(v[0] > 0, lambda: v, lambda: -v)
        return v + 1

    assert names(rewritten(eliminate_dead_code, function, X, V)) == ["add"]


def test_dead_code_in_bodies_of_bodies() -> None:
    """What only the dead result of an inner loop reads is no operand of the outer loop."""

    def function(x: Any, v: Any) -> Any:
        def outer(c: Any, row: Any) -> Any:
            def inner(_: Any, s: Any) -> Any:
                return s[0] + 1, s[1] * row

            return lax.fori_loop(0, 2, inner, (c, v))[0], None

        return lax.scan(outer, v, jnp.exp(x), length=4)[0]

    after = rewritten(simplify, function, X, V)
    assert names(after) == ["scan"]
    assert len(only(after).invars) == 1
    assert {eqn.primitive.name for eqn in everything(after)} == {"scan", "add"}


# Folding, inlining


@pytest.mark.parametrize(("index", "operation"), [(-3, "neg"), (0, "neg"), (1, "exp"), (9, "sin")])
def test_a_known_branch_is_its_equations(index: int, operation: str) -> None:
    def function(v: Any) -> Any:
        return lax.switch(index, [jnp.negative, jnp.exp, jnp.sin], v) + 1

    assert names(rewritten(fold_constants, function, V)) == [operation, "add"]


def test_a_number_that_folding_finds_chooses_too() -> None:
    """Also in the branch that was chosen."""

    def function(v: Any) -> Any:
        one = jnp.add(np.int32(0), np.int32(1))

        def inner() -> Any:
            return lax.switch(one, [lambda: v - 1, lambda: v + 1])

        return lax.switch(one, [lambda: v * 2, inner])

    assert names(rewritten(fold_constants, function, V)) == ["add"]


def test_a_branch_may_return_a_literal_or_an_operand() -> None:
    def function(v: Any) -> Any:
        return lax.cond(True, lambda a: (a, 2.0, a), lambda a: (a, 1.0, a + 1), v)

    after = rewritten(fold_constants, function, V)
    assert after.eqns == ()


def test_bodies_are_simplified_as_programs_are() -> None:
    """What is written twice in a step is computed once, what is constant not at all."""

    def function(x: Any, v: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            two = jnp.add(np.float32(1), np.float32(1))
            return jnp.sin(c) * two - jnp.sin(c) + row, None

        return lax.cond(v[0] > 0, lambda: lax.scan(step, v, x)[0], lambda: v)

    after = rewritten(simplify, function, X, V)
    assert [e.primitive.name for e in everything(only(after).params["branches"][1])] == [
        "scan",
        "sin",
        "mul",
        "sub",
        "add",
    ]


def test_calls_are_inlined_inside_bodies() -> None:
    square = minijit.jit(lambda v: v * v)
    step = minijit.jit(lambda c, row: (square(c) * 0.5 + row, square(row)))

    def function(x: Any, v: Any) -> Any:
        c, ys = lax.scan(step, v, x)
        c = lax.while_loop(lambda s: square(s)[0] < 50, lambda s: square(s) + 1, c)
        return lax.cond(c[0] > 0, square, lambda s: square(square(s)), c * 0.01), ys

    after = rewritten(inline_calls, function, X, V)
    assert all(eqn.primitive.kind is not Kind.CALL for eqn in everything(after))


def test_a_loop_called_twice_has_variables_of_its_own_each_time() -> None:
    inner = minijit.jit(lambda v: lax.fori_loop(0, 3, lambda _, s: s * 2 + v, v))
    after = rewritten(inline_calls, lambda v: inner(v) - inner(v + 1), V)
    defined = [var for eqn in after.eqns for var in eqn.outvars]
    assert len(defined) == len(set(defined))
    assert names(after).count("scan") == 2

"""Each pass: a program's text before and after, and what must not change."""

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
from minijit.graph.pretty import canonical_text
from minijit.transforms.common_subexpr import share_common_subexpressions
from minijit.transforms.dead_code import eliminate_dead_code
from minijit.transforms.fold import fold_constants
from minijit.transforms.inline import inline_calls
from minijit.transforms.own_outputs import own_outputs
from minijit.transforms.simplify import simplify

X = np.arange(3, dtype=np.float32)
HEAD = "{ lambda ; a:f32[3]. let"
COPY = "convert_element_type[dtype=float32 weak_type=False]"


def rewritten(pass_: Callable[[Jaxpr], Jaxpr], function: Any, *args: Any) -> list[str]:
    before = minijit.make_jaxpr(function)(*args)
    after = pass_(before)
    check_jaxpr(after)
    with np.errstate(all="ignore"):
        for a, b in zip(evaluate(before, args), evaluate(after, args), strict=True):
            np.testing.assert_array_equal(a, b)
    return [line.strip() for line in canonical_text(after).splitlines()]


def test_dead_code() -> None:
    def function(x: Any) -> Any:
        unused = jnp.exp(x)
        _ = unused + 1
        return jnp.sin(x)

    assert rewritten(eliminate_dead_code, function, X) == [HEAD, "b:f32[3] = sin a", "in (b,) }"]


def test_dead_code_keeps_inputs() -> None:
    lines = rewritten(eliminate_dead_code, lambda x, y: y * 2.0, X, X)
    assert lines[0] == "{ lambda ; a:f32[3] b:f32[3]. let"


def test_common_subexpressions() -> None:
    assert rewritten(share_common_subexpressions, lambda x: jnp.exp(x) + jnp.exp(x), X) == [
        HEAD,
        "b:f32[3] = exp a",
        "c:f32[3] = add b b",
        "in (c,) }",
    ]


def test_common_subexpressions_of_common_subexpressions() -> None:
    lines = rewritten(
        share_common_subexpressions, lambda x: (jnp.exp(x * 2.0), jnp.exp(x * 2.0)), X
    )
    assert lines[1:] == ["b:f32[3] = mul a 2.0:f32[]", "c:f32[3] = exp b", "in (c, c) }"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 0.0, x * -0.0),  # equal numbers of other bits
        lambda x: (x.sum(), x.max()),
        lambda x: (x[:2], x[1:]),
        lambda x: (x - 1.0, 1.0 - x),
        lambda x: (x.astype(np.int32), x.astype(np.int64)),
        lambda x: (x + np.float32(1), x + np.float64(1)),
    ],
)
def test_what_is_not_common(function: Any) -> None:
    lines = rewritten(share_common_subexpressions, function, X)
    before = canonical_text(minijit.make_jaxpr(function)(X)).splitlines()
    assert lines == [line.strip() for line in before]


def test_nan_literals_are_common() -> None:
    lines = rewritten(share_common_subexpressions, lambda x: (x + np.nan) * (x + np.nan), X)
    assert len(lines) == 4


def test_constants_are_folded() -> None:
    def function(x: Any) -> Any:
        two = jnp.add(np.float32(1), np.float32(1))
        return x * jnp.exp2(two)

    assert rewritten(fold_constants, function, X)[1:] == [
        "b:f32[3] = mul a 4.0:f32[]",
        "in (b,) }",
    ]


def test_constants_that_fault_fold_in_silence() -> None:
    def function(x: Any) -> Any:
        return x + jnp.log(jnp.subtract(np.float32(1), np.float32(2)))

    assert rewritten(fold_constants, function, X)[1] == "b:f32[3] = add a nan:f32[]"


def test_results_can_be_folded_away() -> None:
    lines = rewritten(fold_constants, lambda x: jnp.add(np.int32(1), np.int32(2)), X)
    assert lines[1:] == ["in (3:i32[],) }"]


def test_calls_are_inlined_with_variables_of_their_own() -> None:
    double = minijit.jit(lambda v: v * 2.0)
    nested = minijit.jit(lambda v: double(v) + 1.0)
    lines = rewritten(inline_calls, lambda x: nested(x) + nested(double(x)), X)
    assert lines == [
        HEAD,
        "b:f32[3] = mul a 2.0:f32[]",
        "c:f32[3] = add b 1.0:f32[]",
        "d:f32[3] = mul a 2.0:f32[]",
        "e:f32[3] = mul d 2.0:f32[]",
        "f:f32[3] = add e 1.0:f32[]",
        "g:f32[3] = add c f",
        "in (g,) }",
    ]


def test_calls_that_return_what_they_got() -> None:
    swap = minijit.jit(lambda a, b: (b, a, 3.0))
    lines = rewritten(inline_calls, lambda x, y: swap(x, y)[:2], X, X + 1)
    assert lines == ["{ lambda ; a:f32[3] b:f32[3]. let", "in (b, a) }"]


def test_calls_with_captured_values() -> None:
    weights = np.ones(3, np.float32)
    inner = minijit.jit(lambda v: v + weights)
    jaxpr = inline_calls(minijit.make_jaxpr(lambda x: inner(x) * inner(x * 2.0))(X))
    assert jaxpr.consts == (weights,)
    np.testing.assert_array_equal(evaluate(jaxpr, [X])[0], (X + 1) * (X * 2 + 1))


def test_every_result_is_a_new_array() -> None:
    assert rewritten(own_outputs, lambda x: (x, 2.0, x, x + 1.0), X) == [
        HEAD,
        "b:f32[3] = add a 1.0:f32[]",
        f"c:f32[3] = {COPY} a",
        "d:f64[]* = convert_element_type[dtype=float64 weak_type=True] 2.0:f64[]*",
        f"e:f32[3] = {COPY} a",
        "in (c, d, e, b) }",
    ]


def test_results_returned_twice_and_views_are_copied() -> None:
    def function(x: Any) -> Any:
        y = x * 2.0
        return y, y, x[::-1]

    assert rewritten(own_outputs, function, X)[3:] == [
        f"d:f32[3] = {COPY} b",
        f"e:f32[3] = {COPY} c",
        "in (b, d, e) }",
    ]


def test_simplify_finds_what_one_pass_uncovers_for_the_next() -> None:
    def function(x: Any) -> Any:
        one = jnp.exp(x * jnp.add(np.float32(1), np.float32(2)))
        other = jnp.exp(x * 3.0)
        _ = other * 7.0
        return one - other

    assert rewritten(simplify, function, X) == [
        HEAD,
        "b:f32[3] = mul a 3.0:f32[]",
        "c:f32[3] = exp b",
        "d:f32[3] = sub c c",
        "in (d,) }",
    ]


def test_passes_leave_their_argument_alone() -> None:
    inner = minijit.jit(lambda v: v * 2.0)
    jaxpr = minijit.make_jaxpr(lambda x: (inner(x), x, inner(x)))(X)
    before = canonical_text(jaxpr)
    for pass_ in (inline_calls, fold_constants, simplify, own_outputs):
        pass_(jaxpr)
    assert canonical_text(jaxpr) == before


def test_a_python_integer_that_does_not_fit_is_refused_while_folding() -> None:
    inner = minijit.jit(lambda x, step: x + step)
    outer = minijit.jit(lambda x: inner(x, 300))
    with pytest.raises(OverflowError, match="300 out of bounds for uint8"):
        outer(np.array([1, 2], np.uint8))
    np.testing.assert_array_equal(outer(np.array([1.5], np.float32)), [301.5])

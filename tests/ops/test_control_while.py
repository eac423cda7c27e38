"""``while_loop`` and ``fori_loop``: values, bounds, types, one trace, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from tests.ops.test_control_scan import IN_EVERY_WAY, Wrap, equations

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@IN_EVERY_WAY
@pytest.mark.parametrize("start", [1000, 99, 50, 3, 1])
def test_as_long_as_the_condition_holds(wrap: Wrap, start: int) -> None:
    f = wrap(lambda v: lax.while_loop(lambda c: c < 100, lambda c: c * 3 + 1, v))
    want = start
    while want < 100:
        want = want * 3 + 1
    got = f(np.int32(start))
    assert (int(got), got.dtype) == (want, np.int32)


@IN_EVERY_WAY
def test_arrays_go_on_until_all_are_done(wrap: Wrap) -> None:
    f = wrap(lambda v: lax.while_loop(lambda c: (c < 20).any(), lambda c: c * 2 + 1, v))
    want = X
    while (want < 20).any():
        want = want * 2 + 1
    np.testing.assert_array_equal(f(X), want)


@IN_EVERY_WAY
def test_trees_and_closures(wrap: Wrap) -> None:
    """Newton's iteration for a root; the condition reads a value around it as the body does."""

    def function(a: Any, most: Any) -> Any:
        limit = most + 0

        def unfinished(state: Any) -> Any:
            return (state["n"] < limit) & (abs(state["x"][0] ** 2 - a) > 1e-9)

        def step(state: Any) -> Any:
            x = state["x"][0]
            return {"x": [(x + a / x) / 2], "n": state["n"] + 1}

        return lax.while_loop(unfinished, step, {"x": [a], "n": np.int32(0)})

    got = wrap(function)(np.float64(2), np.int32(50))
    assert abs(float(got["x"][0]) - np.sqrt(2)) < 1e-9
    assert 3 < got["n"] < 8
    assert wrap(function)(np.float64(2), np.int32(2))["n"] == 2


@IN_EVERY_WAY
def test_carries_change_places_at_once(wrap: Wrap) -> None:
    f = wrap(
        lambda a, b, n: lax.while_loop(
            lambda s: s[2] > 0, lambda s: (s[1], s[0] + s[1], s[2] - 1), (a, b, n)
        )
    )
    a, b, n = f(X, X + 1, np.int32(5))
    first, second = X, X + 1
    for _ in range(5):
        first, second = second, first + second
    np.testing.assert_array_equal(a, first)
    np.testing.assert_array_equal(b, second)
    assert n == 0


@IN_EVERY_WAY
def test_a_loop_that_never_runs_returns_its_start(wrap: Wrap) -> None:
    f = wrap(lambda v: lax.while_loop(lambda c: c[0, 0] > 5, lambda c: c - 1, v))
    got = f(X)
    np.testing.assert_array_equal(got, X)
    if wrap is minijit.jit:
        assert not np.shares_memory(got, X)


@pytest.mark.parametrize("wrap", [lambda f: f, minijit.jit], ids=["out", "jit"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64])
def test_a_python_number_starts_in_the_type_that_the_body_gives_it(wrap: Wrap, dtype: Any) -> None:
    f = wrap(lambda v: lax.while_loop(lambda s: s < 10, lambda s: s + v, 0))
    got = f(dtype(3))
    assert (got, got.dtype) == (12, np.dtype(dtype))


def test_both_functions_are_traced_once() -> None:
    seen: list[str] = []

    def go_on(c: Any) -> Any:
        seen.append("condition")
        return c < 50

    def step(c: Any) -> Any:
        seen.append("body")
        return c * 2

    f = minijit.jit(lambda v: lax.while_loop(go_on, step, v))
    assert [int(f(np.int32(v))) for v in (1, 3, 100)] == [64, 96, 100]
    assert sorted(seen) == ["body", "condition"]


BOUNDS = [(0, 4), (3, 3), (5, 2), (-2, 2), (2, 5), (0, 1)]


@IN_EVERY_WAY
@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_a_range_of_steps(wrap: Wrap, bounds: tuple[int, int]) -> None:
    want = [sum(range(*bounds)), max(bounds[1] - bounds[0], 0)]

    def loop(low: Any, high: Any) -> Any:
        start = (np.int32(0), np.int32(0))
        return lax.fori_loop(low, high, lambda i, s: (s[0] + i, s[1] + 1), start)

    low, high = bounds
    for function, args in (
        (lambda: loop(low, high), ()),
        (loop, (low, high)),
        (loop, (np.int32(low), np.int32(high))),
        (lambda high: loop(low, high), (np.int32(high),)),
        (lambda low: loop(low, high), (np.int32(low),)),
    ):
        got = wrap(function)(*args)
        assert [int(value) for value in got] == want
        assert [value.dtype for value in got] == [np.int32, np.int32]


def test_known_bounds_make_a_scan_and_traced_ones_a_while() -> None:
    def loop(low: Any, high: Any) -> Any:
        return lax.fori_loop(low, high, lambda i, s: s + i, np.int32(0))

    (known,) = minijit.make_jaxpr(lambda: loop(0, 5))().eqns
    assert (known.primitive.name, known.params["length"]) == ("scan", 5)
    assert "while" in [e.primitive.name for e in minijit.make_jaxpr(loop)(0, 5).eqns]
    assert equations(minijit.make_jaxpr(lambda: loop(0, 5))()) == equations(
        minijit.make_jaxpr(lambda: loop(0, 10**9))()
    )


@IN_EVERY_WAY
def test_the_step_of_known_bounds_is_weak(wrap: Wrap) -> None:
    """As an integer of Python's own loop is: the carry keeps its dtype."""
    for dtype in (np.float32, np.float16, np.int8):
        got = wrap(lambda v: lax.fori_loop(0, 4, lambda i, s: s + i, v))(dtype(1))
        assert (got, got.dtype) == (7, np.dtype(dtype))


def test_the_step_of_an_array_bound_has_its_dtype() -> None:
    """int32 and float32 make float64, as they do in NumPy: the message says so."""
    f = minijit.jit(lambda n, v: lax.fori_loop(0, n, lambda i, s: s + i, v))
    with pytest.raises(TypeError, match=r"carry  float32\[\]  float64\[\]"):
        f(np.int32(4), np.float32(1))
    assert f(np.int32(4), np.float64(1)) == 7
    g = minijit.jit(lambda n, v: lax.fori_loop(0, n, lambda i, s: s + i.astype(np.float32), v))
    assert g(np.int32(4), np.float32(1)) == 7


@IN_EVERY_WAY
def test_the_step_has_the_dtype_of_both_bounds(wrap: Wrap) -> None:
    f = wrap(lambda a, b: lax.fori_loop(a, b, lambda i, s: i.astype(np.int64) * 2, np.int64(0)))
    assert f(np.int8(-3), np.int16(4)) == 6
    g = wrap(lambda a, b: lax.fori_loop(a, b, lambda i, s: i, a))
    assert g(np.uint8(3), np.uint8(7)).dtype == np.uint8


@IN_EVERY_WAY
def test_bounds_of_two_dtypes(wrap: Wrap) -> None:
    f = wrap(lambda a, b: lax.fori_loop(a, b, lambda i, s: s + 1, np.int32(0)))
    assert f(np.int8(-3), np.int64(4)) == 7
    assert f(np.uint8(250), np.int16(256)) == 6


@IN_EVERY_WAY
def test_loops_in_loops_and_branches_in_them(wrap: Wrap) -> None:
    """Length of the longest sequence of Collatz from any start below n."""

    def collatz(n: Any) -> Any:
        def step(s: Any) -> Any:
            value, count = s
            even = value % 2 == 0
            value = lax.cond(even, lambda v: v // 2, lambda v: v * 3 + 1, value)
            return value, count + 1

        return lax.while_loop(lambda s: s[0] != 1, step, (n, np.int64(0)))[1]

    def longest(n: Any) -> Any:
        return lax.fori_loop(
            np.int64(1), n, lambda i, best: jnp.maximum(best, collatz(i)), np.int64(0)
        )

    assert int(wrap(longest)(np.int64(30))) == 111


REFUSED: dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]] = {
    "condition-of-an-array": (
        lambda x: lax.while_loop(lambda c: c < 5, lambda c: c + 1, x),
        ("condition returns bool[2,3]", ".any()"),
    ),
    "condition-is-a-number": (
        lambda x: lax.while_loop(lambda c: 5 - c[0, 0], lambda c: c + 1, x),
        ("condition returns float32[]", "comparison"),
    ),
    "condition-is-a-tree": (
        lambda x: lax.while_loop(lambda c: (c.any(),), lambda c: c + 1, x),
        ("(bool[],)",),
    ),
    "condition-is-nothing": (
        lambda x: lax.while_loop(lambda c: None, lambda c: c + 1, x),
        ("condition returns None",),
    ),
    "dtype": (
        lambda x: lax.while_loop(lambda c: c.any(), lambda c: c.astype(np.float64), x),
        ("carry  float32[2,3]  float64[2,3]",),
    ),
    "shape-in-a-tree": (
        lambda x: lax.while_loop(
            lambda c: c["a"].any(),
            lambda c: {"a": c["a"], "b": (c["b"][0].T,)},
            {"a": x, "b": (x,)},
        ),
        ("carry['b'][0]  float32[2,3]  float32[3,2]",),
    ),
    "structure": (
        lambda x: lax.while_loop(lambda c: c.any(), lambda c: [c], x),
        ("structures differ", "[float32[2,3]]"),
    ),
    "no-function": (
        lambda x: lax.while_loop(lambda c: c.any(), x, x),
        ("while_loop: body_fun is a value of type", "called as body_fun(value)"),
    ),
    "arguments-of-the-condition": (
        lambda x: lax.while_loop(lambda a, b: a.any(), lambda c: c, x),
        ("while_loop: cond_fun(value) cannot be called", "'b'"),
    ),
    "arguments-of-a-step": (
        lambda x: lax.fori_loop(0, 3, lambda value: value, x),
        ("fori_loop: body_fun(i, value) cannot be called", "too many"),
    ),
    "float-bound": (
        lambda x: lax.fori_loop(0, x[0, 0], lambda i, s: s, x),
        ("fori_loop: upper is float32[]",),
    ),
    "bool-bound": (
        lambda x: lax.fori_loop(x[0, 0] > 0, 3, lambda i, s: s, x),
        ("fori_loop: lower is bool[]",),
    ),
    "array-bound": (
        lambda x: lax.fori_loop(x[0].astype(np.int32), 3, lambda i, s: s, x),
        ("lower is int32[3]",),
    ),
    "fori-dtype": (
        lambda x: lax.fori_loop(0, 3, lambda i, s: {"a": s["a"].sum()}, {"a": x}),
        ("carry['a']  float32[2,3]  float32[]",),
    ),
    "fori-structure": (
        lambda x: lax.fori_loop(0, 3, lambda i, s: (s, s), x),
        ("takes    float32[2,3]\n", "returns  (float32[2,3], float32[2,3])\n"),
    ),
}


@pytest.mark.parametrize("wrap", [lambda f: f, minijit.jit], ids=["out", "jit"])
@pytest.mark.parametrize("case", REFUSED)
def test_refusals_show_types_and_the_line(wrap: Wrap, case: str) -> None:
    function, texts = REFUSED[case]
    with pytest.raises(TypeError) as error:
        wrap(function)(X)
    message = str(error.value)
    assert all(text in message for text in texts), message
    if wrap is minijit.jit:
        assert "test_control_while.py:" in message


def test_disable_jit_runs_python_on_values() -> None:
    seen = []

    def step(v: Any) -> Any:
        seen.append(float(v))
        return v * 2 if v > 0 else v

    with minijit.disable_jit():
        lax.while_loop(lambda v: v < 10, step, np.float32(3))
        lax.fori_loop(2, np.int32(4), lambda i, v: (seen.append(i), v)[1], np.float32(1))
        lax.fori_loop(4, 2, lambda i, v: (seen.append(i), v)[1], np.float32(1))
    assert seen == [3, 6, 2, 3]

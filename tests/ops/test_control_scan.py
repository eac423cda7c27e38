"""``scan``: values, order, the types of what is carried, one trace, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.graph.jaxpr import Jaxpr, subjaxprs
from minijit.graph.pretty import canonical_text

RNG = np.random.default_rng(11)
XS = RNG.integers(-4, 5, (7, 3)).astype(np.float32)
START = np.zeros(3, np.float32)
Wrap = Callable[[Any], Any]


def disabled(function: Any) -> Any:
    """Run as plain Python."""

    def run(*args: Any) -> Any:
        with minijit.disable_jit():
            return minijit.jit(function)(*args)

    return run


WAYS = {"out": lambda f: f, "jit": minijit.jit, "disabled": disabled}
IN_EVERY_WAY = pytest.mark.parametrize("wrap", WAYS.values(), ids=WAYS)


def equations(jaxpr: Jaxpr) -> int:
    return sum(1 + sum(map(equations, subjaxprs(eqn))) for eqn in jaxpr.eqns)


@IN_EVERY_WAY
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 7])
def test_a_scan_is_the_loop_it_says(wrap: Wrap, reverse: bool, length: int) -> None:
    def body(c: Any, x: Any) -> tuple[Any, Any]:
        new = c * 2 + x
        return new, (c, new - x)

    f = wrap(lambda c, xs: lax.scan(body, c, xs, reverse=reverse))
    carry, (before, after) = f(START + 1, XS[:length])
    state, rows = START + 1, [None] * length
    for step in range(length)[:: -1 if reverse else 1]:
        new = state * 2 + XS[step]
        rows[step] = (state, new - XS[step])
        state = new
    np.testing.assert_array_equal(carry, state)
    for got, place in ((before, 0), (after, 1)):
        assert (got.shape, got.dtype) == ((length, 3), np.float32)
        for step in range(length):
            np.testing.assert_array_equal(got[step], rows[step][place])


@IN_EVERY_WAY
def test_steps_without_inputs(wrap: Wrap) -> None:
    f = wrap(lambda c: lax.scan(lambda c, x: (c + 1, (c * c, x)), c, None, length=4))
    carry, (squares, nothing) = f(np.int32(2))
    assert (carry, carry.dtype) == (6, np.int32)
    np.testing.assert_array_equal(squares, [4, 9, 16, 25])
    assert nothing is None


@IN_EVERY_WAY
def test_nothing_carried_and_nothing_collected(wrap: Wrap) -> None:
    carry, ys = wrap(lambda xs: lax.scan(lambda c, x: (c, x + 1), None, xs))(XS)
    assert carry is None
    np.testing.assert_array_equal(ys, XS + 1)
    carry, ys = wrap(lambda xs: lax.scan(lambda c, x: (c + x, None), START, xs))(XS)
    assert ys is None
    np.testing.assert_array_equal(carry, XS.sum(0))
    assert wrap(lambda xs: lax.scan(lambda c, x: (c, {}), (), xs))(XS) == ((), {})


@IN_EVERY_WAY
def test_trees_in_and_out(wrap: Wrap) -> None:
    def body(state: Any, x: Any) -> tuple[Any, Any]:
        first, (second,) = x["a"], x["b"]
        new = {
            "total": state["total"] + first,
            "pair": [jnp.maximum(state["pair"][0], second), state["pair"][1] + 1],
        }
        return new, {"seen": (new["total"], second * 10), "none": None}

    start = {"total": START, "pair": [np.int32(-100), np.int64(0)]}
    numbers = np.array([3, -1, 9, 2, 2, 4, 1], np.int32)
    state, ys = wrap(lambda s, x: lax.scan(body, s, x))(start, {"a": XS, "b": (numbers,)})
    np.testing.assert_array_equal(state["total"], XS.sum(0))
    assert (int(state["pair"][0]), int(state["pair"][1])) == (9, 7)
    assert (state["pair"][0].dtype, state["pair"][1].dtype) == (np.int32, np.int64)
    np.testing.assert_array_equal(ys["seen"][0], np.cumsum(XS, 0))
    np.testing.assert_array_equal(ys["seen"][1], numbers * 10)
    assert ys["none"] is None


@IN_EVERY_WAY
def test_carries_change_places_at_once(wrap: Wrap) -> None:
    def body(state: Any, _: Any) -> tuple[Any, Any]:
        a, b, c = state
        return (b, c, a + b), (a, c)

    f = wrap(lambda a, b, c: lax.scan(body, (a, b, c), None, length=5))
    (a, b, c), (first, last) = f(START, START + 1, START + 2)
    states = [(0, 1, 2)]
    for _ in range(5):
        x, y, z = states[-1]
        states.append((y, z, x + y))
    for got, want in zip((a, b, c), states[-1], strict=True):
        np.testing.assert_array_equal(got, START + want)
    np.testing.assert_array_equal(first[:, 0], [s[0] for s in states[:-1]])
    np.testing.assert_array_equal(last[:, 0], [s[2] for s in states[:-1]])


def test_results_are_arrays_of_their_own() -> None:
    f = minijit.jit(lambda c, xs: lax.scan(lambda c, x: (c, x), c, xs))
    carry, ys = f(START, XS)
    for result, argument in ((carry, START), (ys, XS)):
        np.testing.assert_array_equal(result, argument)
        assert not np.shares_memory(result, argument)
    same, (a, b) = minijit.jit(lambda c: lax.scan(lambda c, _: (c + 1, (c, c)), c, None, length=3))(
        START
    )
    assert not np.shares_memory(a, b)
    assert not np.shares_memory(same, a)


@IN_EVERY_WAY
@pytest.mark.parametrize("stride", [1, -1, 2])
def test_inputs_of_any_strides(wrap: Wrap, stride: int) -> None:
    f = wrap(lambda c, xs: lax.scan(lambda c, x: (c * 3 - x, c), c, xs))
    for view in (XS[::stride], XS[:, ::stride], np.asfortranarray(XS)[::stride]):
        start = np.ones(view.shape[1], np.float32)
        state, rows = start, []
        for x in view:
            rows.append(state)
            state = state * 3 - x
        carry, ys = f(start, view)
        np.testing.assert_array_equal(carry, state)
        np.testing.assert_array_equal(ys, rows)


WEAK = {
    "float32": (0.0, XS, np.float32),
    "float16": (0.0, XS.astype(np.float16), np.float16),
    "int-to-float32": (0, XS, np.float32),
    "int8": (0, XS.astype(np.int8), np.int8),
    "int-to-int64": (1, XS.astype(np.int64), np.int64),
}


@pytest.mark.parametrize("wrap", [lambda f: f, minijit.jit], ids=["out", "jit"])
@pytest.mark.parametrize("case", WEAK)
def test_a_python_number_starts_in_the_type_that_the_body_gives_it(wrap: Wrap, case: str) -> None:
    first, xs, dtype = WEAK[case]
    carry, ys = wrap(lambda v: lax.scan(lambda c, x: (c + x, c), first, v))(xs[:, 0])
    want = np.cumsum(xs[:, 0], dtype=dtype) + dtype(first)
    assert (carry.dtype, ys.dtype) == (dtype, dtype)
    np.testing.assert_array_equal(carry, want[-1])
    np.testing.assert_array_equal(ys, [first, *want[:-1]])


def test_weak_carries_widen_one_after_the_other() -> None:
    """The second becomes an int64 only after the first has."""

    def body(state: Any, x: Any) -> tuple[Any, None]:
        a, b, c = state
        return (a + x, b + a, c + 1), None

    xs = np.arange(4, dtype=np.int64)
    (a, b, c), _ = minijit.jit(lambda v: lax.scan(body, (0, 0, 0), v))(xs)
    assert (int(a), int(b), int(c)) == (6, 4, 4)
    assert (a.dtype, b.dtype) == (np.int64, np.int64)


@pytest.mark.parametrize(("first", "times"), [(np.float32(0), 1), (0.0, 2)])
def test_a_body_is_traced_once_or_twice_if_a_weak_carry_widens(first: Any, times: int) -> None:
    seen: list[Any] = []

    def body(c: Any, x: Any) -> tuple[Any, Any]:
        seen.append(c)
        return c + x, None

    f = minijit.jit(lambda xs: lax.scan(body, first, xs)[0])
    for _ in range(3):
        assert f(XS[:, 0]) == XS[:, 0].sum()
    assert len(seen) == times


def test_a_long_loop_is_no_larger_than_a_short_one(counts: Counter[str]) -> None:
    def program(xs: Any) -> Any:
        carry, ys = lax.scan(lambda c, x: (jnp.tanh(c + x), c * 2), np.float32(0), xs)
        return carry, jnp.exp(ys)

    found = {}
    for length in (10, 100_000):
        counts.clear()
        f = minijit.jit(program)
        xs = np.linspace(-1, 1, length, dtype=np.float32)
        jaxpr = minijit.make_jaxpr(program)(xs)
        f(xs)
        found[length] = (
            equations(jaxpr),
            len(canonical_text(jaxpr).splitlines()),
            counts["trace"],
            counts["compile"],
            len(f.lower(xs).compile().kernels()),
        )
        counts.clear()
        f(xs)
        assert (counts["launch"], counts["compile"], counts["trace"]) == (1, 0, 0)
    assert found[10] == found[100_000]


@IN_EVERY_WAY
@pytest.mark.parametrize("unroll", [1, 3, 100, True, False])
@pytest.mark.parametrize("length", [0, 7])
def test_unroll_changes_nothing(wrap: Wrap, unroll: Any, length: int) -> None:
    f = wrap(lambda c, xs: lax.scan(lambda c, x: (c * 2 - x, c), c, xs, unroll=unroll))
    carry, ys = f(START, XS[:length])
    want, rows = lax.scan(lambda c, x: (c * 2 - x, c), START, XS[:length])
    np.testing.assert_array_equal(carry, want)
    np.testing.assert_array_equal(ys, rows)


@IN_EVERY_WAY
def test_loops_in_loops_over_closures(wrap: Wrap) -> None:
    def function(xs: Any, scale: Any) -> Any:
        shift = scale + 1

        def inner(c: Any, x: Any) -> tuple[Any, Any]:
            return c * shift + x, None

        def outer(c: Any, row: Any) -> tuple[Any, Any]:
            total, _ = lax.scan(inner, c, row)
            return c + scale, total

        return lax.scan(outer, scale * 0, xs)

    carry, ys = wrap(function)(XS, np.float32(2))
    state, rows = np.float32(0), []
    for row in XS:
        total = state
        for x in row:
            total = total * np.float32(3) + x
        rows.append(total)
        state = state + np.float32(2)
    assert carry == state
    np.testing.assert_array_equal(ys, np.array(rows, np.float32))


def test_jitted_functions_in_bodies_and_bodies_that_are_jitted() -> None:
    step = minijit.jit(lambda c, x: (c * 2 + x, c))
    inner = minijit.jit(lambda c, xs: lax.scan(step, c, xs))
    f = minijit.jit(lambda c, xs: lax.scan(lambda s, x: (inner(s, x[None])[0], s), c, xs))
    for got, want in zip(f(START, XS), inner(START, XS), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_captured_array_is_not_baked_in() -> None:
    weights = np.ones(3, np.float32)
    jaxpr = minijit.make_jaxpr(
        lambda xs: lax.scan(lambda c, x: (c + x * weights, None), START, xs)[0]
    )(XS)
    assert any(const is weights for const in jaxpr.consts)


def test_disable_jit_runs_python_on_values() -> None:
    seen = []

    def body(c: Any, x: Any) -> tuple[Any, Any]:
        seen.append(float(x[0]))
        return (c + x if c[0] > 0 else c - x), None

    with minijit.disable_jit():
        lax.scan(body, START + 1, XS)
    assert seen == XS[:, 0].tolist()


def test_disable_jit_knows_what_an_empty_loop_collects() -> None:
    with minijit.disable_jit():
        carry, (a, b) = lax.scan(lambda c, x: (c + 1, (x, c.astype(np.int64))), np.int32(3), XS[:0])
    assert carry == 3
    assert (a.shape, a.dtype, b.shape, b.dtype) == ((0, 3), np.float32, (0,), np.int64)


def body_of(carry: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    return lambda c, x: (carry(c, x), None)


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], tuple[str, ...]]] = {
    "dtype": (
        lambda xs: lax.scan(body_of(lambda c, x: c + 1.5), np.int32(0), xs),
        TypeError,
        ("takes    returns", "carry  int32[]  float64[]", "x.astype(...)"),
    ),
    "dtype-in-a-tree": (
        lambda xs: lax.scan(
            body_of(lambda c, x: {"s": [c["s"][0] + x], "n": c["n"] + np.float32(1)}),
            {"s": [xs[0]], "n": np.int32(0)},
            xs,
        ),
        TypeError,
        ("carry['n']  int32[]  float64[]",),
    ),
    "shape": (
        lambda xs: lax.scan(body_of(lambda c, x: c + x), np.float32(0), xs),
        TypeError,
        ("float32[]", "float32[3]"),
    ),
    "weak-shape": (
        lambda xs: lax.scan(body_of(lambda c, x: c + x), 0.0, xs),
        TypeError,
        ("float64[]", "float32[3]"),
    ),
    "narrower": (
        lambda xs: lax.scan(body_of(lambda c, x: c.astype(np.float16)), xs[0], xs),
        TypeError,
        ("float32[3]  float16[3]",),
    ),
    "structure": (
        lambda xs: lax.scan(body_of(lambda c, x: (c, c)), xs[0], xs),
        TypeError,
        ("structures differ", "(float32[3], float32[3])"),
    ),
    "other-keys": (
        lambda xs: lax.scan(body_of(lambda c, x: {"b": c["a"]}), {"a": xs[0]}, xs),
        TypeError,
        ("{'a': float32[3]}", "{'b': float32[3]}"),
    ),
    "no-pair": (
        lambda xs: lax.scan(lambda c, x: c, xs[0], xs),
        TypeError,
        ("a pair (carry, y)", "return carry, None"),
    ),
    "two-lengths": (
        lambda xs: lax.scan(body_of(lambda c, x: c), 0, {"a": xs, "b": [xs[:4]]}),
        ValueError,
        ("xs['a']", "float32[7,3]", "xs['b'][0]", "float32[4,3]"),
    ),
    "other-length": (
        lambda xs: lax.scan(body_of(lambda c, x: c), 0, xs, length=8),
        ValueError,
        ("float32[7,3]", "length=8"),
    ),
    "no-length": (lambda xs: lax.scan(body_of(lambda c, x: c), xs), ValueError, ("length=",)),
    "negative-length": (
        lambda xs: lax.scan(body_of(lambda c, x: c), xs, None, length=-1),
        ValueError,
        ("length=-1",),
    ),
    "half-a-length": (
        lambda xs: lax.scan(body_of(lambda c, x: c), xs, None, length=2.5),
        TypeError,
        ("length=2.5",),
    ),
    "scalar-input": (
        lambda xs: lax.scan(body_of(lambda c, x: c), 0, (xs, xs[0, 0])),
        ValueError,
        ("xs[1] is a scalar",),
    ),
    "numbers-in-a-list": (
        lambda xs: lax.scan(body_of(lambda c, x: c), 0, [1, 2, 3]),
        ValueError,
        ("xs[0] is a scalar", "make an array of it first"),
    ),
    "no-function": (
        lambda xs: lax.scan(xs, 0, xs),
        TypeError,
        ("f is a value of type", "called as f(carry, x)"),
    ),
    "arguments": (
        lambda xs: lax.scan(lambda carry: (carry, None), 0, xs),
        TypeError,
        ("f(carry, x) cannot be called", "too many positional arguments"),
    ),
    "no-unrolling": (
        lambda xs: lax.scan(body_of(lambda c, x: c), xs, xs, unroll=0),
        ValueError,
        ("unroll=0",),
    ),
    "half-an-unrolling": (
        lambda xs: lax.scan(body_of(lambda c, x: c), xs, xs, unroll=1.5),
        TypeError,
        ("unroll=1.5",),
    ),
    "unroll": (
        lambda xs: lax.scan(body_of(lambda c, x: c), xs, xs, unroll=-2),
        ValueError,
        ("unroll=-2",),
    ),
    "text": (lambda xs: lax.scan(lambda c, x: (c, "y"), xs[0], xs), TypeError, ("'str'",)),
}


@pytest.mark.parametrize("wrap", [lambda f: f, minijit.jit], ids=["out", "jit"])
@pytest.mark.parametrize("case", REFUSED)
def test_refusals_show_types_and_the_line(wrap: Wrap, case: str) -> None:
    function, kind, texts = REFUSED[case]
    with pytest.raises(kind) as error:
        wrap(function)(XS)
    message = str(error.value)
    assert all(text in message for text in texts), message
    if wrap is minijit.jit:
        assert "test_control_scan.py:" in message


def test_a_traced_length_is_refused() -> None:
    f = minijit.jit(lambda x, n: lax.scan(body_of(lambda c, _: c + 1), x, None, length=n)[0])
    with pytest.raises(TypeError, match=r"length is traced \(at test_control_scan.py.*fori_loop"):
        f(START, 3)
    g = minijit.jit(f.__wrapped__, static_argnames="n")
    np.testing.assert_array_equal(g(START, 3), START + 3)

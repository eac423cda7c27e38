"""``cond`` and ``switch``: which branch runs, what they return, and what is refused."""

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

X = np.arange(6, dtype=np.float32).reshape(2, 3)
Wrap = Callable[[Any], Any]
INSIDE_AND_OUTSIDE = pytest.mark.parametrize("wrap", [lambda f: f, minijit.jit], ids=["out", "jit"])


def names(jaxpr: Jaxpr) -> set[str]:
    """Names of all operations, those of bodies included."""
    found = {eqn.primitive.name for eqn in jaxpr.eqns}
    return found.union(*(names(body) for eqn in jaxpr.eqns for body in subjaxprs(eqn)))


@INSIDE_AND_OUTSIDE
@pytest.mark.parametrize(
    ("predicate", "holds"),
    [
        (True, True),
        (False, False),
        (np.True_, True),
        (np.array(False), False),
        (2, True),
        (0, False),
        (np.int64(0), False),
        (0.5, True),
        (-0.0, False),
        (float("nan"), True),
        (np.float16(3), True),
        (np.uint8(0), False),
    ],
)
def test_a_predicate_is_a_bool_or_a_number(wrap: Wrap, predicate: Any, holds: bool) -> None:
    f = wrap(lambda p, x: lax.cond(p, lambda v: v + 1, lambda v: v - 1, x))
    np.testing.assert_array_equal(f(predicate, X), X + (1 if holds else -1))


def test_the_branch_is_chosen_at_each_call(counts: Counter[str]) -> None:
    f = minijit.jit(lambda x: lax.cond(x.sum() > 4, jnp.sqrt, jnp.negative, x))
    for x in (X, X - 3, X, X * 0):
        with np.errstate(invalid="ignore"):
            want = np.sqrt(x) if x.sum() > 4 else -x
        np.testing.assert_array_equal(f(x), want)
    assert counts["trace"] == 1


def test_only_the_branch_that_is_taken_runs() -> None:
    """The other one would not end."""

    def endless(v: Any) -> Any:
        return lax.while_loop(lambda s: s.sum() > -1, lambda s: s * 1, v)

    f = minijit.jit(lambda p, x: lax.cond(p, lambda v: v + 1, endless, x))
    np.testing.assert_array_equal(f(np.array(True), X), X + 1)
    np.testing.assert_array_equal(lax.cond(True, lambda v: v + 1, endless, X), X + 1)


@pytest.mark.parametrize("known", [True, False, np.True_, 0, 2.5])
def test_a_predicate_known_while_tracing_leaves_its_branch_alone(
    known: Any, counts: Counter[str]
) -> None:
    traced = []

    def side(name: str, operation: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda v: (traced.append(name), operation(v))[1]

    def function(x: Any) -> Any:
        return lax.cond(known, side("yes", jnp.exp), side("no", lambda v: v @ v.T @ v), x)

    compiled = minijit.jit(function).lower(X).compile()
    assert sorted(traced) == ["no", "yes"]  # the types of both are compared
    assert len(compiled.kernels()) == (1 if known else 0)
    counts.clear()
    compiled(X)
    assert bool(counts["eager"]) == (not known)


def test_a_static_predicate_and_a_nested_jit_are_known_too() -> None:
    choose = minijit.jit(lambda x, up: lax.cond(up, jnp.exp, jnp.sin, x), static_argnames="up")
    text = "".join(kernel.source for kernel in choose.lower(X, up=True).compile().kernels())
    assert "exp" in text
    assert "sin" not in text
    inner = minijit.jit(lambda p, x: lax.cond(p, jnp.exp, jnp.sin, x))
    outer = minijit.jit(lambda x: inner(False, x))
    text = "".join(kernel.source for kernel in outer.lower(X).compile().kernels())
    assert "sin" in text
    assert "exp" not in text


def test_a_captured_array_may_change_between_calls() -> None:
    flag = np.array(True)
    jaxpr = minijit.make_jaxpr(lambda x: lax.cond(flag, jnp.exp, jnp.sin, x))(X)
    assert {"cond", "exp", "sin"} <= names(jaxpr)


@INSIDE_AND_OUTSIDE
def test_operands_and_results_are_trees(wrap: Wrap) -> None:
    def swap(tree: Any, factor: Any) -> Any:
        return {"second": tree["a"] * factor, "first": [tree["b"][0], None]}

    def keep(tree: Any, factor: Any) -> Any:
        return {"first": [tree["a"], None], "second": tree["b"][0] * factor}

    f = wrap(lambda p, tree, k: lax.cond(p, swap, keep, tree, k))
    tree = {"a": X, "b": (X + 10,)}
    for holds, (one, two) in ((True, (X + 10, X * 2)), (False, (X, X * 2 + 20))):
        got = f(holds, tree, np.float32(2))
        assert sorted(got) == ["first", "second"]
        assert got["first"][1] is None
        np.testing.assert_array_equal(got["first"][0], one)
        np.testing.assert_array_equal(got["second"], two)


@INSIDE_AND_OUTSIDE
def test_branches_read_what_is_around_them(wrap: Wrap) -> None:
    weights = np.array([1, 10, 100], np.float32)

    def function(x: Any, y: Any) -> Any:
        total = x + y
        return lax.cond(x[0, 0] > y[0, 0], lambda: total * weights, lambda: (y - x, weights)[0])

    f = wrap(function)
    np.testing.assert_array_equal(f(X + 1, X), (2 * X + 1) * weights)
    np.testing.assert_array_equal(f(X, X + 1), np.ones_like(X))


def test_a_single_operand_by_name() -> None:
    f = minijit.jit(lambda p, x: lax.cond(p, jnp.exp, jnp.negative, operand=x))
    np.testing.assert_array_equal(f(False, X), -X)
    # JAX's idiom for functions that take their values from around them.
    g = minijit.jit(lambda p, x: lax.cond(p, lambda _: x + 1, lambda _: x - 1, operand=None))
    np.testing.assert_array_equal(g(False, X), X - 1)
    with pytest.raises(TypeError, match="by position or as operand="):
        lax.cond(True, jnp.exp, jnp.exp, X, operand=X)


@INSIDE_AND_OUTSIDE
@pytest.mark.parametrize("index", [-7, -1, 0, 1, 2, 3, 100])
@pytest.mark.parametrize("kind", [int, np.int8, np.int64, np.uint8])
def test_an_index_is_clamped(wrap: Wrap, index: int, kind: Any) -> None:
    if kind is np.uint8 and index < 0:
        index = 256 + index
    f = wrap(lambda i, x: lax.switch(i, [jnp.negative, jnp.exp, jnp.square], x))
    want = [np.negative, np.exp, np.square][min(max(index, 0), 2)](X)
    np.testing.assert_allclose(f(kind(index), X), want, rtol=1e-6)


def test_one_branch_and_many_branches() -> None:
    f = minijit.jit(lambda i, x: lax.switch(i, [lambda v: v * 3], x))
    np.testing.assert_array_equal(f(5, X), X * 3)
    branches = [lambda v, k=k: v + k for k in range(40)]
    g = minijit.jit(lambda i, x: lax.switch(i, branches, x))
    for index in (0, 17, 39):
        np.testing.assert_array_equal(g(index, X), X + index)
    assert g.stats()["kernels"] == 1


@INSIDE_AND_OUTSIDE
def test_an_index_that_cannot_count_all_branches(wrap: Wrap) -> None:
    branches = [lambda v, k=k: v + k for k in range(130)]
    f = wrap(lambda i, x: lax.switch(i, branches, x))
    for index in (-128, 0, 127):
        np.testing.assert_array_equal(f(np.int8(index), X), X + max(index, 0))


@INSIDE_AND_OUTSIDE
def test_a_python_number_takes_the_type_of_the_other_branch(wrap: Wrap) -> None:
    f = wrap(lambda p, v: lax.cond(p, lambda a: a, lambda a: -1, v))
    for dtype in (np.float16, np.float32, np.int8):
        for holds, want in ((True, 3), (False, -1)):
            got = f(holds, dtype(3))
            assert (got, got.dtype) == (want, np.dtype(dtype))
    g = wrap(lambda i, v: lax.switch(i, [lambda a: 1, lambda a: a, lambda a: 2.5], v))
    for index, want in enumerate((1, 7, 2.5)):
        got = g(index, np.float32(7))
        assert (got, got.dtype) == (want, np.float32)
    narrow = wrap(lambda p, v: lax.cond(p, lambda a: 2.5, lambda a: a, v))
    with pytest.raises(TypeError, match=r"float64\[\] +int32\[\]"):
        narrow(True, np.int32(1))
    large = wrap(lambda p, v: lax.cond(p, lambda a: 300, lambda a: a, v))
    with pytest.raises(OverflowError, match="300 out of bounds for uint8"):
        large(True, np.uint8(1))


def test_only_python_numbers_stay_weak() -> None:
    f = minijit.jit(lambda p, x: x + lax.cond(p, lambda: 1.0, lambda: 2.0))
    assert f(True, X).dtype == np.float32


@pytest.mark.parametrize("disabled", [False, True])
def test_branches_in_branches(disabled: bool) -> None:
    def sign(x: Any) -> Any:
        return lax.cond(x > 0, lambda: 1, lambda: lax.cond(x < 0, lambda: -1, lambda: 0))

    f = minijit.jit(sign)
    for value in (3, -2, 0):
        if disabled:
            with minijit.disable_jit():
                assert f(np.int32(value)) == np.sign(value)
        else:
            assert f(np.int32(value)) == np.sign(value)


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], tuple[str, ...]]] = {
    "dtype": (
        lambda x: lax.cond(x.sum() > 0, lambda v: v, lambda v: v.astype(np.int32), x),
        TypeError,
        ("true_fun and false_fun", "result  float32[2,3]  int32[2,3]", "x.astype(...)"),
    ),
    "shape-in-a-tree": (
        lambda x: lax.cond(
            x.sum() > 0, lambda: {"a": x, "b": (1, x)}, lambda: {"a": x, "b": (1, x[0])}
        ),
        TypeError,
        ("result['b'][1]  float32[2,3]  float32[3]",),
    ),
    "structure": (
        lambda x: lax.cond(x.sum() > 0, lambda: (x, x), lambda: {"a": x}),
        TypeError,
        ("structures differ", "{'a': float32[2,3]}", "(float32[2,3], float32[2,3])"),
    ),
    "nothing": (
        lambda x: lax.cond(x.sum() > 0, lambda: x, lambda: None),
        TypeError,
        ("structures differ", "None"),
    ),
    "known-predicate": (
        lambda x: lax.cond(True, lambda: x, lambda: x.sum()),
        TypeError,
        ("float32[2,3]", "float32[]"),
    ),
    "third-branch": (
        lambda x: lax.switch(1, [lambda: x, lambda: x, lambda: x.sum()]),
        TypeError,
        ("branches[0] and branches[2]",),
    ),
    "array-predicate": (
        lambda x: lax.cond(x > 0, lambda: x, lambda: -x),
        TypeError,
        ("bool[2,3]", ".any()", "minijit.numpy.where"),
    ),
    "text-predicate": (lambda x: lax.cond("yes", lambda: x, lambda: x), TypeError, ("'yes'",)),
    "no-predicate": (lambda x: lax.cond(None, lambda: x, lambda: x), TypeError, ("None",)),
    "list-predicate": (lambda x: lax.cond([x], lambda: x, lambda: x), TypeError, ("not a bool",)),
    "bool-index": (
        lambda x: lax.switch(x.sum() > 0, [lambda: x, lambda: x]),
        TypeError,
        ("bool[]", "lax.cond"),
    ),
    "float-index": (lambda x: lax.switch(x[0, 0], [lambda: x]), TypeError, ("not an integer",)),
    "array-index": (
        lambda x: lax.switch(x[0].astype(np.int32), [lambda: x]),
        TypeError,
        ("not an integer scalar",),
    ),
    "no-function": (
        lambda x: lax.cond(x.sum() > 0, x, lambda v: v, x),
        TypeError,
        ("true_fun is a value of type", "called as true_fun(operands[0])"),
    ),
    "arguments": (
        lambda x: lax.cond(x.sum() > 0, lambda v: v, lambda v, w: v, x),
        TypeError,
        ("false_fun(operands[0]) cannot be called", "'w'"),
    ),
    "operands-twice": (
        lambda x: lax.cond(True, lambda v: v, lambda v: v, x, operand=x),
        TypeError,
        ("operand=",),
    ),
    "one-branch-alone": (lambda x: lax.switch(0, lambda v: v, x), TypeError, ("one function",)),
    "no-functions": (
        lambda x: lax.switch(0, [lambda v: v, x], x),
        TypeError,
        ("branches[1] is a value of type",),
    ),
    "no-branches": (lambda x: lax.switch(0, []), ValueError, ("no branches",)),
    "no-array": (
        lambda x: lax.cond(x.sum() > 0, lambda: "a", lambda: "b"),
        TypeError,
        ("'str'",),
    ),
}


@INSIDE_AND_OUTSIDE
@pytest.mark.parametrize("case", REFUSED)
def test_refusals_show_types_and_the_line(wrap: Wrap, case: str) -> None:
    function, kind, texts = REFUSED[case]
    with pytest.raises(kind) as error:
        wrap(function)(X)
    message = str(error.value)
    assert all(text in message for text in texts), message
    if wrap is minijit.jit:
        assert "test_control_cond.py:" in message


def test_what_a_branch_raises_is_raised() -> None:
    def wrong(v: Any) -> Any:
        raise RuntimeError("in the branch")

    with pytest.raises(RuntimeError, match="in the branch"):
        minijit.jit(lambda x: lax.cond(x.sum() > 0, lambda v: v, wrong, x))(X)
    # And the trace around it has ended.
    np.testing.assert_array_equal(minijit.jit(lambda x: x + 1)(X), X + 1)


def test_a_value_kept_from_a_branch_is_refused() -> None:
    kept = []

    def function(x: Any) -> Any:
        y = lax.cond(x.sum() > 0, lambda v: (kept.append(v), v)[1], lambda v: v, x)
        return y + kept[0]

    with pytest.raises(minijit.UnexpectedTracerError, match=r"test_control_cond\.py"):
        minijit.jit(function)(X)


def test_disable_jit_calls_the_one_function() -> None:
    called = []

    def side(name: str) -> Callable[[Any], Any]:
        return lambda v: (called.append((name, type(v))), v + 1)[1]

    with minijit.disable_jit():
        minijit.jit(lambda x: lax.cond(x[0, 0] > 0, side("yes"), side("no"), x))(X)
        minijit.jit(lambda x: lax.switch(9, [side("a"), side("b")], x))(X)
    assert called == [("no", np.ndarray), ("b", np.ndarray)]

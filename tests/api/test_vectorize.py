"""``vmap``: axes, structures, nesting, caches, kernels, and what is refused."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import jit, vmap

X = (np.arange(12, dtype=np.float32).reshape(3, 4) * 5 % 7).astype(np.float32)
Y = np.linspace(-1, 1, 4, dtype=np.float32)


def disabled(function: Any) -> Any:
    """Run as plain Python."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with minijit.disable_jit():
            return function(*args, **kwargs)

    return run


WAYS: dict[str, Callable[[Any], Any]] = {"out": lambda f: f, "jit": jit, "disabled": disabled}
IN_EVERY_WAY = pytest.mark.parametrize("wrap", WAYS.values(), ids=WAYS)


def assert_same(got: Any, want: Any, rtol: float = 0) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol)


def softmax(v: Any) -> Any:
    e = np.exp(v - v.max())
    return e / e.sum()


# Axes


@IN_EVERY_WAY
@pytest.mark.parametrize(
    ("first", "second"),
    [
        pair
        for pair in itertools.product((0, 1, -1, -2, None), (0, -1, None))
        if pair != (None, None)
    ],
)
def test_axes_of_arguments_and_results(wrap: Any, first: int | None, second: int | None) -> None:
    x = np.arange(9, dtype=np.int32).reshape(3, 3)
    y = np.array([10, 20, 30], np.int32)

    def one(a: Any, b: Any) -> tuple[Any, Any]:
        return a * 2 + b, (a - b).sum()

    rows = [
        one(x if first is None else x.take(n, first), y if second is None else y[n])
        for n in range(3)
    ]
    for out in ((0, 0), (1, -1), -1 if second is not None or first is not None else 0):
        places = out if isinstance(out, tuple) else (out, out)
        got = wrap(vmap(one, in_axes=(first, second), out_axes=out))(x, y)
        for number, place in enumerate(places):
            assert_same(got[number], np.stack([row[number] for row in rows], place))


@IN_EVERY_WAY
def test_structures_and_prefixes(wrap: Any) -> None:
    params = {"w": np.stack([X, X + 1], 2), "b": (Y, Y[:2])}

    def one(p: Any, x: Any, *, scale: Any) -> Any:
        return {"y": x @ p["w"].T * scale, "sum": [p["b"][0].sum() * 2, p["b"][1] + x[0]]}

    axes = ({"w": 2, "b": (None, 0)}, None)
    f = wrap(vmap(one, in_axes=axes, out_axes={"y": 1, "sum": [None, 0]}))
    got = f(params, Y, scale=np.array([1, 10], np.float32))
    rows = [one({"w": X + n, "b": (Y, Y[n])}, Y, scale=np.float32(10**n)) for n in range(2)]
    assert list(got) == ["y", "sum"]
    assert_same(got["y"], np.stack([row["y"] for row in rows], 1), 1e-6)
    assert_same(got["sum"][0], rows[0]["sum"][0])
    assert_same(got["sum"][1], np.stack([row["sum"][1] for row in rows]))


@IN_EVERY_WAY
def test_keywords_are_mapped_over_their_first_axis(wrap: Any) -> None:
    f = wrap(vmap(lambda x, y: x - y.sum(), in_axes=(1,)))
    assert_same(f(X, y=X.T), (X - X.sum(0)).T)
    g = wrap(vmap(lambda x, y: x - y.sum(), in_axes=(1, 1)))
    assert_same(g(X, X), (X - X.sum(0)).T)


@IN_EVERY_WAY
def test_variadic_arguments(wrap: Any) -> None:
    f = wrap(vmap(lambda *xs, **more: sum(xs) + more["z"], in_axes=(0, None, 1)))
    assert_same(f(X, Y, X.T, z=X), X + Y + X + X)


@IN_EVERY_WAY
def test_the_extent_can_be_given(wrap: Any) -> None:
    assert_same(wrap(vmap(lambda: np.float32(2), axis_size=3))(), np.full(3, 2, np.float32))
    f = wrap(vmap(lambda x: x * 2, in_axes=None, axis_size=2))
    assert_same(f(Y), np.stack([Y * 2, Y * 2]))


@IN_EVERY_WAY
def test_an_empty_batch(wrap: Any) -> None:
    got, same = wrap(vmap(lambda x: (x.sum(), 3.5), out_axes=(0, None)))(X[:0])
    assert_same(got, np.zeros(0, np.float32))
    assert same == 3.5


@IN_EVERY_WAY
def test_results_that_are_the_same_for_all(wrap: Any) -> None:
    got = wrap(vmap(lambda x: (2.5, x, Y)))(X)
    for value, want in zip(got, (np.full(3, 2.5), X, np.stack([Y] * 3)), strict=True):
        assert_same(value, want)


def test_equations_name_the_lines_of_the_function() -> None:
    jaxpr = minijit.make_jaxpr(vmap(vmap(softmax), in_axes=1))(np.stack([X, X]))
    assert {eqn.source.function for eqn in jaxpr.eqns if eqn.primitive.name != "transpose"} == {
        "softmax"
    }


# Nesting


@IN_EVERY_WAY
def test_nested(wrap: Any) -> None:
    pairs = wrap(vmap(vmap(lambda a, b: a * 2 - b, in_axes=(None, 0)), in_axes=(0, None)))
    assert_same(pairs(Y, Y[:3]), Y[:, None] * 2 - Y[:3])
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    f = wrap(vmap(vmap(softmax, in_axes=1, out_axes=1), in_axes=2, out_axes=2))
    want = np.exp(cube - cube.max(0)) / np.exp(cube - cube.max(0)).sum(0)
    assert_same(f(cube), want, 1e-6)


@IN_EVERY_WAY
def test_jit_inside_and_closures(wrap: Any) -> None:
    inner = jit(lambda a, b: a * b + Y)

    def outer(x: Any, factor: Any) -> Any:
        twice = factor * 2
        return vmap(lambda row: inner(row, twice) - Y[0])(x)

    assert_same(wrap(outer)(X, np.float32(3)), X * 6 + Y - Y[0])


@IN_EVERY_WAY
def test_methods_partial_functions_and_decorators(wrap: Any) -> None:
    class Model:
        scale = np.float32(3)

        def one(self, x: Any) -> Any:
            return x * self.scale

    assert_same(wrap(vmap(Model().one))(X), X * 3)
    assert_same(wrap(vmap(functools.partial(jnp.sum, axis=0), in_axes=1))(X), X.sum(0))

    @functools.partial(vmap, in_axes=1, out_axes=1)
    def shifted(x: Any) -> Any:
        """Shift."""
        return x + 1

    assert_same(wrap(shifted)(X), X + 1)
    assert (shifted.__name__, shifted.__doc__) == ("shifted", "Shift.")


def test_arguments_that_all_share_reach_the_function_as_they_are() -> None:
    def power(x: Any, n: int, kind: str) -> Any:
        assert kind == "odd"
        for _ in range(n):
            x = x * x
        return x

    f = jit(lambda x: vmap(power, in_axes=(0, None, None))(x, 2, "odd"))
    assert_same(f(X), X**4)


# Caches


def test_a_second_call_traces_and_compiles_nothing(counts: Counter[str]) -> None:
    traced = []

    def one(x: Any) -> Any:
        traced.append(x.shape)
        return x * 2 + 1

    f = vmap(one)
    assert isinstance(f, minijit.Jitted)
    f(X)
    before = dict(counts)
    assert_same(f(X + 1), X * 2 + 3)
    assert_same(vmap(one)(X), X * 2 + 1)
    assert_same(vmap(one, in_axes=(0,))(X), X * 2 + 1)
    assert traced == [(4,), (4,)]  # in_axes=0 and in_axes=(0,) are two functions
    f(X)
    assert counts["compile"] == before["compile"]
    vmap(one, in_axes=1)(X)
    assert traced[2:] == [(3,)]


def test_a_change_of_what_the_function_reads_is_seen() -> None:
    factor = np.float32(2)

    def one(x: Any) -> Any:
        return x * factor

    f = vmap(one)
    assert_same(f(X), X * 2)
    factor = np.float32(3)
    assert_same(f(X), X * 3)


def test_functions_of_one_code_are_told_apart(recwarn: pytest.WarningsRecorder) -> None:
    with minijit.config.override(recompile_warning=8):
        for n in range(12):
            f = vmap(eval(f"lambda x: x + {n}"))
            assert_same(f(X), X + np.float32(n))
    assert not recwarn.list


def test_what_is_static_of_a_jitted_function_stays_so() -> None:
    @functools.partial(minijit.jit, static_argnums=1)
    def power(x: Any, n: int) -> Any:
        return x * power(x, n - 1) if n > 1 else x

    x = np.arange(6.0).reshape(2, 3)
    mapped = minijit.vmap(power, in_axes=(0, None))
    for n in (3, 2, 3):
        np.testing.assert_array_equal(mapped(x, n), x**n)
    np.testing.assert_array_equal(minijit.jit(lambda x: mapped(x, 2))(x), x**2)
    assert mapped._cache_size() == 2

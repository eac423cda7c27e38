"""``map`` and ``associative_scan``: values, leftovers, axes, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from tests.ops.test_control_scan import IN_EVERY_WAY, Wrap, equations

X = np.random.default_rng(5).integers(-3, 4, (7, 3)).astype(np.float32)


@IN_EVERY_WAY
@pytest.mark.parametrize("batch_size", [None, 1, 2, 3, 7, 8])
def test_map_stacks_what_each_element_gives(wrap: Wrap, batch_size: int | None) -> None:
    def of(element: Any) -> Any:
        return {"sum": element["v"].sum(), "both": (element["v"] * element["k"], element["k"] + 1)}

    k = np.arange(7, dtype=np.int32)
    got = wrap(lambda x, k: lax.map(of, {"v": x, "k": k}, batch_size=batch_size))(X, k)
    np.testing.assert_array_equal(got["sum"], X.sum(1))
    np.testing.assert_array_equal(got["both"][0], X * k[:, None])
    np.testing.assert_array_equal(got["both"][1], k + 1)
    assert got["both"][1].dtype == np.int32


@IN_EVERY_WAY
def test_map_of_nothing(wrap: Wrap) -> None:
    got = wrap(lambda x: lax.map(lambda v: (v.sum(), v), x))(X[:0])
    assert [part.shape for part in got] == [(0,), (0, 3)]


@IN_EVERY_WAY
def test_map_reads_what_is_around_it(wrap: Wrap) -> None:
    f = wrap(lambda x, w: lax.map(lambda v: v @ (w + 1), x))
    np.testing.assert_array_equal(f(X, np.ones((3, 2), np.float32)), X @ np.full((3, 2), 2.0))


def test_map_traces_once_for_each_element_of_a_batch() -> None:
    seen: list[Any] = []
    f = minijit.jit(
        lambda x, size: lax.map(seen.append, x, batch_size=size), static_argnames="size"
    )
    f.lower(X, size=None)
    assert len(seen) == 1
    f.lower(X, size=3)
    assert len(seen) == 1 + 3 + 1  # and once for the one that is left over


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [
        (lambda x: lax.map(jnp.exp, (x, x[:2])), ValueError, r"xs\[1\]  float32\[2,3\]"),
        (lambda x: lax.map(jnp.exp, x, batch_size=0), ValueError, "batch_size=0"),
        (lambda x: lax.map(jnp.exp, x, batch_size=2.0), TypeError, r"batch_size=2\.0"),
        (lambda x: lax.map(x, x), TypeError, r"f is a value of type .* called as f\(x\)"),
        (lambda x: lax.map(jnp.exp, None), ValueError, "no arrays in xs"),
        (lambda x: lax.map(jnp.exp, x[0, 0]), ValueError, "xs is a scalar"),
        (lambda x: lax.map(lambda v: "text", x), TypeError, "'str'"),
    ],
)
def test_map_refuses(function: Callable[[Any], Any], kind: type[Exception], text: str) -> None:
    for wrapped in (function, minijit.jit(function)):
        with pytest.raises(kind, match=text):
            wrapped(X)


def matrices(a: Any, b: Any) -> Any:
    """Product of two by two matrices, element by element: associative, not commutative."""
    return (
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
    )


@IN_EVERY_WAY
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_prefixes_of_any_length(wrap: Wrap, length: int, reverse: bool) -> None:
    rng = np.random.default_rng(length)
    elements = tuple(rng.integers(-1, 2, length).astype(np.int64) for _ in range(4))
    got = wrap(lambda *e: lax.associative_scan(matrices, e, reverse=reverse))(*elements)
    # From the end, the later element is the first argument, as in jax.lax.
    order = list(range(length))[:: -1 if reverse else 1]
    total = None
    for step in order:
        own = tuple(e[step] for e in elements)
        total = own if total is None else matrices(total, own)
        assert tuple(int(g[step]) for g in got) == tuple(map(int, total)), step


def summed(a: Any, b: Any) -> Any:
    return {"a": a["a"] + b["a"]}


@IN_EVERY_WAY
@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_prefixes_along_any_axis(wrap: Wrap, axis: int) -> None:
    f = wrap(lambda x: lax.associative_scan(summed, {"a": x}, axis=axis)["a"])
    np.testing.assert_array_equal(f(X), np.cumsum(X, axis))
    g = wrap(lambda x: lax.associative_scan(jnp.maximum, x, reverse=True, axis=axis))
    want = np.flip(np.maximum.accumulate(np.flip(X, axis), axis), axis)
    np.testing.assert_array_equal(g(X), want)


@IN_EVERY_WAY
def test_prefixes_of_nothing(wrap: Wrap) -> None:
    assert wrap(lambda x: lax.associative_scan(jnp.add, x))(X[:0]).shape == (0, 3)


@pytest.mark.parametrize("length", [10, 1000, 100_000])
def test_the_combination_is_called_about_twice_the_logarithm(length: int) -> None:
    calls = []

    def add(a: Any, b: Any) -> Any:
        calls.append(a.shape)
        return a + b

    x = np.ones(length, np.float32)
    jaxpr = minijit.make_jaxpr(lambda v: lax.associative_scan(add, v))(x)
    assert len(calls) <= 2 * math.ceil(math.log2(length))
    assert equations(jaxpr) <= 20 * math.ceil(math.log2(length))


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [
        (
            lambda x: lax.associative_scan(lambda a, b: (a, b), x),
            TypeError,
            "structures differ",
        ),
        (
            lambda x: lax.associative_scan(lambda a, b: a["k"] + b["k"], {"k": x}),
            TypeError,
            "structures differ",
        ),
        (
            lambda x: lax.associative_scan(lambda a, b: {"k": a["k"] > b["k"]}, {"k": x}),
            TypeError,
            r"elems\['k'\]  float32\[3,3\]  bool\[3,3\]",
        ),
        (lambda x: lax.associative_scan(jnp.add, (x, x[:2])), ValueError, "extents differ"),
        (lambda x: lax.associative_scan(jnp.add, ()), ValueError, "no arrays in elems"),
        (lambda x: lax.associative_scan(lambda a: a, x), TypeError, r"fn\(a, b\) cannot be called"),
        (lambda x: lax.associative_scan(jnp.add, x, axis=2), ValueError, "axis 2"),
    ],
)
def test_prefixes_refuse(function: Callable[[Any], Any], kind: type[Exception], text: str) -> None:
    for wrapped in (function, minijit.jit(function)):
        with pytest.raises(kind, match=text):
            wrapped(X)

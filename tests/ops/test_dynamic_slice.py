"""Slices that start at traced positions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import minijit
from minijit import lax
from tests.conftest import Device

X = np.random.default_rng(3).normal(size=(6, 7, 4)).astype(np.float32)
SIZES = [(2, 3, 4), (6, 7, 1), (1, 1, 1), (2, 7, 2), (6, 7, 4), (6, 3, 4), (0, 2, 2)]
STARTS = [(0, 0, 0), (3, 2, 1), (9, 9, 9), (-2, -3, -1), (-20, 0, 2)]


def box(sizes: tuple[int, ...], starts: tuple[int, ...]) -> tuple[slice, ...]:
    """Where a slice lies: starts below zero count from the end, and it is moved inside."""
    rows = zip(X.shape, sizes, starts, strict=True)
    inside = [(min(max(s + n * (s < 0), 0), n - size), size) for n, size, s in rows]
    return tuple(slice(first, first + size) for first, size in inside)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_slices_and_their_replacement(sizes: tuple[int, ...], device: Device) -> None:
    update = -X[tuple(slice(0, size) for size in sizes)]
    f = minijit.jit(
        lambda x, u, s: (lax.dynamic_slice(x, s, sizes), lax.dynamic_update_slice(x, u, s))
    )
    for starts in STARTS:
        args = (device.put(X), device.put(update), tuple(map(np.int32, starts)))
        taken, changed = device.get(f(*args))
        want, own = X.copy(), box(sizes, starts)
        want[own] = update
        np.testing.assert_array_equal(taken, X[own])
        np.testing.assert_array_equal(changed, want)
    assert f._cache_size() == 1


def test_a_vector_of_starts(device: Device) -> None:
    f = minijit.jit(lambda x, s: lax.dynamic_slice(x, s, (2, 2, 2)))
    got = device.get(f(device.put(X), device.put(np.array([1, -3, 7]))))
    np.testing.assert_array_equal(got, X[box((2, 2, 2), (1, -3, 7))])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_along_one_axis(axis: int, device: Device) -> None:
    def cut(x: Any, i: Any) -> Any:
        rows = lax.dynamic_slice_in_dim(x, i, 2, axis)
        return (
            rows,
            lax.dynamic_index_in_dim(x, i, axis),
            lax.dynamic_index_in_dim(x, i, axis, keepdims=False),
            lax.dynamic_update_slice_in_dim(x, rows * 2, i, axis),
            lax.dynamic_update_index_in_dim(x, rows.max(axis), i, axis),
        )

    got = device.get(minijit.jit(cut)(device.put(X), 1))
    doubled, largest = X.copy(), X.copy()
    pair: Any = [slice(None)] * 3
    pair[axis] = slice(1, 3)
    doubled[tuple(pair)] *= 2
    single: Any = [slice(None)] * 3
    single[axis] = 1
    largest[tuple(single)] = X.take([1, 2], axis).max(axis)
    wanted = (X.take([1, 2], axis), X.take([1], axis), X.take(1, axis), doubled, largest)
    for result, want in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(result, want)


def test_one_kernel() -> None:
    f = minijit.jit(lambda x, i: np.exp(lax.dynamic_slice_in_dim(x, i, 3)).sum(axis=1))
    g = minijit.jit(lambda x, u, i: lax.dynamic_update_slice_in_dim(x * 2, u, i, 0) + 1)
    assert len(f.lower(X, 1).compile().kernels()) == 1
    assert len(g.lower(X, X[:2], 1).compile().kernels()) == 1


def test_a_cache_that_a_loop_fills(device: Device) -> None:
    """Keys and values are written one step at a time, as where text is generated."""

    def fill(rows: Any) -> Any:
        def step(cache: Any, n: Any) -> Any:
            cache = lax.dynamic_update_slice_in_dim(cache, rows[n][None] * 2, n, 0)
            return cache, cache.sum()

        return lax.scan(step, rows * 0, np.arange(6))

    filled, sums = device.get(minijit.jit(fill)(device.put(X[:, 0])))
    np.testing.assert_allclose(filled, X[:, 0] * 2)
    np.testing.assert_allclose(sums, (X[:, 0] * 2).sum(1).cumsum(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("starts", "sizes", "words"),
    [
        ((0, 0), (1, 1, 1), "a start and a size for each axis"),
        ((0, 0, 0), (1, 1), "a start and a size for each axis"),
        ((0, 0, 0), (7, 1, 1), "no slice of shape"),
        ((0, 0, 0), (-1, 1, 1), "no slice of shape"),
        ((0.5, 0, 0), (1, 1, 1), "a start is one integer"),
        (([0, 1], 0, 0), (1, 1, 1), "a start is one integer"),
    ],
)
def test_wrong_slices_are_refused(starts: Any, sizes: Any, words: str) -> None:
    starts = tuple(np.asarray(start) for start in starts)
    with pytest.raises(ValueError, match=words) as caught:
        minijit.jit(lambda x, s: lax.dynamic_slice(x, s, sizes))(X, starts)
    assert "test_dynamic_slice.py:" in str(caught.value)


def test_starts_are_one_for_each_axis() -> None:
    with pytest.raises(ValueError, match=r"a vector or a tuple.*test_dynamic_slice.py:"):
        minijit.jit(lambda x, s: lax.dynamic_slice(x, s, (1, 1, 1)))(X, np.int64(0))


def test_gradients(device: Device) -> None:
    def loss(x: Any, u: Any, s: Any) -> Any:
        return (lax.dynamic_update_slice(x, u, s) ** 2).sum() + lax.dynamic_slice(
            x, s, (2, 2, 2)
        ).sum()

    starts, own = (np.int32(1), np.int32(5), np.int32(9)), box((2, 2, 2), (1, 5, 9))
    update = X[:2, :2, :2]
    of_x, of_update = minijit.grad(loss, argnums=(0, 1))(device.put(X), device.put(update), starts)
    want = 2 * X
    want[own] = 1
    np.testing.assert_allclose(device.get(of_x), want, rtol=1e-6)
    np.testing.assert_allclose(device.get(of_update), 2 * update, rtol=1e-6)


def test_each_element_of_a_batch_starts_elsewhere(device: Device) -> None:
    starts = np.array([0, 3, 5, -2, 2, 1])
    f = minijit.vmap(lambda row, i: lax.dynamic_slice_in_dim(row, i, 2))
    got = device.get(f(device.put(X), device.put(starts)))
    want = [row[box((6, 2, 4), (0, int(s), 0))[1]] for row, s in zip(X, starts, strict=True)]
    np.testing.assert_array_equal(got, np.stack(want))
    for sizes, first in itertools.product((1, 7), (0, 6)):
        g = minijit.vmap(lambda row, n=sizes, i=first: lax.dynamic_slice_in_dim(row, i, n))
        np.testing.assert_array_equal(g(X), X[:, box((6, sizes, 4), (0, first, 0))[1]])

"""``vmap`` and derivatives in either order: of each example, and through batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
from minijit import grad, jit, jvp, lax, vmap
from tests.conftest import Device

X = np.random.default_rng(7).random((4, 5)).astype(np.float32) + np.float32(0.1)
W = np.random.default_rng(8).random((5, 3)).astype(np.float32)


def loss(w: Any, x: Any) -> Any:
    return (np.tanh(x @ w) ** 2).sum()


def grown(x: Any) -> Any:
    """A loop that ends after another number of steps for each number."""
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] * 1.75, s[1] * s[0]), (x, x))[1]


def horner(x: Any) -> Any:
    return lax.scan(lambda c, k: (c * x + k, None), x, np.arange(3, dtype=np.float32))[0]


def bent(x: Any) -> Any:
    return lax.cond(x > 0.5, lambda v: v * v * v, lambda v: -3 * v, x)


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "formula": lambda x: np.sin(x) * x**2,
    "scan": horner,
    "cond": bent,
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, np.float32(1)),
    "twice": grad(lambda x: np.exp(x) * x**3),
}
ROWS: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda v: (np.exp(v) / np.exp(v).sum() * np.arange(5, dtype=np.float32)).sum(),
    "max": lambda v: v.max() * 3 + v.sum(),
    "cumsum": lambda v: (np.cumsum(v) * v).sum(),
    "pieces": lambda v: (np.concatenate([v, v * 2])[1:-1] ** 2).sum() + np.pad(v, 2)[1:].sum(),
    "product": lambda v: ((v.reshape(5, 1) @ v.reshape(1, 5)) ** 2).sum(),
}


def close(got: Any, want: Any) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, 1e-5, 1e-6)


@pytest.mark.parametrize("name", [*NUMBERS, *ROWS])
def test_gradients_of_each_element(name: str) -> None:
    function, batch = (NUMBERS[name], X[0]) if name in NUMBERS else (ROWS[name], X)
    derivative = grad(function)
    close(vmap(derivative)(batch), np.stack([np.asarray(derivative(x)) for x in batch]))
    axis = batch.ndim - 1
    moved = vmap(derivative, in_axes=axis, out_axes=axis)(batch.T)
    close(moved, np.asarray(vmap(derivative)(batch)).T)


@pytest.mark.parametrize("name", [*NUMBERS, *ROWS])
def test_gradients_through_a_batch(name: str) -> None:
    function, batch = (NUMBERS[name], X[0]) if name in NUMBERS else (ROWS[name], X)
    whole = grad(lambda b: vmap(function)(b).sum())
    close(jit(whole)(batch), vmap(grad(function))(batch))


def test_per_example_gradients_fuse(device: Device) -> None:
    each = vmap(grad(loss), in_axes=(None, 0))
    got = device.get(each(device.put(W), device.put(X)))
    close(got, np.stack([np.asarray(grad(loss)(W, x)) for x in X]))
    rows = vmap(grad(ROWS["softmax"]))
    close(
        device.get(rows(device.put(X))), np.stack([np.asarray(grad(ROWS["softmax"])(x)) for x in X])
    )
    assert len(rows.lower(device.put(X)).compile().kernels()) == 1


def test_tangents_of_loops_that_end_by_themselves(device: Device) -> None:
    one = np.float32(1)
    want = [jvp(grown, (x,), (one,)) for x in X[0]]
    values, tangents = np.array(want, np.float32).T
    starts = device.put(X[0])
    got = jit(lambda x: jvp(vmap(grown), (x,), (minijit.numpy.ones_like(x),)))(starts)
    close(device.get(got[0]), values)
    close(device.get(got[1]), tangents)
    f = jit(vmap(lambda x: jvp(grown, (x,), (one,))[1]))
    close(device.get(f(starts)), tangents)
    assert f.stats()["kernels"] == 1

"""Programs whose loops the host drives, and how they are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.graph.tree import flatten
from tests.conftest import Device

RANDOM = np.random.default_rng(11)


def f32(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def arrays_of(tree: Any) -> list[Any]:
    return [leaf for leaf in flatten(tree)[0] if hasattr(leaf, "shape") and leaf.shape is not None]


def check(
    device: Device,
    function: Callable[..., Any],
    *args: Any,
    loops: int = 1,
    branches: int = 0,
    tolerance: float = 1e-5,
) -> Any:
    """Run on the device, compare with plain Python on NumPy, and see that memory is respected.

    Results do not have to be of the very bits: BLAS sums in another order.
    """
    with minijit.disable_jit(), np.errstate(all="ignore"):
        expected = function(*args)
    jitted = minijit.jit(lambda *values: function(*values))  # with a cache of its own
    given = [device.put(arg) for arg in args]
    kept = [np.array(device.get(arg)) for arg in given]
    first = jitted(*given)
    copies = [np.array(leaf) for leaf in flatten(device.get(first))[0]]
    second = jitted(*given)
    compare(device.get(first), expected, tolerance)
    for leaf, copy in zip(flatten(device.get(first))[0], copies, strict=True):
        np.testing.assert_array_equal(leaf, copy)  # the second call left it alone
    for again, copy in zip(flatten(device.get(second))[0], copies, strict=True):
        np.testing.assert_array_equal(again, copy)
    for arg, before in zip(given, kept, strict=True):
        np.testing.assert_array_equal(device.get(arg), before)
    results = [*arrays_of(first), *arrays_of(second)]
    if device.name != "cuda":
        for place, result in enumerate(results):
            assert result.flags.c_contiguous
            for other in (*results[:place], *arrays_of(given)):
                assert not np.shares_memory(result, other)
    stats = jitted.stats()
    assert (stats["host_loops"], stats["host_branches"]) == (loops, branches)
    return device.get(first)


def compare(got: Any, expected: Any, tolerance: float = 1e-5) -> None:
    got_leaves, got_tree = flatten(got)
    leaves, tree = flatten(expected)
    assert got_tree == tree
    for leaf, wanted in zip(got_leaves, leaves, strict=True):
        assert leaf.shape == np.shape(wanted)
        if hasattr(wanted, "dtype"):
            assert leaf.dtype == wanted.dtype
        np.testing.assert_allclose(leaf, wanted, rtol=tolerance, atol=tolerance)


def multiplied(a: Any, b: Any) -> Any:
    """``a @ b`` of which neighbours are read: no kernel holds such a product."""
    return jnp.roll(jnp.roll(a @ b, 1, -1), -1, -1)


def rnn(h: Any, w: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(multiplied(h, w) + x)
        return h, h.sum()

    return lax.scan(step, h, xs)


def rolled(x: Any, steps: int = 5) -> Any:
    """One pass of the heat equation a step, on a ring."""

    def step(_: Any, u: Any) -> Any:
        return u + 0.1 * (jnp.roll(u, 1, 0) - 2 * u + jnp.roll(u, -1, 0))

    return lax.fori_loop(0, steps, step, x)

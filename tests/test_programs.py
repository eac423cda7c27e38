"""Whole programs through jit, random, well-known and large: their values and launches."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from tests.conftest import Device, on_each_device
from tests.transforms.random_programs import assert_equal, random_program

RNG = np.random.default_rng(3)
X = RNG.standard_normal((37, 65)).astype(np.float32)
V = RNG.uniform(0.5, 2, 65).astype(np.float32)


SEEDS = range(7000, 7036, 6)


@on_each_device("seed", SEEDS, emulated=SEEDS[::3])
def test_random_programs(device: Device, seed: int) -> None:
    for number in range(seed, seed + 6):
        function, args = random_program(number, 6 + number % 14)
        with np.errstate(all="ignore"):
            want = function(*args)
        f = minijit.jit(function)
        assert_equal(device.get(f(*map(device.put, args))), want)
        assert_equal(device.get(f(*map(device.put, args))), want)


@on_each_device("seed", [7100, 7101, 7102], emulated=[7102])
def test_random_programs_on_other_strides(device: Device, seed: int) -> None:
    function, args = random_program(seed, 10)
    f = minijit.jit(function)
    with np.errstate(all="ignore"):
        want = function(*args)
    for view in (
        np.asfortranarray,
        lambda a: np.flip(np.flip(a).copy()),
        lambda a: np.repeat(a, 2, -1)[..., ::2],
    ):
        assert_equal(device.get(f(*(device.put(view(a)) for a in args))), want)
    assert f._cache_size() == 1


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layernorm(x: Any, g: Any, b: Any) -> Any:
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + np.float32(1e-5)) * g + b


def adam(p: Any, g: Any, m: Any, v: Any) -> Any:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (np.sqrt(v) + 1e-8), m, v


def standardized(x: Any) -> Any:
    d = x - x.mean()
    z = d / np.sqrt((d * d).mean())
    return z, (z * z * z).mean(), np.abs(z).max(), (z > 1).sum()


def several_readers(x: Any) -> Any:
    e = np.exp(-x * x)
    return e, e.sum(1), e.T + 1, e[2], e[::-1].max(0), (e * 2).sum()


def rows_and_columns(x: Any) -> Any:
    s = x[:37, :37]
    return s - s.sum(0) + s.sum(1)[:, None], s.max(0) - s.min(1), s - s.mean(0, keepdims=True)


def blurred(x: Any) -> Any:
    padded = np.pad(x, 1)
    return (padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]) * 0.25


def dense(x: Any, w: Any) -> Any:
    return (np.tanh(x @ w.T) ** 2).mean(-1)


KNOWN: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "softmax": (softmax, (X,), 1),
    "softmax-columns": (lambda x: softmax(x.T), (X,), 1),
    "layernorm": (layernorm, (X, V, V), 1),
    "adam": (adam, (X, X, X, X * X), 1),
    "standardized": (standardized, (X,), 1),
    "several-readers": (several_readers, (X,), 5),
    "rows-and-columns": (rows_and_columns, (X,), 4),
    "blur": (blurred, (X,), 1),
    "dense": (dense, (X, X), 1),
    "column-means": (lambda x: (x.mean(0), x.max(0)), (X,), 1),
    "full": (lambda x: (x * x).sum(), (X,), 1),
    "long": (lambda x: x - x.mean(), (np.tile(X, (40, 1)).ravel(),), 3),
}


@pytest.mark.parametrize("name", KNOWN)
def test_well_known_programs(device: Device, counts: Counter[str], name: str) -> None:
    """Plain NumPy code, its values as NumPy computes them, and no more launches than said."""
    function, args, launches = KNOWN[name]
    f = minijit.jit(function)
    got = device.get(f(*map(device.put, args)))
    want = function(*args)
    got, want = (r if isinstance(r, tuple) else (r,) for r in (got, want))
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (np.shape(b), np.asarray(b).dtype)
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
    assert counts["launch"] <= launches


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), None], ids=str)
def test_softmax_over_any_axis(device: Device, axis: Any) -> None:
    cube = RNG.standard_normal((5, 6, 7)).astype(np.float32) * 50

    def function(x: Any) -> Any:
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)

    got = device.get(minijit.jit(function)(device.put(cube)))
    np.testing.assert_allclose(got, function(cube), rtol=1e-5, atol=1e-7)


@on_each_device("steps", [1000], emulated=[200])
def test_a_long_chain(device: Device, counts: Counter[str], steps: int) -> None:
    def chain(x: Any) -> Any:
        for k in range(steps // 2):
            x = x * np.float32(0.999) + np.float32((k % 3) * 0.001)
        return x

    np.testing.assert_array_equal(device.get(minijit.jit(chain)(device.put(V))), chain(V))
    assert counts["launch"] == 1


@on_each_device("number", [100], emulated=[50])
def test_many_arguments(device: Device, counts: Counter[str], number: int) -> None:
    xs = [np.full(50, k, np.float32) for k in range(number)]

    def weighted(*xs: Any) -> Any:
        return sum(x * (k + 1) for k, x in enumerate(xs))

    np.testing.assert_array_equal(
        device.get(minijit.jit(weighted)(*map(device.put, xs))), weighted(*xs)
    )
    # Each kernel reads what the one before has added up, and writes a sum.
    assert counts["launch"] == math.ceil((number - 1) / (device.most_buffers - 2))


@on_each_device("times", [200], emulated=[50])
def test_a_value_read_many_times(device: Device, counts: Counter[str], times: int) -> None:
    def wide(x: Any) -> Any:
        y = x * 2
        return sum(y * k for k in range(times)) + y.max()

    x = np.arange(33, dtype=np.float32)
    np.testing.assert_array_equal(device.get(minijit.jit(wide)(device.put(x))), wide(x))
    assert counts["launch"] == 1


@on_each_device("number", [60], emulated=[50])
def test_many_results(device: Device, counts: Counter[str], number: int) -> None:
    def many(x: Any) -> list[Any]:
        return [x * k + x.sum() for k in range(number)]

    x = np.arange(40, dtype=np.float32)
    assert_equal(device.get(minijit.jit(many)(device.put(x))), many(x))
    assert counts["launch"] == math.ceil(number / (device.most_buffers - 1))


@on_each_device("layers", [250], emulated=[12])
def test_many_leaves(device: Device, layers: int) -> None:
    tree = {
        f"layer{k}": (device.put(np.full(3, k, np.float32)), {"b": np.float32(k)})
        for k in range(layers)
    }

    def scaled(tree: Any) -> Any:
        return {name: (w + leaf["b"], {"twice": w * 2}) for name, (w, leaf) in tree.items()}

    got = device.get(minijit.jit(scaled)(tree))
    assert list(got) == list(tree)
    for k in (0, 9, 10, layers - 1):
        np.testing.assert_array_equal(got[f"layer{k}"][0], np.full(3, 2 * k))
        np.testing.assert_array_equal(got[f"layer{k}"][1]["twice"], np.full(3, 2 * k))


def test_neighbours_in_memory_are_never_read(device: Device) -> None:
    """What lies before and after an operand of a join or pad must not be touched, only selected."""

    def joined(x: Any, y: Any) -> Any:
        both = jnp.concatenate([x, y, x[::-1]])
        return both * 2, jnp.pad(y, (3, 2)).sum()

    padded = np.full(400, np.nan)
    x, y = padded[100:110], padded[200:230]
    x[:], y[:] = np.arange(10), np.arange(30)
    lowered = minijit.jit(joined).lower(device.put(x), device.put(y))
    text = lowered.compile().kernels()[0].ir
    loads = [line for line in text.splitlines() if "= load " in line]
    assert loads
    assert all(" if " in line for line in loads)
    got, total = device.get(minijit.jit(joined)(device.put(x), device.put(y)))
    np.testing.assert_array_equal(got, np.concatenate([x, y, x[::-1]]) * 2)
    assert total == y.sum()


def test_a_split_sum_counts_the_cells_of_its_last_block(device: Device) -> None:
    """What is summed is the same in every block, but the last block has fewer cells."""
    count = 100_003

    def total(scale: Any, row: Any) -> Any:
        return (jnp.zeros(count) + scale).sum(), (jnp.zeros((3, count)) + row[:, None]).sum(1)

    row = np.array([1, 2, 4], np.float32)
    whole, rows = device.get(minijit.jit(total)(device.put(np.float32(0.5)), device.put(row)))
    assert whole == 0.5 * count
    np.testing.assert_array_equal(rows, row * count)

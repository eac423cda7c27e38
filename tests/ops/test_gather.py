"""Elements at traced positions: values, fusion, bounds, derivatives, loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.debug import kernel_report
from tests.conftest import Device

RNG = np.random.default_rng(7)
X = RNG.normal(size=(37, 29)).astype(np.float32)
CUBE = RNG.normal(size=(5, 6, 7)).astype(np.float32)
ROWS = RNG.integers(-37, 37, 301)
COLUMNS = RNG.integers(0, 29, 301).astype(np.int32)
FEW = RNG.integers(0, 5, (3, 2))

Function = Callable[..., Any]
CASES: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "rows": (lambda x, i: x[i], (X, ROWS)),
    "columns": (lambda x, j: x[:, j], (X, COLUMNS)),
    "both": (lambda x, i, j: x[i, j], (X, ROWS, COLUMNS)),
    "matrix-of-positions": (lambda x, i: x[i], (CUBE, FEW)),
    "in-the-middle": (lambda x, i: x[:, i], (CUBE, FEW)),
    "apart": (lambda x, i: x[i, :, i], (CUBE, FEW)),
    "apart-with-an-int": (lambda x, i: x[2, :, i], (CUBE, FEW)),
    "beside-an-int": (lambda x, i: x[i, 2], (CUBE, FEW)),
    "with-slices-and-new-axes": (lambda x, i: x[None, 1:4, i, None, ::-2], (CUBE, FEW)),
    "that-broadcast": (lambda x, i, j: x[i[:, None], j], (X, ROWS[:20], COLUMNS[:30])),
    "known-and-traced": (lambda x, i: x[i, [0, 3, 4]], (X, ROWS[:3])),
    "of-a-scalar": (lambda x, i: x[i], (X, np.int32(3))),
    "of-a-number": (lambda x, i: x[i, -1], (X, 3)),
    "of-a-view": (lambda x, i: x.T[i], (X, COLUMNS)),
    "of-a-reversed-slice": (lambda x, i: x[::-2][i], (X, ROWS % 19)),
    "of-a-reshape": (lambda x, i: x.reshape(-1)[i], (X, ROWS)),
    "of-what-is-computed": (lambda x, i: np.exp(x)[i], (X, ROWS)),
    "of-sums": (lambda x, i: x.sum(axis=1)[i], (X, ROWS)),
    "computed-positions": (lambda x, i: x[(i * 3 + 1) % 37], (X, ROWS)),
    "fused-around": (lambda x, i, y: np.tanh(x[i]) * y + 1, (X, ROWS, X[0])),
    "summed-along-rows": (lambda x, i: x[i].sum(axis=1), (X, ROWS)),
    "summed-along-columns": (lambda x, i: x[i].sum(axis=0), (X, ROWS)),
    "all-summed": (lambda x, i: x[i].sum(), (X, RNG.integers(0, 37, 5000))),
    "softmax-of-rows": (
        lambda x, i: np.exp(x[i] - x[i].max(-1, keepdims=True)) / np.exp(x[i]).sum(-1)[:, None],
        (X, ROWS),
    ),
    "picked-by-label": (lambda x, i: x[np.arange(37), i].mean(), (X, COLUMNS[:37])),
    "joined": (lambda x, i, y: np.concatenate([y, x[i], y * 2]), (X, ROWS, X)),
    "padded": (lambda x, i: np.pad(x[i], ((1, 2), (0, 3))), (X, ROWS)),
    "of-a-gather": (lambda x, i, j: x[i][j], (X, ROWS, COLUMNS)),
    "transposed": (lambda x, i: x[i].T + 1, (X, ROWS)),
    "of-one-number": (lambda x, i: np.zeros_like(x)[i], (X, ROWS)),
    "of-what-is-repeated": (
        lambda x, i: np.broadcast_to(np.exp(x[:, :1]), X.shape).reshape(37, 29, 1)[:, i],
        (X, np.int32(3)),
    ),
    "from-one": (lambda x, i: x[i], (X[:1], ROWS % 1)),
    "no-positions": (lambda x, i: x[i], (X, ROWS[:0])),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_numpys(name: str, device: Device) -> None:
    function, args = CASES[name]
    got = device.get(minijit.jit(function)(*map(device.put, args)))
    expected = np.asarray(function(*args))
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float64"])
def test_elements_of_each_size(dtype: str, device: Device) -> None:
    x = (np.abs(X) * 3).astype(dtype)
    got = device.get(minijit.jit(lambda x, i: x[i])(device.put(x), device.put(ROWS)))
    np.testing.assert_array_equal(got, x[ROWS])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_positions_of_each_type(dtype: str, device: Device) -> None:
    limits = np.iinfo(dtype)
    wild = [limits.min, limits.max, limits.max - 1, 0, 36, 37, 120]
    wild += [-1, -37, -38, -128] if limits.min else []
    positions = np.array(wild, dtype)
    got = device.get(minijit.jit(lambda x, i: x[i])(device.put(X), device.put(positions)))
    # What is outside is the first or the last row.
    inside = [min(max(n + 37 if n < 0 else n, 0), 36) for n in map(int, wild)]
    np.testing.assert_array_equal(got, X[inside])


def test_a_large_axis_of_small_positions(device: Device) -> None:
    x = np.arange(1000)
    positions = np.array([-128, -1, 0, 127], np.int8)
    got = device.get(minijit.jit(lambda x, i: x[i])(device.put(x), device.put(positions)))
    np.testing.assert_array_equal(got, x[positions])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
def test_small_positions_go_around_a_large_axis(dtype: str, device: Device) -> None:
    x = np.arange(1000)
    positions = np.array([-128, -1, 0, 127]).astype(dtype)
    take = minijit.jit(lambda x, i: np.take(x, i, mode="wrap"))
    got = device.get(take(device.put(x), device.put(positions)))
    np.testing.assert_array_equal(got, np.take(x, positions, mode="wrap"))


def test_strided_arrays_are_read_in_place(device: Device) -> None:
    x, rows = CUBE.transpose(2, 0, 1)[::-1, ::2], ROWS[::3] % 7
    function = minijit.jit(lambda x, i: x[i] + 1)
    got = device.get(function(device.put(x), device.put(rows)))
    np.testing.assert_array_equal(got, x[rows] + 1)


def test_an_array_that_the_function_reads(device: Device) -> None:
    table = device.put(X)
    function = minijit.jit(lambda i: jnp.take(table, i, axis=0) * 2)
    np.testing.assert_array_equal(device.get(function(device.put(ROWS))), X[ROWS] * 2)


def test_one_kernel() -> None:
    def loss(table: Any, words: Any, weight: Any) -> Any:
        rows = table[words]
        return (np.tanh(rows * weight) ** 2).sum(axis=-1)

    kernels = minijit.jit(loss).lower(X, ROWS, X[0]).compile().kernels()
    assert len(kernels) == 1


def test_one_number_is_not_stored_to_gather_from_it() -> None:
    function = minijit.jit(lambda x, i: np.zeros_like(x)[i] + 1)
    assert len(function.lower(X, ROWS).compile().kernels()) == 1


def test_what_is_gathered_from_is_stored_first() -> None:
    function = minijit.jit(lambda x, i: np.exp(x)[i] + 1)
    assert len(function.lower(X, ROWS).compile().kernels()) == 2


def test_an_axis_without_elements_is_refused() -> None:
    with pytest.raises(IndexError, match=r"size 0.*test_gather.py:"):
        minijit.jit(lambda x, i: x[i])(X[:0], ROWS)


def test_no_position_needs_no_elements(device: Device) -> None:
    take = minijit.jit(lambda x, i: x[i])
    assert take(device.put(X[:0]), device.put(ROWS[:0])).shape == (0, 29)


def test_take_does_not_write_to_an_array() -> None:
    with pytest.raises(TypeError, match=r"out= cannot be traced \(at test_gather.py:"):
        minijit.jit(lambda x, i: np.take(x, i, axis=0, out=x))(X, ROWS)


LOOPS: dict[str, tuple[Function, tuple[Any, ...], Any]] = {
    "sum-of-places": (
        lambda x, i: lax.fori_loop(0, 301, lambda n, s: s + x[i[n], n % 29], np.float32(0)),
        (X, ROWS),
        X[ROWS, np.arange(301) % 29].sum(),
    ),
    "rows-by-step": (
        lambda x: lax.scan(lambda c, n: (c + x[n], x[n, 0]), x[0], np.arange(37))[0],
        (X,),
        X[0] + X.sum(axis=0),
    ),
    "walk": (
        lambda p: lax.while_loop(lambda n: p[n] != n, lambda n: p[n], np.int64(0)),
        (np.append(np.arange(1, 20), 19),),
        19,
    ),
    "each-element-looks-up": (
        lambda t, x: lax.fori_loop(0, 3, lambda n, i: t[i], x),
        (np.roll(np.arange(50), 7), np.arange(50).reshape(5, 10)),
        np.roll(np.arange(50), 21).reshape(5, 10),
    ),
    "in-a-branch": (
        lambda x, i: lax.cond(i.sum() > 0, lambda: x[i] * 2, lambda: x[-i]),
        (X, COLUMNS),
        X[COLUMNS] * 2,
    ),
    "of-what-is-carried": (
        lambda x, i: lax.fori_loop(0, 4, lambda n, c: c[i], x),
        (X[:, 0], np.roll(np.arange(37), 1)),
        np.roll(X[:, 0], 4),
    ),
}


def test_what_a_step_repeats_is_looked_up(device: Device) -> None:
    def body(n: Any, x: Any) -> Any:
        return x + jnp.broadcast_to(jnp.sin(x)[:, None], (37, 3)).reshape(37, 3, 1)[:, n, 0]

    got = device.get(minijit.jit(lambda x: lax.fori_loop(0, 3, body, x))(device.put(X[:, 0])))
    expected = X[:, 0]
    for _ in range(3):
        expected = expected + np.sin(expected)
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("name", LOOPS)
def test_in_loops_and_branches(name: str, device: Device) -> None:
    function, args, expected = LOOPS[name]
    got = device.get(minijit.jit(function)(*map(device.put, args)))
    np.testing.assert_allclose(got, expected, rtol=2e-5)


def test_a_loop_that_looks_up_is_one_kernel() -> None:
    function, args, _ = LOOPS["sum-of-places"]
    assert len(minijit.jit(function).lower(*args).compile().kernels()) == 1


def test_the_gradient_adds_up_what_is_taken_twice(device: Device) -> None:
    expected = np.zeros_like(X)
    np.add.at(expected, ROWS, 2 * X[ROWS])
    gradient = minijit.grad(lambda x, i: (x[i] ** 2).sum())
    got = device.get(gradient(device.put(X), device.put(ROWS)))
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_each_element_of_a_batch_has_its_own_position(device: Device) -> None:
    positions = RNG.integers(0, 29, 37)
    got = minijit.vmap(lambda row, i: row[i])(device.put(X), device.put(positions))
    np.testing.assert_array_equal(device.get(got), X[np.arange(37), positions])


def test_many_threads_read_one_table(device: Device) -> None:
    words = RNG.integers(0, 37, 100_003)
    got = minijit.jit(lambda x, i: x[i, 3] * 2)(device.put(X), device.put(words))
    np.testing.assert_array_equal(device.get(got), X[words, 3] * 2)


@pytest.mark.parametrize("columns", [32, 100, 128])
def test_rows_are_read_side_by_side_and_once_on_cuda(columns: int) -> None:
    table = RNG.normal(size=(300, columns)).astype(np.float32)

    def normalised(table: Any, words: Any) -> Any:
        rows = table[words]
        return rows / np.sqrt((rows * rows).mean(axis=-1, keepdims=True))

    words = RNG.permutation(300)
    for function in (normalised, lambda table, words: table[words] * 2):
        (kernel,) = kernel_report(function, table, words).kernels
        assert kernel.l1_bytes <= 1.3 * kernel.fewest_bytes

"""``x.at[index]``: new arrays in which some elements are others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from tests.conftest import Device
from tests.ops.test_index import INDICES, X

FLOATS = X.astype(np.float32) / 7 - 3
CHANGES = {
    "set": lambda old, new: new,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "min": np.minimum,
    "max": np.maximum,
}
AT = {"add": np.add, "subtract": np.subtract, "min": np.minimum, "max": np.maximum}


def expected(x: np.ndarray[Any, Any], index: Any, how: str, values: Any) -> Any:
    """What NumPy makes of a copy, every update of one place after the other."""
    result = x.copy()
    if how in AT:
        AT[how].at(result, index, values)
    else:
        result[index] = CHANGES[how](result[index], values)
    return result


def has_positions(index: Any) -> bool:
    return any(np.ndim(each) for each in (index if isinstance(index, tuple) else (index,))
               if isinstance(each, (list, np.ndarray)))  # fmt: skip


@pytest.mark.parametrize("how", CHANGES)
def test_values_are_numpys(how: str, device: Device) -> None:
    indices = {
        name: index
        for name, index in INDICES.items()
        if how in ("set", *AT) or not has_positions(index)
    }
    values = {n: 2.2 - FLOATS[::-1, ::-1, ::-1][i] for n, i in indices.items()}
    f = minijit.jit(
        lambda x, values: {n: getattr(x.at[i], how)(values[n]) for n, i in indices.items()}
    )
    results = f(device.put(FLOATS), {name: device.put(v) for name, v in values.items()})
    for name, got in device.get(results).items():
        want = expected(FLOATS, indices[name], how, values[name])
        assert (got.shape, got.dtype) == (want.shape, want.dtype), name
        np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=name)


def test_values_are_repeated_and_converted(device: Device) -> None:
    f = minijit.jit(
        lambda x: (x.at[1:, ::2].set(0), x.at[[0, 2]].add(1.9), x.at[..., 1].set([[1]]))
    )
    got = device.get(f(device.put(X)))
    for index, how, values, result in (
        (np.s_[1:, ::2], "set", 0, got[0]),
        (np.s_[[0, 2]], "add", 1, got[1]),
        (np.s_[..., 1], "set", [[1]], got[2]),
    ):
        assert result.dtype == X.dtype
        np.testing.assert_array_equal(result, expected(X, index, how, values))


def test_traced_positions(device: Device) -> None:
    rows, columns = np.array([2, 0, 2, -1]), np.array([0, 3, 3, -4], np.int8)

    def changed(x: Any, i: Any, j: Any, k: Any) -> Any:
        return (
            x.at[i].add(1), x.at[:, j].set(x[:, :1]), x.at[i, j].min(0), x.at[k].set(9),
            x.at[k, 1:3].multiply(2), x.at[k, :, k].add(x[0, :, 0]),
        )  # fmt: skip

    got = device.get(minijit.jit(changed)(*map(device.put, (X, rows, columns, np.int32(-1)))))
    multiplied = X.copy()
    multiplied[-1, 1:3] *= 2
    wanted = (
        expected(X, rows, "add", 1), expected(X, np.s_[:, columns], "set", X[:, :1]),
        expected(X, (rows, columns), "min", 0), expected(X, -1, "set", 9), multiplied,
        expected(X, np.s_[-1, :, -1], "add", X[0, :, 0]),
    )  # fmt: skip
    for result, want in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(result, want)


def test_a_quotient_of_integers_is_an_integer(device: Device) -> None:
    f = minijit.jit(lambda x: x.at[0].divide(4))
    got = device.get(f(device.put(X)))
    assert got.dtype == X.dtype
    np.testing.assert_array_equal(got, expected(X, 0, "set", X[0] // 4))


def test_what_is_put_outside_is_dropped(device: Device) -> None:
    positions = np.array([0, 3, -4, 2, 99])

    def changed(x: Any, i: Any) -> Any:
        return x.at[i].add(1), x.at[1, i].set(7), x.at[i[1]].set(5), x.at[0, i[4]].multiply(3)

    got = device.get(minijit.jit(changed)(device.put(X), device.put(positions)))
    np.testing.assert_array_equal(got[0], expected(X, [0, 2], "add", 1))
    np.testing.assert_array_equal(got[1], expected(X, np.s_[1, [0, 3, -4, 2]], "set", 7))
    np.testing.assert_array_equal(got[2], X)
    np.testing.assert_array_equal(got[3], X)


def test_known_positions_outside_are_refused() -> None:
    with pytest.raises(IndexError, match=r"index 3 is out of bounds.*test_update.py:"):
        minijit.jit(lambda x: x.at[[0, 3]].set(1))(X)


def test_one_kernel_without_arrays_of_positions() -> None:
    f = minijit.jit(lambda x, k: np.exp(x.at[k, ::2].add(1).at[:, 1:3].set(0)) * 2)
    assert len(f.lower(FLOATS, 1).compile().kernels()) == 1


def test_get_is_an_index() -> None:
    np.testing.assert_array_equal(minijit.jit(lambda x: x.at[1, 2:].get())(X), X[1, 2:])


def test_products_at_positions_are_refused() -> None:
    with pytest.raises(TypeError, match=r"x\.at\[positions\]\.multiply\(\).*test_update.py:"):
        minijit.jit(lambda x, i: x.at[i].multiply(2))(X, np.array([0, 1]))


def test_assignment_says_what_to_write() -> None:
    def assigned(x: Any) -> Any:
        x[0] = 1
        return x

    with pytest.raises(TypeError, match=r"x\.at\[index\]\.set\(value\)"):
        minijit.jit(assigned)(X)


def test_the_last_of_several_gets_the_gradient(device: Device) -> None:
    def loss(x: Any, values: Any, i: Any) -> Any:
        return (x.at[i].set(values) ** 2).sum()

    x, values, positions = FLOATS[0, 0], np.float32([1, 2, 3, 4]), np.array([1, 4, 1, 9])
    grads = minijit.grad(loss, argnums=(0, 1))(*map(device.put, (x, values, positions)))
    of_x, of_values = map(device.get, grads)
    np.testing.assert_allclose(of_x, 2 * x * [1, 0, 1, 1, 0])
    np.testing.assert_allclose(of_values, [0, 4, 6, 0])


def test_the_smaller_of_both_has_no_derivative() -> None:
    with pytest.raises(TypeError, match=r"minimum.*cannot be differentiated"):
        minijit.grad(lambda x, i: x.at[i].min(0).sum())(FLOATS[0, 0], np.array([1]))


def test_in_a_loop(device: Device) -> None:
    def histogram(labels: Any) -> Any:
        start = jnp.zeros(5, np.int64)
        return minijit.lax.fori_loop(0, 60, lambda n, h: h.at[labels[n]].add(1), start)

    labels = X.reshape(-1) % 5
    got = device.get(minijit.jit(histogram)(device.put(labels)))
    np.testing.assert_array_equal(got, np.bincount(labels))


def test_each_element_of_a_batch_is_changed_elsewhere(device: Device) -> None:
    positions = np.array([3, 0, 2])
    f = minijit.vmap(lambda x, i: (x.at[i].set(0), x.at[jnp.stack([i, i])].add(1)))
    got = device.get(f(device.put(X), device.put(positions)))
    rows = np.arange(3)
    np.testing.assert_array_equal(got[0], expected(X, (rows, positions), "set", 0))
    np.testing.assert_array_equal(got[1], expected(X, (rows, positions), "add", 2))


@pytest.mark.parametrize("how", AT)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float64"])
def test_each_type_is_combined_as_by_numpy(dtype: str, how: str, device: Device) -> None:
    if dtype == "bool" and how == "subtract":
        how = "add"
    x = np.array([[0, 1, 100], [7, 0, 1], [3, 9, 0]]).astype(dtype)
    positions, values = np.array([2, 0, 2]), np.array([[1, 100, 0], [0, 1, 2], [2, 30, 1]])
    values = values.astype(dtype)
    f = minijit.jit(lambda x, i, v: (getattr(x.at[i], how)(v), getattr(x.at[:, i], how)(v)))
    got = device.get(f(*map(device.put, (x, positions, values))))
    for index, result in zip((positions, np.s_[:, positions]), got, strict=True):
        assert result.dtype == x.dtype
        np.testing.assert_array_equal(result, expected(x, index, how, values))


@pytest.mark.parametrize("how", ["min", "max"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_extrema_of_special_values(dtype: str, how: str, device: Device) -> None:
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 1 + 2.0**-40, 1, -1], dtype)
    x, values = (each.ravel() for each in np.meshgrid(special, special))
    positions = np.arange(x.size)[::-1].copy()
    f = minijit.jit(lambda x, i, v: getattr(x.at[i], how)(v))
    got = device.get(f(*map(device.put, (x, positions, values))))
    np.testing.assert_array_equal(got, CHANGES[how](x, values[::-1]))


def test_narrow_floats_are_summed_in_wider_ones(device: Device) -> None:
    count = minijit.jit(lambda i: jnp.zeros(3, np.float16).at[i].add(1))
    got = device.get(count(device.put(np.full(5000, 1))))
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, [0, 5000, 0])


def test_a_sum_beyond_float16_is_infinite(device: Device) -> None:
    x = np.array([60_000, 1], np.float16)
    f = minijit.jit(lambda x, i: x.at[i].add(x))
    got = device.get(f(device.put(x), device.put(np.array([0, 1]))))
    np.testing.assert_array_equal(got, np.array([np.inf, 2], np.float16))

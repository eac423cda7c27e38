"""Sorting, by the array library."""

from __future__ import annotations

import numpy as np
import pytest

import minijit
from tests.conftest import Device

X = np.random.default_rng(5).integers(-9, 9, (4, 5, 6))


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "bool"])
def test_order_is_numpys(axis: int | None, dtype: str, device: Device) -> None:
    x = X.astype(dtype)
    f = minijit.jit(lambda x: (np.sort(x, axis), np.argsort(x, axis), x.argsort(axis)))
    ordered, positions, same = device.get(f(device.put(x)))
    np.testing.assert_array_equal(ordered, np.sort(x, axis))
    np.testing.assert_array_equal(positions, np.argsort(x, axis, stable=True))
    np.testing.assert_array_equal(positions, same)
    assert (ordered.dtype, positions.dtype) == (x.dtype, np.int64)


def test_nan_comes_last(device: Device) -> None:
    x = np.float32([1, np.nan, -np.inf, np.inf, np.nan, 0])
    got = device.get(minijit.jit(np.sort)(device.put(x)))
    np.testing.assert_array_equal(got, np.sort(x))


def test_the_largest_three_of_each_row(device: Device) -> None:
    def top(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(-x, axis=-1)[..., :k]
        return np.take_along_axis(x, order, -1), order

    x = X.astype(np.float32) + np.linspace(0, 1, 6, dtype=np.float32)
    values, order = device.get(minijit.jit(top, static_argnames="k")(device.put(x), k=3))
    np.testing.assert_array_equal(values, -np.sort(-x, axis=-1)[..., :3])
    np.testing.assert_array_equal(np.take_along_axis(x, order, -1), values)


def test_order_of_fields_is_refused() -> None:
    with pytest.raises(TypeError, match=r"order= names fields.*test_sort.py:"):
        minijit.jit(lambda x: np.sort(x, order="a"))(X)

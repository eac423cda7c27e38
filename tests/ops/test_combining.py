"""Elements combined at positions, by a library that combines no more dtypes than CuPy does."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

from minijit.ops.combining import combined

ADDED = ("int32", "int64", "uint32", "uint64", "float32", "float64")
COMPARED = ADDED[:4]  # CuPy takes floats as well, drops NaN and compares float64 as float32


class _At:
    """``xp.add.at`` and its like, on a GPU."""

    def __init__(self, how: str) -> None:
        self.how = how

    def at(self, x: Any, places: Any, updates: Any) -> None:
        assert x.dtype == updates.dtype
        assert x.dtype in (ADDED if self.how == "add" else COMPARED)
        getattr(np, self.how).at(x, places, updates)


class _AsOnGpu(types.ModuleType):
    add, minimum, maximum = _At("add"), _At("minimum"), _At("maximum")

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


@pytest.mark.parametrize("how", ["add", "minimum", "maximum"])
@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "int16", "uint8", "uint16", "float16", *ADDED],
)
def test_every_dtype_is_combined(dtype: str, how: str) -> None:
    x = np.array([[0, 1, 100], [7, 0, 1], [3, 9, 0]]).astype(dtype)
    updates = np.array([[1, 100, 0], [0, 1, 2], [2, 30, 1]]).astype(dtype)
    places = (np.array([2, 0, 2]),)
    before = x.copy()
    got = combined(_AsOnGpu("cupy"), x, places, updates, how)
    expected = x.copy()
    getattr(np, how).at(expected, places, updates)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(x, before)

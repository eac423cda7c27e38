"""Casts and extrema of awkward values through `jit`, compiled: NumPy's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit
from tests.conftest import Device, on_each_device
from tests.ops.samples import assert_same, special_values
from tests.sampling import sampled

DTYPES = tuple(
    map(
        np.dtype,
        ("bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64"),
    )
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_casts(device: Device, dtype: np.dtype[Any]) -> None:
    x = special_values(dtype)
    if dtype.kind == "f":
        x = x[np.abs(x) < 100]  # beyond the target's limits C leaves the result open

    @minijit.jit
    def program(v: Any) -> list[Any]:
        return [v.astype(target) for target in DTYPES]

    for target, got in zip(DTYPES, device.get(program(device.put(x))), strict=True):
        if dtype.kind == "f" and target.kind == "u":
            continue  # negative numbers, likewise
        with np.errstate(all="ignore"):
            assert_same(np.asarray(got), x.astype(target), [x])


@on_each_device("dtype", DTYPES, emulated=sampled(DTYPES, 2))
def test_extrema_of_special_values(device: Device, dtype: np.dtype[Any]) -> None:
    """NaN wins, the first position wins, limits are no identity by accident."""
    corners = special_values(dtype)
    rng = np.random.default_rng(2)
    rows = [np.full(37, value, dtype) for value in corners]
    rows += [rng.choice(rng.choice(corners, 3), 37) for _ in range(40)]
    x = np.array(rows, dtype)

    @minijit.jit
    def program(v: Any) -> list[Any]:
        return [v.max(1), v.min(1), v.argmax(1), v.argmin(1), v.max(0), v.argmin(0), v.any(1)]

    want = [x.max(1), x.min(1), x.argmax(1), x.argmin(1), x.max(0), x.argmin(0), x.any(1)]
    for got, wanted in zip(device.get(program(device.put(x))), want, strict=True):
        np.testing.assert_array_equal(np.asarray(got), wanted)

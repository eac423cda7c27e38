"""Every elementwise primitive and every reduction through `jit`, compiled: NumPy's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit
from minijit.graph.primitive import Primitive
from minijit.graph.trace import bind
from tests.ops.samples import (
    assert_agrees,
    assert_same,
    elementwise_primitives,
    samples,
    signatures,
    special_values,
)

DTYPES = tuple(
    map(
        np.dtype,
        ("bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64"),
    )
)


@pytest.mark.parametrize("primitive", elementwise_primitives(), ids=str)
def test_elementwise(primitive: Primitive) -> None:
    """All dtypes of a primitive in one program: one compile covers them."""
    inputs: list[list[Any]] = [samples(primitive, s) for s in signatures(primitive, DTYPES)]

    @minijit.jit
    def program(groups: list[list[Any]]) -> list[Any]:
        return [bind(primitive, *group) for group in groups]

    for operands, got in zip(inputs, program(inputs), strict=True):
        with np.errstate(all="ignore"):
            want = np.asarray(primitive.eager(np, *operands))
        assert_agrees(primitive, np.asarray(got), want, operands)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_casts(dtype: np.dtype[Any]) -> None:
    x = special_values(dtype)
    if dtype.kind == "f":
        x = x[np.abs(x) < 100]  # beyond the target's limits C leaves the result open

    @minijit.jit
    def program(v: Any) -> list[Any]:
        return [v.astype(target) for target in DTYPES]

    for target, got in zip(DTYPES, program(x), strict=True):
        if dtype.kind == "f" and target.kind == "u":
            continue  # negative numbers, likewise
        with np.errstate(all="ignore"):
            assert_same(np.asarray(got), x.astype(target), [x])


AXES = (None, 0, 2, (0, 2))
REDUCED = tuple(map(np.dtype, ("bool", "int8", "uint8", "float16", "float32", "float64")))
REDUCTIONS = ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "mean", "var"]


@pytest.mark.parametrize("dtype", REDUCED, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0 if dtype.kind in "ub" else -2, 3, (3, 5, 37)).astype(dtype)
    axes = [axis for axis in AXES if name[:3] != "arg" or not isinstance(axis, tuple)]

    @minijit.jit
    def program(v: Any) -> list[Any]:
        return [getattr(np, name)(v, axis=axis) for axis in axes]

    rtol = 2e-3 if dtype == np.float16 else 1e-6
    for axis, got in zip(axes, program(x), strict=True):
        with np.errstate(all="ignore"):
            want = np.asarray(getattr(np, name)(x, axis=axis))
        assert (np.shape(got), np.asarray(got).dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=rtol, err_msg=str(axis))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_extrema_of_special_values(dtype: np.dtype[Any]) -> None:
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
    for got, wanted in zip(program(x), want, strict=True):
        np.testing.assert_array_equal(np.asarray(got), wanted)

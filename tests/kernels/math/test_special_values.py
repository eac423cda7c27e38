"""Infinities, NaN, signed zeros and domain errors give what C99 and NumPy say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.kernels.math.reference import BINARY, CASES, FLOATS, apply, in_domain, library

UNARY_VALUES = (0.0, -0.0, 1.0, -1.0, 2.0, -2.0, math.inf, -math.inf, math.nan)
BINARY_VALUES = (*UNARY_VALUES, 0.5, -0.5, 3.0, -3.0, 2.5, -2.5, 1e30, -1e30)
# Where the result of these is exact, ours is that very number.
EXACT = (0.0, 1.0, -1.0, math.inf, -math.inf)


def _assert_same(got: np.ndarray, expected: np.ndarray, *arguments: np.ndarray) -> None:
    for i in range(got.size):
        point = [argument[i] for argument in arguments]
        if np.isnan(expected[i]):
            assert np.isnan(got[i]), (point, got[i])
        elif expected[i] in EXACT:
            assert got[i] == expected[i], (point, got[i])
            assert np.signbit(got[i]) == np.signbit(expected[i]), point
        else:
            np.testing.assert_allclose(got[i], expected[i], rtol=1e-6, err_msg=str(point))


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_special_values_are_those_of_the_library(name: str, dtype: str) -> None:
    kind = FLOATS[dtype]
    if name in BINARY:
        mesh = np.meshgrid(np.array(BINARY_VALUES, kind), np.array(BINARY_VALUES, kind))
        arguments = tuple(side.ravel() for side in mesh)
    else:
        arguments = (in_domain(name, np.array(UNARY_VALUES, kind)),)
    with np.errstate(all="ignore"):
        expected = library(name)(*arguments)
    _assert_same(apply(name, dtype, *arguments), expected, *arguments)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (math.nan, 0.0, 1.0),
        (1.0, math.nan, 1.0),
        (-1.0, math.inf, 1.0),
        (-1.0, -math.inf, 1.0),
        (-0.0, -3.0, -math.inf),
        (-0.0, -2.0, math.inf),
        (-0.0, -2.5, math.inf),
        (-0.0, 3.0, -0.0),
        (-0.0, 2.5, 0.0),
        (-math.inf, 3.0, -math.inf),
        (-math.inf, -3.0, -0.0),
        (-math.inf, 2.5, math.inf),
        (-8.0, 1.0 / 3.0, math.nan),
        (-2.0, 1e30, math.inf),
        (0.5, math.inf, 0.0),
        (0.5, -math.inf, math.inf),
        (math.nan, 2.0, math.nan),
    ],
)
def test_power_follows_the_table_of_c99(dtype: str, x: float, y: float, expected: float) -> None:
    kind = FLOATS[dtype]
    got = apply("power", dtype, np.array([x], kind), np.array([y], kind))[0]
    np.testing.assert_equal(got, kind(expected))
    assert math.isnan(expected) or np.signbit(got) == np.signbit(expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_exact_powers_have_exact_results(dtype: str) -> None:
    kind = FLOATS[dtype]
    info = np.finfo(kind)
    exponents = np.arange(info.minexp - info.nmant, info.maxexp, dtype=kind)
    powers = np.ldexp(kind(1), exponents.astype(np.int32))
    np.testing.assert_array_equal(apply("exp2", dtype, exponents), powers)
    np.testing.assert_array_equal(apply("log2", dtype, powers), exponents)
    np.testing.assert_array_equal(apply("power", dtype, np.full_like(powers, 2), exponents), powers)
    tens = np.arange(0, 11 if dtype == "float32" else 23, dtype=kind)
    np.testing.assert_array_equal(apply("log10", dtype, kind(10) ** tens), tens)
    cubes = np.arange(-200, 201, dtype=kind)
    np.testing.assert_array_equal(apply("cbrt", dtype, cubes**3), cubes)


@pytest.mark.parametrize("name", ["sin", "tan", "arcsin", "arctan", "tanh", "sinh", "arcsinh"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_odd_functions_return_a_tiny_argument_unchanged(name: str, dtype: str) -> None:
    info = np.finfo(FLOATS[dtype])
    tiny = np.array([info.smallest_subnormal, info.tiny, info.tiny / 3, info.tiny * 5])
    tiny = np.concatenate([tiny, -tiny]).astype(FLOATS[dtype])
    np.testing.assert_array_equal(apply(name, dtype, tiny), tiny)

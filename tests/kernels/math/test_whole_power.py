"""Powers with constant whole exponents are products in float64, rounded once."""

from __future__ import annotations

import numpy as np
import pytest

import minijit
from minijit.kernels.math import LARGEST_WHOLE_POWER
from tests.kernels.math.reference import border_values, samples, ulp_error_float32

EXPONENTS = (5, 6, 7, 31, 64, -2, -3, -7, -64)


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_float32_is_hardly_more_than_half_a_unit_from_the_exact_value(exponent: int) -> None:
    x = np.concatenate([border_values("float32"), samples("float32", 4_000, seed=5)])
    # Where results are neither zero nor infinite.
    size = np.abs(np.random.default_rng(6).standard_normal(4_000)) * 3
    x = np.concatenate([x, (size ** (16 / abs(exponent))).astype(np.float32)])
    with np.errstate(all="ignore"):
        value = np.power(x.astype(np.float64), exponent)
        got = np.asarray(minijit.jit(lambda x: x ** float(exponent))(x))
    assert (got.dtype, got.shape) == (x.dtype, x.shape)
    assert ulp_error_float32(got, value).max() <= 0.5001
    known = ~np.isnan(value)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(value[known]))


@pytest.mark.parametrize("exponent", [3, 5, -3])
def test_float16_is_rounded_once(exponent: int) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), exponent).astype(np.float32).astype(np.float16)
    got = np.asarray(minijit.jit(lambda x: x ** float(exponent))(x))
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, want)


def test_kernels_use_them_where_they_gain() -> None:
    x = np.ones(100, np.float32)

    def source(exponent: float) -> str:
        (kernel,) = minijit.jit(lambda x: x**exponent).lower(x).compile().kernels()
        return kernel.source

    assert "pow_7_float32(" in source(7)
    assert "pow_minus_7_float32(" in source(-7.0)
    assert "pow_float32(" in source(7.5)
    assert "pow_float32(" in source(LARGEST_WHOLE_POWER + 1)
    (kernel,) = minijit.jit(lambda x: x**7).lower(x.astype(np.float64)).compile().kernels()
    assert "pow_float64(" in kernel.source

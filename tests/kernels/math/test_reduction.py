"""Angles of every size are reduced exactly enough, next to the multiples of pi / 2 most of all."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from tests.kernels.math.reference import FLOATS, apply, exact, ulp_error_exact


def _nearest_to_quarter_turns(dtype: str) -> np.ndarray:
    """For each binary exponent, numbers of the type that nearly are multiples of pi / 2.

    Convergents of the continued fraction of 2**exponent * 2 / pi: W. Kahan's way to find them.
    """
    info = np.finfo(FLOATS[dtype])
    digits = int(info.nmant) + 1
    numbers = []
    for exponent in range(0, int(info.maxexp) - digits, 7 if dtype == "float64" else 1):
        over, under = (1 << exponent) << 1300, _PI_HALF
        previous, current = 1, 0
        while current < 1 << digits:
            if current:
                numbers.append(math.ldexp(current, exponent))
            quotient, rest = divmod(over, under)
            over, under = under, rest
            previous, current = current, quotient * current + previous
    return np.array(numbers, FLOATS[dtype])


def _pi_half() -> int:
    """pi / 2 * 2**1300."""
    with mpmath.workprec(1400):
        return int(mpmath.floor(mpmath.ldexp(mpmath.pi, 1299)))


_PI_HALF = _pi_half()


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_hardest_angles(name: str, dtype: str) -> None:
    angles = _nearest_to_quarter_turns(dtype)
    assert angles.size > 250
    got = apply(name, dtype, angles)
    smallest = 1.0
    for x, y in zip(angles.tolist(), got.tolist(), strict=True):
        value = exact(name, (x,), precision=1400)
        smallest = min(smallest, abs(float(value)))
        assert ulp_error_exact(y, value, dtype) <= 3.0, x
    # The samples are as hard as meant.
    assert smallest < (1e-6 if dtype == "float32" else 1e-14)


def test_the_hardest_float64_angle() -> None:
    x = math.ldexp(6381956970095103.0, 797)
    got = apply("cos", "float64", np.array([x]))[0]
    np.testing.assert_allclose(got, -4.68716592425462761112e-19, rtol=1e-15)

"""Polynomials in Horner's form with fused multiply-adds."""

from __future__ import annotations

from minijit.kernels.math.intrinsics import fma
from minijit.kernels.math.value import Value


def polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    """coefficients[0] + coefficients[1] * x + ... : lowest degree first.

    Horner's order has the longest chain of dependent operations, but the fewest of them; several
    vectors that the loop around it works on at a time fill the gaps.
    """
    result = x.of(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = fma(result, x, coefficient)
    return result

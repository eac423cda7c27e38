"""Polynomials with fused multiply-adds."""

from __future__ import annotations

from minijit.kernels.math.intrinsics import fma
from minijit.kernels.math.value import Value

_LONG = 8
"""Coefficients from which on pairs of them are faster than one after the other."""


def polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    """coefficients[0] + coefficients[1] * x + ... : lowest degree first.

    Horner's order has the longest chain of dependent operations, but the fewest of them; several
    vectors that the loop around it works on at a time fill the gaps. Of long ones a processor does
    not look ahead far enough: those are polynomials in x * x of linear ones (Estrin's first step),
    a chain of half the length for one more operation.
    """
    if len(coefficients) < _LONG:
        terms = [x.of(coefficient) for coefficient in coefficients]
    else:
        terms = [_linear(x, *coefficients[i : i + 2]) for i in range(0, len(coefficients), 2)]
        x = x * x
    *others, result = terms
    for term in reversed(others):
        result = fma(result, x, term)
    return result


def _linear(x: Value, constant: float, slope: float | None = None) -> Value:
    return x.of(constant) if slope is None else fma(x, slope, constant)

"""Rounding of exact fractions to binary floats: slow, and without any limit of range."""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["exact_fma", "round_fraction"]

_MIRRORED = {"rn": "rn", "rz": "rz", "rp": "rm", "rm": "rp"}


def round_fraction(value: Fraction, mode: str, digits: int = 53, lowest: int = -1074) -> float:
    """Round to a float of ``digits`` bits whose smallest positive number is ``2**lowest``.

    ``mode`` is ``rn`` (to nearest, ties to even), ``rz`` (towards zero), ``rp`` (up) or ``rm``.
    Overflow gives infinity or the largest number, as the mode says; zero is positive.
    """
    if value < 0:
        return -round_fraction(-value, _MIRRORED[mode], digits, lowest)
    if value == 0:
        return 0.0
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if value < Fraction(2) ** exponent:
        exponent -= 1
    step = Fraction(2) ** max(exponent - digits + 1, lowest)
    whole, rest = divmod(value, step)
    rest /= step
    half = Fraction(1, 2)
    if mode == "rp":
        whole += rest > 0
    elif mode == "rn":
        whole += rest > half or (rest == half and whole % 2 == 1)
    # The exponents of these formats are symmetric: 2**lowest is the last bit of 2**(1 - top).
    top = 2 - digits - lowest
    if whole * step >= Fraction(2) ** (top + 1):
        return math.inf if mode in ("rn", "rp") else (2 - 2.0 ** (1 - digits)) * 2.0**top
    return float(whole * step)


def exact_fma(a: float, b: float, c: float, mode: str) -> float:
    """``a * b + c`` of float64, rounded once."""
    if not (math.isfinite(a) and math.isfinite(b)):
        # An infinite product decides, or meets the opposite infinity; 0 * inf is undefined.
        return a * b + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact:
        return round_fraction(exact, mode)
    negative = math.copysign(1.0, a) * math.copysign(1.0, b) < 0
    if negative == (math.copysign(1.0, c) < 0):
        return -0.0 if negative else 0.0
    return -0.0 if mode == "rm" else 0.0

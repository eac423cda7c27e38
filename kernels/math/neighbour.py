"""nextafter: the numbers of a float type are its bit patterns in order, but for the sign."""

from __future__ import annotations

from minijit.kernels.math.device import device
from minijit.kernels.math.intrinsics import bits, copysign, real, select
from minijit.kernels.math.value import FLOAT32, FLOAT64, Value


@device(FLOAT32)
def nextafter_float32(x: Value, y: Value) -> Value:
    """The next number after x towards y."""
    return _nextafter(x, y)


@device(FLOAT64)
def nextafter_float64(x: Value, y: Value) -> Value:
    """The next number after x towards y."""
    return _nextafter(x, y)


def _nextafter(x: Value, y: Value) -> Value:
    pattern = bits(x)
    inward = (y > x) ^ (x > 0.0)
    near = real(select(inward, pattern - 1, pattern + 1))
    near = select(x == 0.0, copysign(real(bits(x.of(0.0)) + 1), y), near)
    near = select(x == y, y, near)
    return select((x != x) | (y != y), x + y, near)

"""Lengths of curves by a complex step: slopes are imaginary parts just off the real axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from _report import compare, place

from minijit.extend import elementwise


@elementwise(only=("float64",))
def slope(x: Any) -> Any:
    """Derivative of (x**3 - 2 x) exp(-x) by a complex step (Squire and Trapp, 1998).

    No difference of two near numbers is taken, so the step may be as small as one likes.
    """
    step = 1e-200
    z = complex(x, step)
    decay = math.exp(-x) * complex(1, -step)  # cos and sin of so small a step
    return ((z * z * z - 2 * z) * decay).imag / step


def length(x: Any) -> Any:
    """Length of the curve for each unit of ``x``."""
    return np.sqrt(1 + slope(x) ** 2)


def with_numpy(x: Any) -> Any:
    """The same by the rules of calculus."""
    return np.sqrt(1 + ((3 * x * x - 2 - x * x * x + 2 * x) * np.exp(-x)) ** 2)


def main() -> None:
    where = place(__doc__)
    size = 10_000 if where.quick else 5_000_000
    x = np.linspace(-1, 6, size)
    compare(f"lengths at {size:,} points", length, where, x, eager=with_numpy)


if __name__ == "__main__":
    main()

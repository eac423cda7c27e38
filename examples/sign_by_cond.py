"""Branches: the sign of a number, and a step of descent that only clips when it has to.

``cond`` runs one of two functions. In a kernel that is a jump on a value which all points share:
what is not taken costs nothing. To choose element by element there is ``where``, which computes
both sides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import compare, place

from minijit import lax

LIMIT = np.float32(1)


def sign(x: Any) -> Any:
    """Return 1, -1, or a zero (or NaN) as it is, for one number."""
    return lax.cond(x > 0, lambda: x * 0 + 1, lambda: lax.cond(x < 0, lambda: x * 0 - 1, lambda: x))


def sign_in_python(x: Any) -> Any:
    if x > 0:
        return x * 0 + 1
    return x * 0 - 1 if x < 0 else x


def signs(xs: Any) -> Any:
    """Return the sign of each number, one after the other."""
    return lax.map(sign, xs)


def signs_in_python(xs: Any) -> Any:
    return np.stack([sign_in_python(x) for x in xs])


def norm(gradient: Any) -> Any:
    return np.sqrt((gradient * gradient).sum())


def descended(weights: Any, gradient: Any) -> Any:
    """Take a step along a gradient, which is shortened to length ``LIMIT`` if it is longer."""
    length = norm(gradient)
    return lax.cond(
        length > LIMIT,
        lambda: weights - np.float32(0.1) * gradient * (LIMIT / length),
        lambda: weights - np.float32(0.1) * gradient,
    )


def descended_in_python(weights: Any, gradient: Any) -> Any:
    length = norm(gradient)
    if length > LIMIT:
        return weights - np.float32(0.1) * gradient * (LIMIT / length)
    return weights - np.float32(0.1) * gradient


def main() -> None:
    where = place(__doc__)
    rng = np.random.default_rng(0)
    xs = np.round(rng.standard_normal(100 if where.quick else 10_000), 1)
    compare(f"sign of {len(xs)} numbers", signs, where, xs, eager=signs_in_python)
    size = 1_000 if where.quick else 1_000_000
    weights, gradient = rng.standard_normal((2, size), dtype=np.float32)
    for title, scale in (("a long gradient", 1), ("a short gradient", 1e-6)):
        arguments = (weights, gradient * np.float32(scale))
        compare(title, descended, where, *arguments, eager=descended_in_python)


if __name__ == "__main__":
    main()

"""Fit a decay to each of many measured curves: one curve is written, vmap takes them all.

Each curve is a * exp(-k * t) with noise. Gauss-Newton steps find a and k; steps that no longer
change them end the iteration, after a number of steps of its own for each curve.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import compare, place

import minijit
from minijit import lax

TOLERANCE, MOST = 1e-10, 50


def step(t: Any, y: Any, a: Any, k: Any) -> tuple[Any, Any]:
    """Return the change of a and k that solves the linearised problem of least squares."""
    shape = np.exp(-k * t)
    slope = -a * t * shape
    rest = y - a * shape
    aa, ak, kk = (shape * shape).sum(), (shape * slope).sum(), (slope * slope).sum()
    ra, rk = (shape * rest).sum(), (slope * rest).sum()
    determinant = aa * kk - ak * ak
    return (ra * kk - rk * ak) / determinant, (rk * aa - ra * ak) / determinant


def fitted(t: Any, y: Any) -> tuple[Any, Any, Any]:
    """Return a, k and the number of steps for one curve."""

    def goes_on(state: Any) -> Any:
        _, _, change, count = state
        return (change > TOLERANCE) & (count < MOST)

    def improved(state: Any) -> Any:
        a, k, _, count = state
        da, dk = step(t, y, a, k)
        return a + da, k + dk, abs(da) + abs(dk), count + 1

    a, k, _, count = lax.while_loop(goes_on, improved, (y[0], 1.0, 1.0, 0))
    return a, k, count


def fitted_in_python(t: Any, curves: Any) -> tuple[Any, ...]:
    """Do the same with a loop over the curves, and eager NumPy."""
    rows = []
    for y in curves:
        a, k, change, count = y[0], 1.0, 1.0, 0
        while change > TOLERANCE and count < MOST:
            da, dk = step(t, y, a, k)
            a, k, change, count = a + da, k + dk, abs(da) + abs(dk), count + 1
        rows.append((float(a), float(k), count))
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def main() -> None:
    where = place(__doc__)
    rng = np.random.default_rng(0)
    count, t = 200 if where.quick else 5_000, np.linspace(0, 4, 64)
    a, k = rng.uniform(1, 3, (count, 1)), rng.uniform(0.3, 2, (count, 1))
    curves = a * np.exp(-k * t) + rng.normal(0, 0.02, (count, t.size))
    every = minijit.vmap(fitted, in_axes=(None, 0))
    compare(f"{count} curves", every, where, t, curves, eager=fitted_in_python)
    _, rates, steps = map(where.get, every(where.put(t), where.put(curves)))
    error = np.abs(rates - k[:, 0]).mean()
    print(f"  {steps.min()} to {steps.max()} steps for a curve; rates are off by {error:.3f}")


if __name__ == "__main__":
    main()

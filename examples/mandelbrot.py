"""The Mandelbrot set: a loop of a fixed number of steps, one kernel, nothing but registers."""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import compare, place

import minijit
from minijit import lax

STEPS = 50


def step(state: Any, re: Any, im: Any) -> Any:
    """Square, add the point, and count as long as the value stays within the circle of radius 2."""
    x, y, count = state
    xx, yy = x * x, y * y
    inside = xx + yy <= 4
    # What has left stays where it is: it would overflow.
    x, y = np.where(inside, xx - yy + re, x), np.where(inside, 2 * x * y + im, y)
    return x, y, count + inside.astype(np.int32)


def counts(re: Any, im: Any) -> Any:
    """Return after how many steps each point leaves the circle, ``STEPS`` if it does not."""
    start = (re * 0, im * 0, (re * 0).astype(np.int32))
    return lax.fori_loop(0, STEPS, lambda _, state: step(state, re, im), start)[2]


def counts_in_python(re: Any, im: Any) -> Any:
    state = (re * 0, im * 0, (re * 0).astype(np.int32))
    for _ in range(STEPS):
        state = step(state, re, im)
    return state[2]


def grid(height: int, width: int) -> tuple[Any, Any]:
    """Return the real and the imaginary part of points that cover the set."""
    im, re = np.meshgrid(
        np.linspace(-1.2, 1.2, height, dtype=np.float32),
        np.linspace(-2.1, 0.7, width, dtype=np.float32),
        indexing="ij",
    )
    return re, im


def main() -> None:
    where = place(__doc__)
    re, im = grid(60, 80) if where.quick else grid(600, 800)
    title = f"{re.shape[0]} x {re.shape[1]} points, {STEPS} steps"
    compare(title, counts, where, re, im, eager=counts_in_python)
    picture = where.get(minijit.jit(counts)(*map(where.put, grid(21, 64))))
    for row in picture:
        print("".join(" .:-=+*#%@"[min(int(count), STEPS - 1) * 10 // STEPS] for count in row))


if __name__ == "__main__":
    main()

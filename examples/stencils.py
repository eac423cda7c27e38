"""Loops whose steps read their neighbours: the heat equation, and Conway's Game of Life.

A kernel's points cannot wait for each other, so that the host drives these loops: a step is a
launch or two, from one buffer to another, and both are allocated before the first step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import compare, place

import minijit
from minijit import lax

RATE = np.float32(0.2)  # more than 0.25 would be unstable


def warmed(plate: Any) -> Any:
    """One explicit step of the heat equation in the plane, on a plate whose edge stays cold."""
    wide = np.pad(plate, 1)
    around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
    return plate + RATE * (around - 4 * plate)


def next_generation(cells: Any) -> Any:
    """Born of three neighbours, alive with two or three; beyond the edge nothing lives."""
    wide = np.pad(cells, 1)
    rows = wide[:-2] + wide[1:-1] + wide[2:]
    block = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]
    # A block counts its centre as well.
    return ((block == 3) | ((block == 4) & (cells == 1))).astype(np.int8)


def heat(plate: Any, steps: int) -> tuple[Any, Any]:
    """Return the plate at the end, and how warm its middle is after each step."""
    middle = (plate.shape[0] // 2, plate.shape[1] // 2)

    def step(plate: Any, _: None) -> tuple[Any, Any]:
        plate = warmed(plate)
        return plate, plate[middle]

    return lax.scan(step, plate, None, length=steps)


def heat_in_python(plate: Any, steps: int) -> tuple[Any, Any]:
    middle = (plate.shape[0] // 2, plate.shape[1] // 2)
    history = []
    for _ in range(steps):
        plate = warmed(plate)
        history.append(plate[middle])
    return plate, np.stack(history)


def life(cells: Any, steps: int) -> Any:
    return lax.fori_loop(0, steps, lambda _, cells: next_generation(cells), cells)


def life_in_python(cells: Any, steps: int) -> Any:
    for _ in range(steps):
        cells = next_generation(cells)
    return cells


def glider(size: int) -> Any:
    """Return a board with a glider in its corner, which moves by (1, 1) in four generations."""
    cells = np.zeros((size, size), dtype=np.int8)
    cells[:3, :3] = [[0, 1, 0], [0, 0, 1], [1, 1, 1]]
    return cells


def main() -> None:
    where = place(__doc__)
    size, steps = (32, 20) if where.quick else (512, 200)
    plate = np.zeros((size, size), dtype=np.float32)
    plate[size // 4 : -size // 4, size // 4 : -size // 4] = 100
    compare(
        f"heat, {size} x {size}, {steps} steps",
        lambda plate: heat(plate, steps),
        where,
        plate,
        eager=lambda plate: heat_in_python(plate, steps),
    )
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 2, (size, size), dtype=np.int8)
    compare(
        f"life, {size} x {size}, {steps} generations",
        lambda cells: life(cells, steps),
        where,
        cells,
        eager=lambda cells: life_in_python(cells, steps),
    )
    board = where.get(minijit.jit(lambda cells: life(cells, 16))(where.put(glider(8))))
    print("a glider after 16 generations:")
    for row in board:
        print("  " + "".join(".#"[cell] for cell in row))


if __name__ == "__main__":
    main()

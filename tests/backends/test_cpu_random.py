"""Random CPU kernels, compiled and run, against NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from minijit.lowering.kernel_ir import Kernel, Level, Value
from tests.backends.cpu_kernels import check
from tests.lowering.kernel_builder import Builder, constant

F32, I32 = np.float32, np.int32


def random_kernel(seed: int) -> Kernel:
    """Some rows and columns, operands of any layout, and a random chain of maps and reductions."""
    random = np.random.default_rng(seed)
    sizes = (1, 2, 3, 8, 17, 70, 130)
    rows = tuple(int(n) for n in random.choice(sizes, random.integers(0, 4)))
    cols = tuple(int(n) for n in random.choice(sizes, random.integers(0, 3)))
    if math.prod(rows + cols) > 200_000:
        rows = rows[:1]
    build = Builder(rows, cols)
    count = len(rows + cols)

    def layout(dims: Sequence[int], gaps: int = 1) -> tuple[list[int], int]:
        """Strides of an array over ``dims`` in random order, some flipped; and its offset."""
        strides, step, offset = [0] * count, int(random.integers(1, gaps + 1)), 0
        for dim in random.permutation(list(dims)):
            extent = (rows + cols)[dim]
            flipped = random.random() < 0.2
            strides[dim] = -step if flipped else step
            offset += step * (extent - 1) if flipped else 0
            step *= extent
        return strides, offset

    def load(dtype: Any = F32) -> Value:
        dims = [dim for dim in range(count) if random.random() < 0.8]
        strides, offset = layout(dims, gaps=2)
        return build.load(strides, dtype, offset=offset)

    # Keep the numbers small, so that tolerances mean the same everywhere.
    cells = [load(), load(), build.map("sin", build.convert(load(I32), F32))]
    if random.random() < 0.5:
        cells.append(build.map("sin", build.convert(build.index([1] * count), F32)))
    ops = ("add", "sub", "mul", "max", "exp", "abs", "min")
    for _ in range(int(random.integers(2, 9))):
        op = str(random.choice(ops))
        picked = [cells[int(n)] for n in random.integers(0, len(cells), 2)]
        value = build.map(op, *(picked[:1] if op in ("exp", "abs") else picked))
        cells.append(build.map("sin", value))
        if cols and random.random() < 0.4:
            monoid = str(random.choice(["sum", "max", "min"]))
            total = build.reduce(monoid, cells[-1])
            cells.append(build.map("sin", build.map("mul", total, constant(0.01))))
    for value in cells[-2:]:
        whole = value.level is Level.CELL
        strides, offset = layout(range(count if whole else len(rows)))
        build.store(value, strides, offset=offset)
    return build.kernel()


@pytest.mark.parametrize("seed", range(25))
def test_random_kernels(seed: int) -> None:
    check(random_kernel(seed), tolerance=2e-4)

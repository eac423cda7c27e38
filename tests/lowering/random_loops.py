"""Random kernels with loops and branches inside each other."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijit.lowering.kernel_ir import Kernel, Level, Operand, Value
from tests.lowering.kernel_builder import constant
from tests.lowering.loop_builder import LoopBuilder

__all__ = ["random_kernel"]

_DTYPES = [np.float32] * 5 + [np.float64, np.float16, np.int32, np.int64, np.bool_]


def random_kernel(rows: Sequence[int], seed: int, size: int = 4) -> Kernel:
    """Return a kernel over ``rows`` that takes one int32 argument."""
    return _Maker(rows, seed).kernel(size)


class _Maker:
    def __init__(self, rows: Sequence[int], seed: int) -> None:
        self.random = random.Random(seed)
        self.build = LoopBuilder(rows)
        self.scalars: list[Operand] = []
        """int32 values that are the same at every point."""
        self.certain = True
        """Whether what stands here runs for every step of the counted loops around."""

    def kernel(self, size: int) -> Kernel:
        self.scalars.append(self.build.read(np.int32))
        pool: list[Operand] = [constant(1, dtype) for dtype in _DTYPES]
        for _ in range(3):
            self.load(pool, 0, [])
        self.grow(pool, size, depth=0)
        for value in pool[len(_DTYPES) :]:
            self.store(value, [])
        return self.build.kernel()

    def grow(self, pool: list[Operand], size: int, depth: int, steps: Sequence[int] = ()) -> None:
        """Append values to ``pool``; ``steps`` are the counted loops around, by their dimension."""
        for _ in range(size):
            kinds: list[Callable[..., None]] = [self.load, self.operate, self.operate, self.operate]
            if depth < 2:
                kinds += [self.loop, self.loop, self.branch]
            self.random.choice(kinds)(pool, depth, steps)

    def strides(self, steps: Sequence[int], *, whole: bool = False) -> list[int]:
        """Return C-ordered strides of rows and of the loops around, some left out."""
        build = self.build
        spans = [*build.rows, *build.steps]
        dims = [*range(len(build.rows)), *steps]
        if not whole:
            dims = [dim for dim in dims if self.random.random() < 0.8]
        if self.random.random() < 0.5:
            dims = [d for d in dims if d >= len(build.rows)] + [
                d for d in dims if d < len(build.rows)
            ]
        strides, size = [0] * len(spans), 1
        for dim in reversed(dims):
            strides[dim] = size
            size *= spans[dim]
        return strides

    def load(self, pool: list[Operand], depth: int, steps: Sequence[int]) -> None:
        strides = self.strides(steps)
        dtype = self.random.choice(_DTYPES)
        backwards = [dim for dim in steps if strides[dim] and self.random.random() < 0.3]
        offset = sum(
            strides[dim] * (self.build.steps[dim - len(self.build.rows)] - 1) for dim in backwards
        )
        spans = [*self.build.rows, *self.build.steps]
        size = 1 + sum(stride * (n - 1) for stride, n in zip(strides, spans, strict=True))
        for dim in backwards:
            strides[dim] = -strides[dim]
        pool.append(self.build.load(strides, dtype, offset=offset, size=size))

    def store(self, value: Operand, steps: Sequence[int]) -> None:
        scalar = not isinstance(value, Value) or value.level is Level.LAUNCH
        rows = [0] * len(self.build.rows)
        whole = self.strides(steps, whole=True)
        if scalar and not steps and self.random.random() < 0.5:
            whole = rows
        self.build.store(value, whole)

    def pick(self, pool: Sequence[Operand], dtype: Any) -> Operand:
        """Return one of the newest operands of a type."""
        fitting = [operand for operand in pool if operand.dtype == dtype]
        return self.random.choice(fitting[-4:]) if fitting else constant(1, dtype)

    def operate(self, pool: list[Operand], depth: int, steps: Sequence[int]) -> None:
        dtype = np.dtype(self.random.choice(_DTYPES))
        x, y = self.pick(pool, dtype), self.pick(pool, dtype)
        match self.random.randrange(4):
            case 0:
                pool.append(self.build.map("lt", x, y, dtype=np.bool_))
            case 1:
                test = self.pick(pool, np.bool_)
                pool.append(self.build.map("select", test, x, y))
            case 2:
                target = np.dtype(self.random.choice(_DTYPES[:2]))
                if target != dtype:
                    pool.append(self.build.convert(x, target))
            case 3:
                names = (
                    ["bitwise_and", "bitwise_xor"] if dtype == np.bool_ else ["add", "sub", "max"]
                )
                pool.append(self.build.map(self.random.choice(names), x, y))

    def carried(self, pool: Sequence[Operand]) -> list[Operand]:
        return [
            self.pick(pool, d) for d in self.random.choices(_DTYPES, k=self.random.randint(1, 4))
        ]

    def loop(self, pool: list[Operand], depth: int, steps: Sequence[int]) -> None:
        build, known, certain = self.build, list(self.scalars), self.certain
        inits = [constant(0, np.int32), *self.carried(pool)]
        levels = [Level.LAUNCH] + [Level.ROW] * (len(inits) - 1)
        counted = self.random.random() < 0.6
        length = self.random.choice([1, 2, 3, 5]) if counted else None
        bound = constant(self.random.randint(0, 4), np.int32)
        dim = len(build.rows) + len(build.steps)

        def step(count: Value, *carries: Value) -> list[Operand]:
            inner: list[Operand] = [*pool, *carries]
            self.scalars.append(count)
            around = [*steps, dim] if counted else list(steps)
            self.grow(inner, self.random.randint(2, 5), depth + 1, around)
            if self.certain and self.random.random() < 0.6:
                self.store(inner[-1], around)
            following = build.map("add", count, constant(1, np.int32))
            results = [self.pick(inner, carry.dtype) for carry in carries]
            return [following, *results]

        def go_on(count: Value, *carries: Value) -> Operand:
            return build.map("lt", count, bound, dtype=np.bool_)

        self.certain = certain and counted
        outs = build.loop(inits, step, length, None if counted else go_on, levels)
        self.scalars, self.certain = [*known, outs[0]], certain
        pool += outs[1:]

    def branch(self, pool: list[Operand], depth: int, steps: Sequence[int]) -> None:
        index = self.random.choice(self.scalars)
        dtypes = self.random.choices(_DTYPES, k=self.random.randint(1, 4))
        known, certain = list(self.scalars), self.certain
        self.certain = False

        def block() -> list[Operand]:
            inner = list(pool)
            self.scalars = list(known)
            self.grow(inner, self.random.randint(0, 4), depth + 1, steps)
            return [self.pick(inner, dtype) for dtype in dtypes]

        outs = self.build.branch(index, *[block] * self.random.randint(2, 3))
        self.scalars, self.certain = known, certain
        pool += outs

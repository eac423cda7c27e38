"""Builds kernels with loops and branches by hand, and runs them by the interpreter."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minijit.graph.index import Affine
from minijit.lowering.check import check_kernel
from minijit.lowering.kernel_ir import (
    Block,
    Branch,
    Buffer,
    Kernel,
    Level,
    Loop,
    Node,
    Operand,
    Role,
    Store,
    Value,
    with_blocks,
)
from minijit.lowering.lower import Lowered
from tests.lowering.interpret import run_kernel
from tests.lowering.kernel_builder import Builder

__all__ = ["LoopBuilder", "interpret"]

Array = np.ndarray[Any, Any]


class LoopBuilder(Builder):
    """``strides`` of an index give one stride a row, a column, then a step of each loop so far."""

    def __init__(self, rows: Sequence[int], cols: Sequence[int] = ()) -> None:
        super().__init__(rows, cols)
        self.steps: list[int] = []
        self.count = 0

    def affine(self, strides: Sequence[int], offset: int) -> Affine:
        spans = (*self.rows, *self.cols, *self.steps)
        return Affine(offset, tuple((d, s) for d, s in enumerate(strides) if s and spans[d] != 1))

    def value(self, dtype: Any, level: Level) -> Value:
        self.count += 1
        return Value(f"v{self.count - 1}", np.dtype(dtype), level)

    def level(self, index: Affine) -> Level:
        points = [dim for dim in index.dims if dim < len(self.rows) + len(self.cols)]
        return super().level(Affine(0, tuple((dim, 1) for dim in points)))

    def size(self, index: Affine) -> int:
        return index.bounds([max(n, 1) for n in (*self.rows, *self.cols, *self.steps)])[1] + 1

    def again(self, value: Operand, strides: Sequence[int], output: int, offset: int = 0) -> None:
        """Store to an output that another block stores to as well."""
        index = self.affine(strides, offset)
        level = value.level if isinstance(value, Value) else Level.LAUNCH
        self.body.append(Store(-1 - output, index, value, max(level, self.level(index), Level.ROW)))

    def loop(
        self,
        inits: Sequence[Operand],
        step: Callable[..., Sequence[Operand]],
        length: int | None = None,
        condition: Callable[..., Operand] | None = None,
        levels: Sequence[Level] | None = None,
    ) -> tuple[Value, ...]:
        """Add a loop; ``step`` and ``condition`` get the carries and add what happens.

        ``levels`` are those of the carries: by default that of all points.
        """
        levels = levels or [Level.CELL if self.cols else Level.ROW] * len(inits)
        pairs = list(zip(inits, levels, strict=True))
        carries = tuple(self.value(init.dtype, level) for init, level in pairs)
        dim = len(self.rows) + len(self.cols) + len(self.steps)
        self.steps.append(1 if length is None else length)
        test = None if condition is None else self._block(lambda: (condition(*carries),))
        body = self._block(lambda: step(*carries))
        outs = tuple(self.value(init.dtype, level) for init, level in pairs)
        node = Loop(outs, tuple(inits), carries, body, dim, length, test, "model.py:20")
        self.body.append(node)  # type: ignore[arg-type]
        return outs

    def branch(self, index: Operand, *blocks: Callable[[], Sequence[Operand]]) -> tuple[Value, ...]:
        """Add a branch whose blocks are what the functions add."""
        found = tuple(self._block(block) for block in blocks)
        points = Level.CELL if self.cols else Level.ROW
        outs = tuple(self.value(result.dtype, points) for result in found[0].results)
        self.body.append(Branch(outs, index, found, "model.py:30"))  # type: ignore[arg-type]
        return outs

    def _block(self, make: Callable[[], Sequence[Operand]]) -> Block:
        with self._inside() as body:
            results = tuple(make())
        return Block(tuple(body), results)

    @contextlib.contextmanager
    def _inside(self) -> Iterator[list[Node]]:
        outer, self.body = self.body, []
        yield self.body  # type: ignore[misc]
        self.body = outer

    def kernel(self, name: str = "kernel") -> Kernel:
        def placed(node: Node) -> Node:
            if isinstance(node, Store):
                return Store(len(self.inputs) - node.buffer - 1, node.index, node.value, node.level)
            return with_blocks(node, lambda b: Block(tuple(map(placed, b.body)), b.results))

        kernel = Kernel(
            name,
            self.rows,
            self.cols,
            (*self.inputs, *self.outputs),
            tuple(self.arguments),
            tuple(map(placed, self.body)),
            steps=tuple(self.steps),
        )
        check_kernel(kernel)
        return kernel


def interpret(kernel: Kernel, inputs: Sequence[Array], scalars: Sequence[Any] = ()) -> list[Array]:
    """Return the outputs of a kernel by the reference interpreter."""
    buffers: tuple[Buffer, ...] = kernel.buffers
    memory: dict[Any, Any] = dict(zip(kernel.inputs, inputs, strict=True))
    memory |= zip(kernel.arguments, scalars, strict=True)
    run_kernel(Lowered(kernel, buffers, kernel.arguments), memory)  # type: ignore[arg-type]
    return [memory[buffer] for buffer in buffers if buffer.role is Role.OUTPUT]

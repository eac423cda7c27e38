"""Builds kernels by hand and computes them with NumPy, for tests of schedules."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minijit.api import load_operations
from minijit.graph.index import Affine
from minijit.graph.primitive import Monoid, Primitive, all_primitives
from minijit.lowering.kernel_ir import (
    Argument,
    Buffer,
    Constant,
    Guard,
    Index,
    Kernel,
    Level,
    Load,
    Map,
    Operand,
    Read,
    Reduce,
    Role,
    Statement,
    Store,
    Value,
)

load_operations()
OPS: dict[str, Primitive] = {primitive.name: primitive for primitive in all_primitives()}
CONVERT = "convert_element_type"
MONOIDS: dict[str, Monoid] = {p.monoid.name: p.monoid for p in OPS.values() if p.monoid}


class Builder:
    """Appends statements; ``strides`` give an index: one stride a dimension, rows then columns."""

    def __init__(
        self, rows: Sequence[int], cols: Sequence[int] = (), ragged: int | None = None
    ) -> None:
        self.rows, self.cols, self.ragged = tuple(rows), tuple(cols), ragged
        self.inputs: list[Buffer] = []
        self.outputs: list[Buffer] = []
        self.arguments: list[Argument] = []
        self.body: list[Statement] = []

    def affine(self, strides: Sequence[int], offset: int) -> Affine:
        extents = self.rows + self.cols
        return Affine(offset, tuple((d, s) for d, s in enumerate(strides) if s and extents[d] != 1))

    def value(self, dtype: Any, level: Level) -> Value:
        return Value(f"v{len(self.body)}", np.dtype(dtype), level)

    def level(self, index: Affine) -> Level:
        if not index.dims:
            return Level.LAUNCH
        return Level.CELL if max(index.dims) >= len(self.rows) else Level.ROW

    def size(self, index: Affine) -> int:
        return index.bounds([max(extent, 1) for extent in self.rows + self.cols])[1] + 1

    def load(
        self,
        strides: Sequence[int],
        dtype: Any = np.float32,
        *,
        offset: int = 0,
        size: int | None = None,
        guard: Operand | None = None,
        buffer: int | None = None,
    ) -> Value:
        """Load from an array of its own, or from input ``buffer`` again."""
        index = self.affine(strides, offset)
        if buffer is None:
            buffer = len(self.inputs)
            size = self.size(index) if size is None else size
            self.inputs.append(Buffer(f"x{buffer}", np.dtype(dtype), Role.INPUT, True, size))
        out = self.value(dtype, self.level(index))
        if isinstance(guard, Value):
            out = dataclasses.replace(out, level=max(out.level, guard.level))
        self.body.append(Load(out, buffer, index, guard))
        return out

    def read(self, dtype: Any = np.float32) -> Value:
        self.arguments.append(Argument(f"s{len(self.arguments)}", np.dtype(dtype)))
        out = self.value(dtype, Level.LAUNCH)
        self.body.append(Read(out, len(self.arguments) - 1))
        return out

    def index(self, strides: Sequence[int], offset: int = 0) -> Value:
        index = self.affine(strides, offset)
        out = self.value(np.int64, self.level(index))
        self.body.append(Index(out, index))
        return out

    def guard(self, *conditions: tuple[Affine, int, int]) -> Value:
        level = max(self.level(index) for index, _, _ in conditions)
        out = self.value(np.bool_, level)
        self.body.append(Guard(out, conditions))
        return out

    def map(self, op: str, *args: Operand, dtype: Any = None) -> Value:
        levels = [arg.level for arg in args if isinstance(arg, Value)]
        out = self.value(dtype or args[-1].dtype, max(levels, default=Level.LAUNCH))
        cast = {"dtype": out.dtype, "weak_type": False} if op == CONVERT else {}
        self.body.append(Map(out, OPS[op], args, cast, "model.py:12"))
        return out

    def convert(self, arg: Operand, dtype: Any) -> Value:
        return self.map(CONVERT, arg, dtype=dtype)

    def reduce(self, monoid: str, *args: Operand, accumulators: Sequence[Any] = ()) -> Value:
        kinds = tuple(map(np.dtype, accumulators or [arg.dtype for arg in args]))
        out = self.value(args[MONOIDS[monoid].result].dtype, Level.ROW)
        self.body.append(Reduce(out, MONOIDS[monoid], args, kinds, "model.py:12"))
        return out

    def store(self, value: Operand, strides: Sequence[int], *, offset: int = 0) -> None:
        index = self.affine(strides, offset)
        name = f"y{len(self.outputs)}"
        self.outputs.append(Buffer(name, value.dtype, Role.OUTPUT, True, self.size(index)))
        level = value.level if isinstance(value, Value) else Level.ROW
        level = max(level, self.level(index), Level.ROW)
        # Outputs are numbered from the end until the number of inputs is known.
        self.body.append(Store(-len(self.outputs), index, value, level))

    def kernel(self, name: str = "kernel") -> Kernel:
        def placed(statement: Statement) -> Statement:
            if not isinstance(statement, Store):
                return statement
            return dataclasses.replace(statement, buffer=len(self.inputs) - statement.buffer - 1)

        buffers = (*self.inputs, *self.outputs)
        body = tuple(placed(statement) for statement in self.body)
        return Kernel(name, self.rows, self.cols, buffers, tuple(self.arguments), body, self.ragged)


def constant(number: Any, dtype: Any = np.float32) -> Constant:
    """Return a typed constant."""
    return Constant(np.dtype(dtype).type(number), np.dtype(dtype))


def random_inputs(kernel: Kernel, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Return one flat array for each input buffer."""
    random = np.random.default_rng(seed)
    return [
        random.integers(0, 2, b.size).astype(b.dtype)
        if b.dtype.kind == "b"
        else random.integers(-9, 9, b.size).astype(b.dtype)
        if b.dtype.kind in "iu"
        else random.standard_normal(b.size).astype(b.dtype)
        for b in kernel.buffers
        if b.role is Role.INPUT
    ]


def evaluate(
    kernel: Kernel, inputs: Sequence[np.ndarray[Any, Any]], scalars: Sequence[Any] = ()
) -> list[np.ndarray[Any, Any]]:
    """Compute a kernel with NumPy, one whole-space array for each value."""
    extents = kernel.extents
    grid = np.indices(extents)
    row_axes = len(kernel.rows)
    exists = np.ones(extents, bool)
    if kernel.ragged is not None:
        exists = grid[0] * kernel.cols[0] + grid[row_axes] < kernel.ragged
    values: dict[Value, Any] = {}
    outputs = {
        n: np.zeros(b.size, b.dtype) for n, b in enumerate(kernel.buffers) if b.role is Role.OUTPUT
    }

    def at(index: Affine) -> Any:
        return index.offset + sum(stride * grid[dim] for dim, stride in index.terms) + 0 * exists

    def of(operand: Operand) -> Any:
        return values[operand] if isinstance(operand, Value) else operand.value

    for statement in kernel.body:
        match statement:
            case Load(out, buffer, index, guard):
                there = exists if guard is None else exists & of(guard)
                found = inputs[buffer][np.where(there, at(index), 0)]
                values[out] = np.where(there, found, out.dtype.type(0))
            case Read(out, argument):
                values[out] = out.dtype.type(scalars[argument])
            case Index(out, index):
                values[out] = at(index)
            case Guard(out, conditions):
                holds = [(at(index) >= low) & (at(index) < high) for index, low, high in conditions]
                values[out] = np.logical_and.reduce(holds)
            case Map(out, op, args, params):
                with np.errstate(all="ignore"):
                    result = op.eager(np, *map(of, args), **params)
                values[out] = np.asarray(result).astype(out.dtype)
            case Reduce():
                values[statement.out] = _reduced(kernel, statement, of, exists)
            case Store(buffer, index, value):
                where = np.broadcast_to(at(index), extents)[exists]
                outputs[buffer][where] = np.broadcast_to(of(value), extents)[exists]
    return list(outputs.values())


def _reduced(kernel: Kernel, statement: Reduce, of: Any, exists: Any) -> Any:
    axes = tuple(range(len(kernel.rows), len(kernel.extents)))
    cells = np.broadcast_to(of(statement.args[0]), kernel.extents)
    name = statement.monoid.name
    if statement.monoid.position:
        flat = cells.reshape(*kernel.rows, math.prod(kernel.cols))
        result = getattr(np, name)(flat, axis=-1)
        return np.expand_dims(result, axes)
    identity = statement.monoid.identity(statement.accumulators[0])[0]
    cells = np.where(exists, cells.astype(statement.accumulators[0]), identity)
    kind = cells.dtype if cells.dtype.kind != "f" else np.float64
    functions = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
    functions |= {"any": np.logical_or, "all": np.logical_and}
    total = functions[name].reduce(cells.astype(kind), axis=axes, keepdims=True)
    return total.astype(statement.out.dtype)

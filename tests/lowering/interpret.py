"""A reference interpreter of the kernel IR: NumPy over the whole iteration space at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijit.graph.index import Affine
from minijit.lowering.kernel_ir import (
    Guard,
    Index,
    Kernel,
    Load,
    Map,
    Operand,
    Read,
    Reduce,
    Role,
    Store,
    Value,
)
from minijit.lowering.lower import Lowered


def run_kernel(lowered: Lowered, memory: dict[Any, np.ndarray]) -> None:
    """Run ``lowered`` on ``memory``: flat storage by variable; outputs are added to it."""
    kernel = lowered.kernel
    buffers = []
    for buffer, var in zip(kernel.buffers, lowered.buffers, strict=True):
        if buffer.role is Role.OUTPUT:
            memory[var] = np.zeros(buffer.size, buffer.dtype)
            buffers.append(memory[var])
        else:
            buffers.append(memory[var])
    grid = np.indices(kernel.extents) if kernel.extents else np.zeros((0,))
    values: dict[Value, np.ndarray] = {}
    live = np.ones(kernel.extents, bool)
    if kernel.ragged is not None:
        live = grid[len(kernel.rows) - 1] * kernel.cols[0] + grid[-1] < kernel.ragged

    def index(affine: Affine) -> np.ndarray:
        result = np.full(kernel.extents, affine.offset)
        for dim, stride in affine.terms:
            result = result + stride * grid[dim]
        return result

    def read(operand: Operand) -> Any:
        return values[operand] if isinstance(operand, Value) else operand.value

    cols = tuple(range(len(kernel.rows), len(kernel.extents)))
    for statement in kernel.body:
        match statement:
            case Load():
                place, mask = index(statement.index), live
                if statement.guard is not None:
                    mask = mask & read(statement.guard)
                data = buffers[statement.buffer]
                loaded = data[np.where(mask, place, 0)]
                values[statement.out] = np.where(mask, loaded, np.zeros((), data.dtype))
            case Read():
                scalar = memory[lowered.arguments[statement.argument]]
                values[statement.out] = np.asarray(scalar).astype(statement.out.dtype)
            case Index():
                values[statement.out] = index(statement.index)
            case Guard():
                holds = np.ones(kernel.extents, bool)
                for expression, low, high in statement.conditions:
                    at = index(expression)
                    holds &= (low <= at) & (at < high)
                values[statement.out] = holds
            case Map():
                args = [read(arg) for arg in statement.args]
                params = dict(statement.params)
                with np.errstate(all="ignore"):
                    result = statement.op.eager(np, *args, **params)
                values[statement.out] = np.asarray(result).astype(statement.out.dtype)
            case Reduce():
                values[statement.out] = _reduce(statement, read, kernel, live, cols)
            case Store():
                place = np.broadcast_to(index(statement.index), kernel.extents)
                value = np.broadcast_to(read(statement.value), kernel.extents)
                buffers[statement.buffer][place[live]] = value[live]


def _reduce(statement: Reduce, read: Any, kernel: Kernel, live: np.ndarray, cols: Any) -> np.ndarray:
    dtype = statement.accumulators[0]
    values = [np.broadcast_to(read(arg), kernel.extents).astype(a)
              for arg, a in zip(statement.args, statement.accumulators, strict=True)]
    combine = statement.monoid.combine(dtype)
    identity = statement.monoid.identity(dtype)
    out = np.zeros(kernel.rows, statement.out.dtype)
    for row in np.ndindex(*kernel.rows):
        state: Any = tuple(np.asarray(i).astype(a)[()] for i, a in zip(identity, statement.accumulators, strict=True))
        for place in np.argwhere(live[row]):
            element = tuple(value[row][tuple(place)] for value in values)
            new = combine(*state, *element)
            state = new if isinstance(new, tuple) else (new,)
            state = tuple(np.asarray(s).astype(a)[()] for s, a in zip(state, statement.accumulators, strict=True))
        out[row] = state[statement.monoid.result]
    return out.reshape(kernel.rows + (1,) * len(cols))

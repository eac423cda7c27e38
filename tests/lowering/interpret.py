"""A reference interpreter of the kernel IR: NumPy over the whole iteration space at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from minijit.graph.few_rows import FewRows
from minijit.graph.index import Affine
from minijit.graph.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from minijit.graph.layout import Layout
from minijit.lowering.check import check_kernel
from minijit.lowering.demand import Program
from minijit.lowering.kernel_ir import (
    Branch,
    Guard,
    Index,
    Kernel,
    Load,
    Loop,
    Map,
    Node,
    Operand,
    Place,
    Product,
    Read,
    Reduce,
    Role,
    Store,
    Value,
)
from minijit.lowering.lower import Lowered, lower_group
from minijit.lowering.partition import Partition, partition
from minijit.lowering.split import split_reduction

__all__ = ["Memory", "run_kernel", "run_program"]

Array = npt.NDArray[Any]
Memory = dict[Var, Any]
"""Flat storage by variable; scalars that are passed by value as they are."""

FEW_ROWS = FewRows(32)


def run_program(
    jaxpr: Jaxpr, args: Sequence[Any], few_rows: FewRows = FEW_ROWS
) -> tuple[list[Array], Partition]:
    """Partition, lower, check and interpret an optimized program.

    Returns:
        Its results, and how it was partitioned.
    """
    program = Program(jaxpr)
    parts = partition(program, few_rows)
    values: dict[Var, Array] = dict(zip(jaxpr.invars, args, strict=True))
    values.update(zip(jaxpr.constvars, jaxpr.consts, strict=True))
    by_value = {v: Layout((), by_value=True) for v, x in values.items() if not hasattr(x, "flags")}
    by_value |= {v: Layout((), by_value=True) for v, x in values.items() if np.isscalar(x)}
    memory: Memory = {v: x if v in by_value else np.ravel(x) for v, x in values.items()}

    def shaped(atom: Any) -> Any:
        if isinstance(atom, Literal):
            return atom.value
        return memory[atom] if atom in by_value else memory[atom].reshape(atom.aval.shape)

    for step in parts.steps:
        if isinstance(step, JaxprEqn):
            result = step.primitive.eager(np, *map(shaped, step.invars), **step.params)
            results = result if step.primitive.multiple_results else (result,)
            for var, value in zip(step.outvars, results, strict=True):
                assert (np.shape(value), value.dtype) == (var.aval.shape, var.aval.dtype)
                memory[var] = np.ravel(value)
            continue
        lowered = lower_group(program, step, parts.stored, by_value, "kernel")
        for part in split_reduction(lowered, few_rows) if step.split else (lowered,):
            check_kernel(part.kernel)
            run_kernel(part, memory)
    return [shaped(atom) for atom in jaxpr.outvars], parts


def run_kernel(lowered: Lowered, memory: Memory) -> None:
    """Run ``lowered`` on ``memory``; its outputs are added there."""
    _Run(lowered, memory).body()


class _Run:
    def __init__(self, lowered: Lowered, memory: Memory) -> None:
        self.kernel: Kernel = lowered.kernel
        for buffer, var in zip(self.kernel.buffers, lowered.buffers, strict=True):
            if buffer.role is Role.OUTPUT:
                assert var not in memory, "a value is computed twice"
                memory[var] = np.zeros(buffer.size, buffer.dtype)
        self.buffers: list[Array] = [memory[var] for var in lowered.buffers]
        self.scalars = [memory[var] for var in lowered.arguments]
        self.written = [np.zeros(buffer.size, bool) for buffer in self.kernel.buffers]
        self.grid = np.indices(self.kernel.extents)
        self.live = np.ones(self.kernel.extents, bool)
        if self.kernel.ragged is not None:
            block, column = self.grid[0], self.grid[-1]
            self.live = block * self.kernel.cols[0] + column < self.kernel.ragged
        self.going = self.live
        self.steps = [0] * len(self.kernel.steps)
        self.values: dict[Value, Array] = {}

    def body(self) -> None:
        with np.errstate(all="ignore"):
            self.run(self.kernel.body)
        for buffer, written in zip(self.kernel.buffers, self.written, strict=True):
            assert buffer.role is Role.INPUT or written.all(), f"{buffer.name} is not complete"

    def run(self, body: Sequence[Node]) -> None:
        for node in body:
            match node:
                case Loop():
                    self.loop(node)
                case Branch():
                    count = len(node.blocks)
                    chosen = int(self.alike(node.index))
                    block = node.blocks[chosen if 0 <= chosen < count else count - 1]
                    self.run(block.body)
                    self.values |= zip(node.outs, map(self.read, block.results), strict=True)
                case Store():
                    self.store(node)
                case _:
                    self.values[node.out] = self.compute(node)

    def loop(self, loop: Loop) -> None:
        """Take the steps, every point its own; one that is done keeps what it has."""
        self.values |= zip(loop.carries, map(self.read, loop.inits), strict=True)
        around = going = self.going
        for step in itertools.count() if loop.length is None else range(loop.length):
            if loop.condition is not None:
                self.run(loop.condition.body)
                going = around & self.read(loop.condition.results[0])
                if not going.any():
                    break
                self.going = going
            else:
                self.steps[loop.dim - len(self.kernel.extents)] = step
            self.run(loop.body.body)
            pairs = zip(loop.carries, loop.body.results, strict=True)
            results = [(carry, self.read(carry), self.read(new)) for carry, new in pairs]
            alike = loop.condition is None or bool((going == around).all())
            self.values |= {
                carry: new if alike else np.where(going, new, old) for carry, old, new in results
            }
        self.going = around
        self.values |= zip(loop.outs, map(self.read, loop.carries), strict=True)

    def alike(self, operand: Operand) -> Any:
        """Return what all points agree on."""
        values = np.broadcast_to(self.read(operand), self.kernel.extents)[self.live]
        assert (values == values.flat[0]).all(), "points differ in what they do"
        return values.flat[0]

    def at(self, index: Affine) -> Array:
        places = (*self.grid, *self.steps)
        terms = (stride * places[dim] for dim, stride in index.terms)
        return sum(terms, np.full(self.kernel.extents, index.offset))

    def read(self, operand: Operand) -> Any:
        return self.values[operand] if isinstance(operand, Value) else operand.value

    def compute(self, statement: Any) -> Array:
        out = statement.out
        match statement:
            case Load():
                return self.load(statement)
            case Read():
                return np.asarray(self.scalars[statement.argument]).astype(out.dtype)
            case Index():
                return self.at(statement.index)
            case Guard():
                within = [
                    (low <= self.at(e)) & (self.at(e) < high)
                    for e, low, high in statement.conditions
                ]
                return np.logical_and.reduce(within)
            case Map():
                args = map(self.read, statement.args)
                result = statement.op.eager(np, *args, **statement.params)
                return np.asarray(result).astype(out.dtype)
            case Product():
                return self.product(statement)
            case _:
                return self.reduce(statement)

    def load(self, statement: Load) -> Array:
        data, live = self.buffers[statement.buffer], self.live
        if statement.guard is not None:
            live = live & self.read(statement.guard)
        index = self.at(statement.index)
        assert not live.any() or 0 <= index[live].min() <= index[live].max() < data.size
        return np.where(live, data[np.where(live, index, 0)], np.zeros((), data.dtype))

    def store(self, statement: Store) -> None:
        place = self.at(statement.index)[self.live]
        value = np.broadcast_to(self.read(statement.value), self.kernel.extents)[self.live]
        self.buffers[statement.buffer][place] = value
        self.written[statement.buffer][place] = True

    def product(self, statement: Product) -> Array:
        """Add up the terms one after the other."""
        row, number = statement.row, statement.dim - len(self.kernel.extents)
        total = np.zeros(self.kernel.extents, statement.out.dtype)
        for term in range(statement.terms):
            self.steps[number] = term
            if isinstance(row, Place):
                factor = self.buffers[row.buffer][self.at(row.index)]
            else:
                cells = np.broadcast_to(self.read(row), self.kernel.extents)
                factor = cells[..., term : term + 1]
            other = self.buffers[statement.matrix.buffer][self.at(statement.matrix.index)]
            total += factor.astype(total.dtype) * other.astype(total.dtype)
        return total

    def reduce(self, statement: Reduce) -> Array:
        """Combine the cells of each row one after the other by the monoid's own scalar code."""
        monoid, dtypes = statement.monoid, statement.accumulators
        combine = monoid.combine(dtypes[0])
        identity = tuple(monoid.identity(dtypes[0]))
        count = math.prod(self.kernel.cols)
        rows = math.prod(self.kernel.rows)
        columns = [
            np.broadcast_to(self.read(arg), self.kernel.extents).astype(dtype).reshape(rows, count)
            for arg, dtype in zip(statement.args, dtypes, strict=True)
        ]
        live = self.live.reshape(rows, count)
        out = np.zeros(rows, statement.out.dtype)
        for row in range(rows):
            cells = zip(*(column[row][live[row]] for column in columns), strict=True)
            out[row] = _folded(combine, identity, dtypes, cells)[monoid.result]
        return out.reshape(*self.kernel.rows, *(1 for _ in self.kernel.cols))


def _folded(combine: Callable[..., Any], state: Any, dtypes: Any, cells: Any) -> tuple[Any, ...]:
    state = tuple(dtype.type(s) for s, dtype in zip(state, dtypes, strict=True))
    for cell in cells:
        new = combine(*state, *cell)
        parts = new if isinstance(new, tuple) else (new,)
        state = tuple(dtype.type(part) for part, dtype in zip(parts, dtypes, strict=True))
    return state

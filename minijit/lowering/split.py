"""Splitting: a long or tall reduction becomes two kernels, parts and their combination."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.few_rows import FewRows
from minijit.graph.index import Affine
from minijit.graph.jaxpr import Var
from minijit.lowering.coalesce import coalesce
from minijit.lowering.kernel_ir import (
    Buffer,
    Gather,
    Guard,
    Index,
    Kernel,
    Level,
    Load,
    Map,
    Operand,
    Reduce,
    Role,
    Statement,
    Store,
    Value,
)
from minijit.lowering.lower import Lowered
from minijit.lowering.stages import accesses, operands, reads_along_rows, stage_kernel

__all__ = ["is_tall", "split_columns", "split_reduction"]

_MOST_CELLS = 1 << 14  # of a block: enough to stream, few enough for many blocks
_ABREAST = 32  # rows that are read side by side where they are neighbours in memory
_MOST_BLOCKS = 1 << 10  # partial results of a row, which one block of the second kernel combines
_TALL_BYTES = 1 << 18  # what a block of tall columns reads: a second cache holds it
_FEWEST_COLUMNS = 64  # of such a block: what it leaves is a part of what it reads that is as small
_FEWEST_TALL_BLOCKS = 16  # of less a second kernel costs more than the order of one
_FEWEST_LANES = 8  # rows side by side that make it columns


def is_tall(lowered: Lowered) -> bool:
    """Whether the columns of a kernel are walked in the order of memory only in blocks of them.

    Some adjacent rows, all of their columns, are short runs in a large array: each is on another
    page, and no prefetcher sees the next one.
    """
    kernel = coalesce(lowered.kernel)
    return (
        len(kernel.cols) == 1
        and reads_along_rows(kernel)
        and kernel.rows[-1] >= _FEWEST_LANES
        and kernel.cols[0] >= _FEWEST_TALL_BLOCKS * _tall_block(kernel)
        and len(stage_kernel(kernel).stages) == 1
    )


def split_reduction(lowered: Lowered, few_rows: FewRows) -> tuple[Lowered, Lowered]:
    """Return two kernels that compute what ``lowered`` does; its cells depend on no reduction.

    Blocks are as short as it takes to fill the target, but not shorter than those of ``few_rows``.

    Before: ``row v1 = reduce sum v0`` over 4194304 columns of one row. After: the first kernel has
    rows=(256,) cols=(16384,) and stores 256 partial sums, the second has rows=() cols=(256,).
    """
    kernel = coalesce(lowered.kernel)
    abreast = min(math.prod(kernel.rows), _ABREAST) if reads_along_rows(kernel) else 1
    last = kernel.cols[-1]
    filling = math.prod(kernel.extents) // few_rows.rows
    cells = max(min(1 << filling.bit_length(), _MOST_CELLS), few_rows.block)
    length = min(last, max(cells // abreast, -(-last // _MOST_BLOCKS)))
    splitter = _Splitter(lowered, length)
    return splitter.first(), splitter.second()


def split_columns(lowered: Lowered) -> tuple[Lowered, Lowered]:
    """Return the same for a kernel that is tall.

    Before: 30000 columns of 1000 adjacent rows. After: the first kernel has rows=(400, 1000)
    cols=(75,), the second rows=(1000,) cols=(400,).
    """
    kernel = coalesce(lowered.kernel)
    splitter = _Splitter(lowered, _even(kernel.cols[-1], _tall_block(kernel)))
    return splitter.first(), splitter.second()


def _tall_block(kernel: Kernel) -> int:
    loads = (access for access in accesses(kernel) if isinstance(access, Load))
    size = max((kernel.buffers[load.buffer].dtype.itemsize for load in loads), default=1)
    return max(_TALL_BYTES // (size * kernel.rows[-1]), _FEWEST_COLUMNS)


def _even(extent: int, wanted: int) -> int:
    """Return the length of blocks: near the wanted one that which leaves no smaller last block."""
    near = range(wanted // 2 + 1, wanted + wanted // 2)
    fitting = (length for length in near if extent % length == 0)
    return min(fitting, key=lambda length: abs(length - wanted), default=wanted)


class _Splitter:
    """The first half counts blocks, then rows, then a block's columns: rows stay neighbours."""

    def __init__(self, lowered: Lowered, length: int) -> None:
        """Cut the last column dimension into blocks of ``length``."""
        self.lowered = lowered
        self.kernel = kernel = coalesce(lowered.kernel)
        self.rows = len(kernel.rows)
        *outer, last = kernel.cols
        self.columnar = reads_along_rows(kernel)
        self.blocks = (-(-last // length), *outer)
        self.columns = length
        self.ragged = last if last % length else None
        self.reduces = [s for s in kernel.statements if isinstance(s, Reduce)]
        size = math.prod((*kernel.rows, *self.blocks))
        dtypes = [dtype for reduce in self.reduces for dtype in reduce.accumulators]
        self.partials = tuple(Var(ShapedArray((size,), np.dtype(dtype))) for dtype in dtypes)
        late: set[Value] = set()
        self.late: list[Statement] = []
        for statement in kernel.statements:
            if isinstance(statement, Reduce) or late.intersection(operands(statement)):
                self.late.append(statement)
                if not isinstance(statement, Store):
                    late.add(statement.out)

    def first(self) -> Lowered:
        """Return the kernel of the parts; it also stores whatever belongs to single cells."""
        last, count = len(self.kernel.extents) - 1, len(self.blocks)
        moved = [*range(count, count + self.rows), *range(1, count)]
        replaced = {old: Affine(0, ((new, 1),)) for old, new in enumerate(moved)}
        replaced[last] = Affine(0, ((0, self.columns), (last + 1, 1)))
        body: list[Statement] = []
        renamed: dict[Value, Value] = {}
        for statement in self.kernel.statements:
            if statement in self.late and not isinstance(statement, Reduce):
                continue
            if isinstance(statement, Reduce):
                body += self._partials(statement, renamed)
            elif not (isinstance(statement, Store) and statement.level is not Level.CELL):
                body.append(_reindexed(statement, replaced, last + 1, renamed))
        kernel = dataclasses.replace(
            self.kernel,
            name=f"{self.kernel.name}_partial",
            rows=(*self.blocks, *self.kernel.rows),
            cols=(self.columns,),
            buffers=(*self.kernel.buffers, *self._partial_buffers(Role.OUTPUT)),
            body=tuple(body),
            ragged=self.ragged,
        )
        return pruned(
            Lowered(kernel, (*self.lowered.buffers, *self.partials), self.lowered.arguments)
        )

    def second(self) -> Lowered:
        """Return the kernel that combines the partial results and goes on with what follows."""
        body: list[Statement] = []
        start = len(self.kernel.buffers)
        fresh = 0
        for statement in self.kernel.statements:
            if isinstance(statement, Reduce):
                args: list[Operand] = []
                for dtype in statement.accumulators:
                    value = Value(f"p{fresh}", dtype, Level.CELL)
                    body.append(Load(value, start + fresh, self._partial_index(first=False)))
                    args.append(value)
                    fresh += 1
                body.append(
                    dataclasses.replace(
                        statement,
                        args=tuple(args),
                        accumulators=_totals(statement),
                        monoid=dataclasses.replace(statement.monoid, element=None),
                    )
                )
            elif isinstance(statement, Store):
                if statement.level is not Level.CELL:
                    body.append(statement)
            elif statement.out.level is not Level.CELL:
                body.append(statement)
        count = math.prod(self.blocks)
        kernel = dataclasses.replace(
            self.kernel,
            cols=(count,),
            buffers=(*self.kernel.buffers, *self._partial_buffers(Role.INPUT)),
            body=tuple(body),
        )
        return pruned(
            Lowered(kernel, (*self.lowered.buffers, *self.partials), self.lowered.arguments)
        )

    def _partials(self, reduce: Reduce, renamed: dict[Value, Value]) -> list[Statement]:
        """Reduce one block, a statement and a store for each component."""
        statements: list[Statement] = []
        args = tuple(renamed.get(a, a) if isinstance(a, Value) else a for a in reduce.args)
        position = sum(len(r.accumulators) for r in self.reduces[: self.reduces.index(reduce)])
        for component, dtype in enumerate(reduce.accumulators):
            out = Value(f"{reduce.out.name}_{component}", dtype, Level.ROW)
            monoid = dataclasses.replace(reduce.monoid, result=component, finish=None)
            statements.append(dataclasses.replace(reduce, out=out, monoid=monoid, args=args))
            buffer = len(self.kernel.buffers) + position + component
            statements.append(Store(buffer, self._partial_index(first=True), out, Level.ROW))
        return statements

    def _partial_index(self, *, first: bool) -> Affine:
        """Return the place of a row's part in one of the halves, as the second reads them fast."""
        blocks = list(enumerate(self.blocks)) if first else [(self.rows, math.prod(self.blocks))]
        rows = list(enumerate(self.kernel.rows, len(blocks) if first else 0))
        dims = blocks + rows if self.columnar else rows + blocks
        terms, step = [], 1
        for dim, extent in reversed(dims):
            terms.append((step, Affine.dim(dim, extent)))
            step *= extent
        return Affine.total(terms)

    def _partial_buffers(self, role: Role) -> tuple[Buffer, ...]:
        return tuple(
            Buffer(f"partial{n}", var.aval.dtype, role, True, var.aval.size)
            for n, var in enumerate(self.partials)
        )


def _totals(reduce: Reduce) -> tuple[np.dtype[Any], ...]:
    """Return the dtypes in which partial results are combined.

    Sums of float32 are added up in float64: the sum of so few large numbers would lose more in
    float32 than those of all elements before.
    """
    if reduce.monoid.name == "sum" and reduce.accumulators == (np.dtype(np.float32),):
        return (np.dtype(np.float64),)
    return reduce.accumulators


def _reindexed(
    statement: Statement, replaced: dict[int, Affine], rows: int, renamed: dict[Value, Value]
) -> Statement:
    """Rewrite a statement's indices, and with them the level of what it computes."""

    def level(*indices: Affine) -> Level:
        dims = [dim for index in indices for dim in index.dims]
        if any(dim >= rows for dim in dims):
            return Level.CELL
        return Level.ROW if dims else Level.LAUNCH

    def operand(value: Operand) -> Operand:
        return renamed.get(value, value) if isinstance(value, Value) else value

    def levels(*values: Operand | None) -> Level:
        return max((v.level for v in values if isinstance(v, Value)), default=Level.LAUNCH)

    def rename(out: Value, new: Level) -> Value:
        renamed[out] = dataclasses.replace(out, level=new)
        return renamed[out]

    match statement:
        case Load():
            index = statement.index.substituted(replaced)
            guard = None if statement.guard is None else operand(statement.guard)
            out = rename(statement.out, max(level(index), levels(guard)))
            return dataclasses.replace(statement, out=out, index=index, guard=guard)
        case Gather():
            index = statement.index.substituted(replaced)
            positions = tuple(map(operand, statement.positions))
            guard = None if statement.guard is None else operand(statement.guard)
            out = rename(statement.out, max(level(index), levels(guard, *positions)))
            return dataclasses.replace(
                statement, out=out, index=index, positions=positions, guard=guard
            )
        case Index():
            index = statement.index.substituted(replaced)
            return Index(rename(statement.out, level(index)), index)
        case Guard():
            conditions = tuple((e.substituted(replaced), a, b) for e, a, b in statement.conditions)
            return Guard(rename(statement.out, level(*(e for e, _, _ in conditions))), conditions)
        case Map():
            args = tuple(map(operand, statement.args))
            return dataclasses.replace(
                statement, out=rename(statement.out, levels(*args)), args=args
            )
        case Store():
            index, value = statement.index.substituted(replaced), operand(statement.value)
            return dataclasses.replace(
                statement, index=index, value=value, level=max(level(index), levels(value))
            )
        case _:
            return statement


def pruned(lowered: Lowered) -> Lowered:
    """Return ``lowered`` without statements, buffers and arguments that nothing uses."""
    kernel = lowered.kernel
    needed: set[Value] = set()
    body: list[Statement] = []
    for statement in reversed(kernel.statements):
        if isinstance(statement, Store) or statement.out in needed:
            body.append(statement)
            needed.update(o for o in operands(statement) if isinstance(o, Value))
    body.reverse()
    used = {s.buffer for s in body if isinstance(s, Load | Gather | Store)}
    buffers = [b for b in range(len(kernel.buffers)) if b in used]
    # Inputs come first among the arguments of a kernel.
    buffers.sort(key=lambda b: kernel.buffers[b].role is Role.OUTPUT)
    renumbered = {old: new for new, old in enumerate(buffers)}
    body = [
        dataclasses.replace(s, buffer=renumbered[s.buffer])
        if isinstance(s, Load | Gather | Store)
        else s
        for s in body
    ]
    pruned_kernel = dataclasses.replace(
        kernel, buffers=tuple(kernel.buffers[b] for b in buffers), body=tuple(body)
    )
    return Lowered(pruned_kernel, tuple(lowered.buffers[b] for b in buffers), lowered.arguments)

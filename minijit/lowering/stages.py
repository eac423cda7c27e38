"""How the body of a kernel is cut into passes over the columns of a row."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from minijit.graph.index import Affine
from minijit.lowering.kernel_ir import (
    Gather,
    Guard,
    Index,
    Kernel,
    Level,
    Load,
    Map,
    Operand,
    Product,
    Reduce,
    Statement,
    Store,
    Value,
    walk,
)
from minijit.lowering.source import held_dtype

__all__ = [
    "Stage",
    "Staging",
    "accesses",
    "indices",
    "operands",
    "reads_along_rows",
    "stage_kernel",
    "value_dims",
]

EXPENSIVE_FLOPS = 4
"""An operation above this is not computed twice."""
CHEAP_FLOPS = 16
"""A chain of cheap operations above this is not computed twice either."""
CHEAP_LOADS = 2
"""Nor is a chain that reads more arrays than this."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """One pass over the columns of a row.

    Attributes:
        before: Row-level statements to run before the pass.
        cells: Cell-level statements of the pass in order (no ``Reduce``); stores among them.
        reduces: Reductions that the pass feeds, after ``cells``.
        keeps: Cell values computed here that later stages read back.
        reuses: Cell values that an earlier stage kept and this one reads.
    """

    before: tuple[Statement, ...]
    cells: tuple[Statement, ...]
    reduces: tuple[Reduce, ...]
    keeps: tuple[Value, ...]
    reuses: tuple[Value, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Staging:
    """A kernel as passes over the columns of a row.

    Attributes:
        launch: Statements that need to run only once a launch.
        stages: The passes in order.
        after: Row-level statements to run after the last pass.
        kept: All values that are kept between passes, in order of their computation.
    """

    launch: tuple[Statement, ...]
    stages: tuple[Stage, ...]
    after: tuple[Statement, ...]
    kept: tuple[Value, ...]


def operands(statement: Statement) -> tuple[Operand, ...]:
    """Return the values and constants that a statement reads."""
    match statement:
        case Load():
            return () if statement.guard is None else (statement.guard,)
        case Gather():
            return (*statement.positions, *(() if statement.guard is None else (statement.guard,)))
        case Map() | Reduce():
            return statement.args
        case Product():
            return (statement.row,) if isinstance(statement.row, Value) else ()
        case Store():
            return (statement.value,)
    return ()


def indices(statement: Statement) -> tuple[Affine, ...]:
    """Return the index expressions that a statement evaluates."""
    match statement:
        case Load() | Gather() | Index() | Store():
            return (statement.index,)
        case Guard():
            return tuple(affine for affine, _, _ in statement.conditions)
        case Product():
            return tuple(place.index for place in statement.places)
    return ()


def value_dims(kernel: Kernel) -> dict[Value, frozenset[int]]:
    """Return the dimensions on which each value depends; a reduction drops the columns."""
    dims: dict[Value, frozenset[int]] = {}
    rows = frozenset(range(len(kernel.rows)))
    for statement in kernel.statements:
        if isinstance(statement, Store):
            continue
        found: frozenset[int] = frozenset()
        for operand in operands(statement):
            if isinstance(operand, Value):
                found |= dims[operand]
        for index in indices(statement):
            found |= frozenset(index.dims)
        if isinstance(statement, Reduce):
            # A ragged row holds fewer cells in its last block, whatever is reduced.
            found &= rows
            if kernel.ragged is not None:
                found |= {0}
        dims[statement.out] = found
    return dims


def accesses(kernel: Kernel) -> list[Load | Store]:
    """Return the loads and stores that differ from column to column, in loops and branches too."""
    cols = frozenset(range(len(kernel.rows), len(kernel.extents)))
    return [
        node
        for node in walk(kernel.body)
        if isinstance(node, Load | Store) and cols & set(node.index.dims)
    ]


def reads_along_rows(kernel: Kernel) -> bool:
    """Whether more bytes lie side by side along the last row dimension than along columns."""
    if not kernel.rows or not kernel.cols:
        return False
    votes = 0
    for access in accesses(kernel):
        size = kernel.buffers[access.buffer].dtype.itemsize
        if abs(access.index.stride(len(kernel.extents) - 1)) == 1:
            votes -= size
        elif abs(access.index.stride(len(kernel.rows) - 1)) == 1:
            votes += size
    return votes > 0


class _Choice:
    """Decides which cell values are kept between stages rather than computed again."""

    def __init__(
        self, kernel: Kernel, keep_loads: bool, budget: int | None, conversion: int
    ) -> None:
        self.defined: dict[Value, Statement] = {
            s.out: s for s in kernel.statements if not isinstance(s, Store)
        }
        self.kept: set[Value] = set()
        self._cells = math.prod(kernel.cols)
        self._keep_loads = keep_loads
        self._budget = budget
        self._conversion = conversion

    def keeps(self, value: Value) -> bool:
        """Whether to keep ``value``, which an earlier stage computed and a later one needs.

        It is kept when computing it again from what is loaded or kept costs an expensive operation
        (``op.flops > 4``: exp, tanh, ...), a long chain of cheap ones, or many loads; with
        ``keep_loads`` also when it is loaded. It is not once the row's budget of bytes is used up.
        """
        if value in self.kept:
            return True
        chain = self._chain(value)
        flops = [self._flops(s) for s in chain]
        loads = sum(isinstance(s, Load | Gather) for s in chain)
        expensive = (
            max(flops, default=0) > EXPENSIVE_FLOPS
            or sum(flops) > CHEAP_FLOPS
            or loads > CHEAP_LOADS
            or (self._keep_loads and isinstance(self.defined[value], Load | Gather))
        )
        if not expensive:
            return False
        size = self._cells * held_dtype(value.dtype).itemsize
        if self._budget is not None:
            if size > self._budget:
                return False
            self._budget -= size
        self.kept.add(value)
        return True

    def _flops(self, statement: Statement) -> int:
        """Return the flops of a statement; a result in float16 is converted to it and back."""
        flops = statement.op.flops if isinstance(statement, Map) else 0
        if isinstance(statement, Map | Load) and statement.out.dtype == np.float16:
            flops += self._conversion * (2 if isinstance(statement, Map) else 1)
        return flops

    def _chain(self, value: Value) -> list[Statement]:
        chain: dict[Value, Statement] = {}
        todo = [value]
        while todo:
            current = todo.pop()
            if current in chain or current in self.kept or current.level is not Level.CELL:
                continue
            chain[current] = self.defined[current]
            todo.extend(o for o in operands(self.defined[current]) if isinstance(o, Value))
        return list(chain.values())


@dataclasses.dataclass(frozen=True, slots=True)
class _Passes:
    """The statements by the number of passes that must be over before they can run."""

    launch: list[Statement]
    row: dict[int, list[Statement]]
    roots: dict[int, list[Statement]]


def _passes(kernel: Kernel) -> _Passes:
    depth: dict[Value, int] = {}
    found = _Passes([], {}, {})
    for statement in kernel.statements:
        at = max((depth[o] for o in operands(statement) if isinstance(o, Value)), default=0)
        if isinstance(statement, Store):
            level = statement.level
        else:
            level = statement.out.level
            depth[statement.out] = at + isinstance(statement, Reduce)
        if isinstance(statement, Reduce) or (isinstance(statement, Store) and level is Level.CELL):
            found.roots.setdefault(at, []).append(statement)
        elif level is Level.LAUNCH and at == 0 and not isinstance(statement, Store):
            found.launch.append(statement)
        elif level is not Level.CELL:
            found.row.setdefault(at, []).append(statement)
    return found


def stage_kernel(
    kernel: Kernel, *, keep_loads: bool = False, budget: int | None = None, conversion: int = 0
) -> Staging:
    """Cut a kernel with reductions into stages.

    Stage ``k`` computes the reductions whose inputs depend on ``k`` earlier ones, and the cell
    stores whose values are known then. The schedule decides where kept values live.

    Args:
        kernel: Any kernel; one whose cells need no pass at all has no stages.
        keep_loads: Keep loaded values as well (a row that stays in registers).
        budget: Most bytes a row that may be kept; None sets no limit.
        conversion: Flops that a conversion between float16 and float32 is worth.
    """
    passes = _passes(kernel)
    choice = _Choice(kernel, keep_loads, budget, conversion)
    first: dict[Value, int] = {}
    computed: list[set[Value]] = []
    reused: list[set[Value]] = []
    count = max(passes.roots, default=-1) + 1
    for k in range(count):
        needed: set[Value] = set()
        reads: set[Value] = set()
        todo = [o for root in passes.roots.get(k, ()) for o in operands(root)]
        while todo:
            value = todo.pop()
            if not isinstance(value, Value) or value.level is not Level.CELL:
                continue
            if value in first and value not in needed and choice.keeps(value):
                reads.add(value)
            elif value not in needed:
                needed.add(value)
                todo.extend(operands(choice.defined[value]))
        for value in needed:
            first.setdefault(value, k)
        computed.append(needed)
        reused.append(reads)

    order = [s.out for s in kernel.statements if not isinstance(s, Store)]

    def stage(k: int) -> Stage:
        roots = passes.roots.get(k, [])
        cells = (
            s in roots if isinstance(s, Store) else s.out in computed[k] for s in kernel.statements
        )
        return Stage(
            before=tuple(passes.row.get(k, ())),
            cells=tuple(s for s, wanted in zip(kernel.statements, cells, strict=True) if wanted),
            reduces=tuple(s for s in roots if isinstance(s, Reduce)),
            keeps=tuple(v for v in order if v in choice.kept and first[v] == k),
            reuses=tuple(v for v in order if v in reused[k]),
        )

    after = tuple(s for k in sorted(passes.row) if k >= count for s in passes.row[k])
    kept = tuple(v for v in order if v in choice.kept)
    return Staging(tuple(passes.launch), tuple(map(stage, range(count))), after, kept)

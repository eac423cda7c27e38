"""Writes CPU kernels: what the CPU's schedules share in lines, loops, scratch and cost."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from minijit.graph.index import Affine
from minijit.lowering.cpu_functions import Function, functions_of
from minijit.lowering.cpu_launch import CpuLaunch, Scratch
from minijit.lowering.cpu_tile import Tile
from minijit.lowering.kernel_ir import (
    Gather,
    Kernel,
    Load,
    Map,
    Operand,
    Product,
    Statement,
    Store,
    Value,
    walk,
)
from minijit.lowering.source import Emitter, KernelSource
from minijit.lowering.stages import value_dims
from minijit.lowering.symbols import Symbol

__all__ = ["FEW", "UNIT_NS", "CpuEmitter", "cell_cost", "unit_stride_dim", "unit_strides"]

UNIT_NS = 8_000
"""Work that one unit should hold: small against a launch in parallel, large against its claim."""
FEW = 64
"""Up to so many elements a kernel knows their number: looking it up would cost too much."""
_ACCESS_NS = 0.05
_FLOP_NS = 0.007
_GATHER_NS = 0.5
_TERM_NS = 0.025
_SHORT = 8
"""An innermost loop of at most as many trips is unrolled rather than run in vectors."""
_FAR_BYTES = 1 << 20
"""Smaller arrays are in a near cache anyway."""
_LINE_BYTES = 64
_INTERLEAVE = 4
"""Vectors that are worked on at a time where one alone would wait for its own results."""
_CHAIN = 16
"""Flops of kernels that do not gain yet."""
_LONG = 128
"""Trips from which on a loop has work for so many vectors."""
_VERY_LONG = 16 * _LONG
"""Trips from which on what is left after so many vectors is little in any case."""


_KERNELS = "minijit.kernels.cpu"
_DEVICE = "minijit.kernels.math.device"
_OFTEN = 8
"""Uses from which on a function is compiled once and called: a multiple of the code would cost a
multiple of LLVM's time, the calls cost a loop a quarter of its speed."""
_CALL_FLOPS = 5
"""What a call is to LLVM, beside operations that are written out."""
_EXTREMA = {"max": "larger", "min": "smaller"}
_EXTENT, _BLOCK = "extent", "block"


class CpuEmitter(Emitter):
    """Statements as CPU code, loops over units, and scratch arrays.

    Attributes:
        scratch: The arrays so far.
        sizes: The parameters by which one code serves several sizes, with their values here.
        collected: Where in a scratch array a result is kept until it is streamed.
        turned: Where in a scratch array an operand lies as a transposed copy.
        used_dims: The dimensions on which each value depends.
    """

    vocabulary = _KERNELS

    def __init__(self, kernel: Kernel) -> None:
        """Start an empty function for ``kernel``."""
        super().__init__(kernel)
        self.scratch: list[Scratch] = []
        self.sizes: dict[str, int] = {}
        self.collected: dict[Store, str] = {}
        self.turned: dict[Load, Callable[[], str]] = {}
        self.used_dims = {} if kernel.structured else value_dims(kernel)
        self._functions = functions_of(kernel)
        self._uses = Counter(self._functions.values())

    def function(self, statement: Map, dtype: np.dtype[Any]) -> tuple[str, Hashable, bool]:
        """Return the vectorisable function where there is one, else the compiled scalar code."""
        used = self._functions[statement.out]
        name, op, known = f"{used.name}_{used.dtype}", used.op, used.vectorised
        if known is not None:
            called = Symbol(_DEVICE, "called", (known,))
            return name, called if self._calls(used) else known, True
        if op.name in _EXTREMA and dtype.kind == "f":
            return name, self.symbol(_EXTREMA[op.name]), True
        assert op.scalar is not None
        make = op.scalar.make if op.scalar.cpu is None else op.scalar.cpu
        return name, self.scalar_function(make, dtype), False

    def scalar_function(self, make: Callable[..., Any], *arguments: Hashable) -> Symbol:
        """Return the device function of what ``make(*arguments)`` returns."""
        return Symbol(_KERNELS, "scalar_function", (make, *arguments))

    def _calls(self, used: Function) -> bool:
        """Whether the kernel calls a function, rather than having it written out each time."""
        often = used.branches or self._uses[used] >= _OFTEN
        return often and used.vectorised is not None

    def combination(self, name: str, combine: Callable[..., Any], dtype: np.dtype[Any]) -> str:
        """Return the name of a monoid's own combination as a device function."""
        return self.name(f"combine_{name}_{dtype.name}", self.scalar_function(combine, dtype))

    def array(self, name: str, dtype: np.dtype[Any], length: int) -> str:
        """Add a scratch array and return its name."""
        self.scratch.append(Scratch(name, dtype, length))
        return name

    def read(self, value: Value, place: str) -> None:
        """Write the reading of a value from an element of a scratch array."""
        self.writer.line(f"{value.name} = {place}" + " != 0" * (value.dtype.kind == "b"))

    def write(self, value: Operand, place: str) -> None:
        """Write the storing of a value in an element of a scratch array."""
        code = self.operand(value)
        if value.dtype.kind == "b":
            code = f"{self.type(np.dtype(np.uint8))}({code})"
        self.writer.line(f"{place} = {code}")

    def is_far(self, access: Load | Store) -> bool:
        """Whether an access is to an array too large for a near cache."""
        buffer = self.kernel.buffers[access.buffer]
        return buffer.size * buffer.dtype.itemsize >= _FAR_BYTES

    def prefetch(
        self,
        access: Load | Store,
        jump: int,
        lane: int,
        span: str = "low, high",
        more: Sequence[int] = (),
    ) -> None:
        """Write prefetches of what the indices ``span`` of ``lane`` access with unit stride.

        Args:
            access: The access.
            jump: How many elements further on they will be by then.
            lane: The dimension.
            span: What ``range`` takes.
            more: Further jumps.
        """
        kind = "write" if isinstance(access, Store) else "read"
        step = _LINE_BYTES // self.kernel.buffers[access.buffer].dtype.itemsize
        with self.writer.block(f"for i{lane} in range({span}, {step}):"):
            for each in (jump, *more):
                place = self.index(access.index.plus(Affine(each)))
                self.writer.line(f"{self.helper(f'prefetch_{kind}')}(b{access.buffer}, {place})")

    def dims_of(self, statement: Statement) -> frozenset[int]:
        """Return the dimensions on which a statement depends."""
        if isinstance(statement, Store):
            used = frozenset(statement.index.dims)
            return used | self.used_dims.get(statement.value, frozenset())  # type: ignore[arg-type]
        return self.used_dims[statement.out]

    def statement(self, statement: Statement) -> None:
        """Write one statement; what is collected or turned has its place in scratch."""
        if isinstance(statement, Store) and statement in self.collected:
            dtype = self.kernel.buffers[statement.buffer].dtype
            value = self.store_code(dtype, self.operand(statement.value))
            self.writer.line(f"{self.collected[statement]} = {value}")
        elif isinstance(statement, Load) and statement in self.turned:
            buffer = self.kernel.buffers[statement.buffer]
            value = self.held_code(buffer.dtype, self.turned[statement]())
            self.writer.line(f"{statement.out.name} = {value}", buffer.name)
        else:
            super().statement(statement)

    def statements(self, statements: Sequence[Statement]) -> None:
        """Write statements in order."""
        for statement in statements:
            self.statement(statement)

    @contextlib.contextmanager
    def units(
        self, tile: Tile, after: Callable[[int], None] | None = None, *, merge: bool = True
    ) -> Iterator[str]:
        """Open the loops over the rows of the units ``[start, stop)``, but for the innermost.

        Yields what the innermost loop's ``range`` takes. ``after(depth)`` is called when the
        indices of the first ``depth`` dimensions are known. With ``merge`` one loop may run through
        several units where they are adjacent.
        """
        if self.sizes:
            yield f"{_BLOCK}*start, min({_BLOCK}*stop, {_EXTENT})"
            return
        known = after or (lambda depth: None)
        writer, last = self.writer, len(tile.order) - 1
        merged = merge and bool(tile.order) and tile.counts[0] == tile.units > 1
        with contextlib.ExitStack() as stack:
            if not merged:
                stack.enter_context(writer.block("for unit in range(start, stop):"))
            for position, dim in enumerate(tile.order):
                extent, block = tile.extents[position], tile.blocks[position]
                unit = tile.digit(position)
                if merged and position == 0:
                    span = _span(extent, block, _scaled(block, "start"), _scaled(block, "stop"))
                elif tile.counts[position] == 1:
                    span = str(extent)
                elif block == 1 and position < last:
                    writer.line(f"i{dim} = {unit}")
                    known(position + 1)
                    continue
                else:
                    writer.line(f"block{dim} = {unit}")
                    low = _scaled(block, f"block{dim}")
                    span = _span(extent, block, low, f"{low} + {block}")
                if position == last:
                    yield span
                else:
                    stack.enter_context(writer.block(f"for i{dim} in range({span}):"))
                    known(position + 1)
            if not tile.order:
                yield "1"

    def columns(self, dim: int) -> str:
        """Return how many cells the current row has along the column dimension ``dim``."""
        extent, ragged = self.kernel.extents[dim], self.kernel.ragged
        return str(extent) if ragged is None else f"min({extent}, {ragged} - {extent}*i0)"

    def segments(self, stack: contextlib.ExitStack, dim: int, length: int) -> str:
        """Open the loop over segments of a row and return the range of columns of one.

        Args:
            stack: Closes the loop.
            dim: The column dimension that is cut.
            length: Columns of a segment; the last one may have fewer.
        """
        extent, limit = self.kernel.extents[dim], self.columns(dim)
        exact = extent % length == 0
        if self.kernel.ragged is not None:
            self.writer.line(f"columns = {limit}")
            exact, limit = False, "columns"
        stack.enter_context(self.writer.block(f"for segment in range({-(-extent // length)}):"))
        low, high = f"{length}*segment", f"{length}*segment + {length}"
        return f"{low}, {high}" if exact else f"{low}, min({high}, {limit})"

    def serve_sizes(self, tile: Tile) -> None:
        """Let one code serve every extent of the only dimension: it is passed, and so is the block.

        Call it before ``units``.
        """
        (extent,), (block,) = tile.extents, tile.blocks
        self.sizes = {_EXTENT: extent, _BLOCK: block}

    def _interleave(self) -> int:
        """Return how many vectors long innermost loops should work on at a time; 0 is no opinion.

        The operations of one element depend on each other, and LLVM interleaves only short loops. A
        polynomial then runs at the latency of its steps: a window of instructions that a processor
        looks ahead of holds no more than one or two iterations of the loop.
        """
        flops = sum(
            count * (_CALL_FLOPS if self._calls(used) else used.op.flops)
            for used, count in self._uses.items()
        )
        return _INTERLEAVE if flops > _CHAIN else 0

    def finish(
        self, units: int, work: float, schedule: str, trips: int, interleave: int | None = None
    ) -> KernelSource:
        """Return the source with its head written.

        Args:
            units: Number of work units.
            work: Estimated nanoseconds of all of them.
            schedule: A line that describes them.
            trips: The innermost loop's trip count.
            interleave: How many vectors it works on at a time; default: by what it computes.
        """
        kernel = self.kernel
        if interleave is None:
            interleave = self._interleave() if self.sizes or trips >= _LONG else 0
        if self.collected:
            self.writer.line(f"{self.helper('settle_stores')}()")
            schedule += f", {len(self.collected)} results past the caches"
        names = ["start", "stop"] + [scratch.name for scratch in self.scratch]
        names += [f"b{position}" for position in range(len(kernel.buffers))]
        names += [f"a{position}" for position in range(len(kernel.arguments))]
        names += self.sizes
        notes = [f"{s.name}: {s.dtype}[{s.length}] scratch" for s in self.scratch]
        for position, buffer in enumerate(kernel.buffers):
            role = buffer.role.value
            notes.append(f"b{position}: {buffer.dtype}[{buffer.size}] {role} {buffer.name}")
        for position, argument in enumerate(kernel.arguments):
            notes.append(f"a{position}: {argument.dtype} {argument.name}")
        notes += [f"{name}: int64, {size} here" for name, size in self.sizes.items()]
        notes += [f"{name}: called" for name, value in self.names.items() if _is_called(value)]
        # The notes are part of the text, which so determines the code: operators name no dtype.
        lines = [f"# {note}" for note in notes] + self.writer.text.splitlines()
        body = "".join(f"    {line}\n" for line in lines)
        text = f"def {kernel.name}({', '.join(names)}):\n{body}"
        launch = CpuLaunch(
            units,
            max(int(work), 1),
            tuple(self.scratch),
            trips <= _SHORT,
            tuple(self.sizes.values()),
            interleave,
            bool(self.sizes) or trips >= _VERY_LONG or trips % _LONG == 0,
        )
        return KernelSource(kernel, text, self.names, schedule, launch)


def _is_called(value: Hashable) -> bool:
    return isinstance(value, Symbol) and value.module == _DEVICE


def _scaled(factor: int, name: str) -> str:
    return f"{factor}*{name}" if factor != 1 else name


def _span(extent: int, block: int, low: str, high: str) -> str:
    """Return the bounds of a range, cut at ``extent`` where blocks do not divide it."""
    return f"{low}, {high}" if extent % block == 0 else f"{low}, min({high}, {extent})"


def unit_strides(kernel: Kernel) -> list[float]:
    """Return for each dimension how much is accessed with stride one along it.

    An access counts by the share of the space in which it differs, in loops once for every step
    that it depends on; a store counts twice.
    """
    score = [0.0] * len(kernel.extents)
    points = max(math.prod(kernel.extents), 1)
    for statement in walk(kernel.body):
        if isinstance(statement, Load | Store):
            share = math.prod(kernel.spans[dim] for dim in statement.index.dims) / points
            for dim, stride in statement.index.terms:
                if abs(stride) == 1 and dim < len(score):
                    score[dim] += 2 * share if isinstance(statement, Store) else share
    return score


def unit_stride_dim(kernel: Kernel, dims: Sequence[int]) -> int:
    """Return which of ``dims`` is most accessed with stride one; the last one of equals."""
    score = unit_strides(kernel)
    return max(dims, key=lambda dim: (score[dim], dim))


def cell_cost(statements: Sequence[Statement]) -> float:
    """Return the estimated nanoseconds of one execution of ``statements`` in a vector loop."""
    cost = 0.0
    for statement in statements:
        if isinstance(statement, Load | Store):
            cost += _ACCESS_NS
        elif isinstance(statement, Gather):
            cost += _GATHER_NS
        elif isinstance(statement, Map):
            cost += _FLOP_NS * statement.op.flops
        elif isinstance(statement, Product):
            cost += _TERM_NS * statement.terms
        else:
            cost += _FLOP_NS
    return cost

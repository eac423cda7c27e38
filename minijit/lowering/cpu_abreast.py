"""Columns of few adjacent rows that are taken side by side, as one longer line of vectors.

Where such columns follow each other in memory, ten rows and eight columns are eighty elements with
an accumulator each. What is known of a row stands in that line once for each column; what the
columns abreast have accumulated is joined after a pass, in their order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from minijit.lowering.cpu_emitter import CpuEmitter
from minijit.lowering.cpu_reduce import Accumulation
from minijit.lowering.kernel_ir import (
    Gather,
    Guard,
    Index,
    Kernel,
    Level,
    Load,
    Statement,
    Store,
    Value,
)
from minijit.lowering.stages import indices

__all__ = ["Abreast"]

_LANES = 64
"""Elements of a line from which on vectors are whole, and enough of them at work at a time."""
_VECTOR_BYTES = 32
"""What a line is a multiple of: nothing is left after its last vector."""
_MOST = 64
"""Parts that are joined in the end, so that short columns gain too."""
_INT32 = np.dtype(np.int32)


@dataclasses.dataclass(frozen=True, slots=True)
class Abreast:
    """The columns that are taken at a time.

    Attributes:
        lane: The dimension of the rows, all of them in a tile that begins at row zero.
        rows: Their number.
        dim: The dimension of the columns.
        count: How many columns a line holds.
    """

    lane: int
    rows: int
    dim: int
    count: int

    @staticmethod
    def of(kernel: Kernel, lane: int, dim: int) -> Abreast | None:
        """Return which columns along ``dim`` to take at a time, where they follow each other.

        None where they do not, or where the rows along ``lane`` fill vectors anyway.
        """
        rows, columns = kernel.rows[lane], kernel.extents[dim]
        if rows >= _LANES or not all(_joins(s, rows, lane, dim) for s in kernel.statements):
            return None
        sizes = [
            kernel.buffers[s.buffer].dtype.itemsize
            for s in kernel.statements
            if isinstance(s, Load | Store) and dim in s.index.dims
        ]
        count = 2
        while count * rows < _LANES or count * rows * min(sizes, default=1) % _VECTOR_BYTES:
            count *= 2
        return Abreast(lane, rows, dim, count) if count <= min(_MOST, columns // 4) else None

    @property
    def lanes(self) -> int:
        """Number of elements of a line."""
        return self.rows * self.count

    def number(self, emitter: CpuEmitter) -> None:
        """Write the number of each element's column in its line, if a cell asks for it."""
        cells = (s for s in emitter.kernel.statements if self._asks(s))
        if not any(cells):
            return
        name, writer = emitter.array("part_of", _INT32, self.lanes), emitter.writer
        one, zero = (emitter.constant(n, _INT32) for n in (1, 0))
        with writer.block(f"for i{self.lane} in range({self.rows}):"):
            writer.line(f"{name}[i{self.lane}] = {zero}")
        with writer.block(self._others()):
            writer.line(f"{name}[i{self.lane}] = {self._before(name)} + {one}")

    def statements(self, emitter: CpuEmitter, cells: Sequence[Statement]) -> None:
        """Write the cells of a line: their places in memory follow each other."""
        for cell in cells:
            if self._asks(cell):
                emitter.dims[self.dim] = f"(i{self.dim} + part_of[i{self.lane}])"
            emitter.statement(cell)
            emitter.dims[self.dim] = f"i{self.dim}"

    def spread(
        self, emitter: CpuEmitter, values: Sequence[Value], started: Sequence[Accumulation]
    ) -> None:
        """Write to a line what its first column has: values of rows, and fresh accumulators."""
        if not (values or started):
            return
        with emitter.writer.block(self._others()):
            for value in values:
                name = f"row_{value.name}"
                emitter.writer.line(f"{name}[i{self.lane}] = {self._before(name)}")
            for each in started:
                each.start(emitter, lambda name: f"{name}[i{self.lane}]")

    def join(self, emitter: CpuEmitter, finished: Sequence[Accumulation]) -> None:
        """Write the combination of what the columns of a line have accumulated, in their order."""
        if not finished:
            return
        writer, lane = emitter.writer, f"i{self.lane}"
        with (
            writer.block(f"for part in range(1, {self.count}):"),
            writer.block(f"for {lane} in range({self.rows}):"),
        ):
            for each in finished:
                each.join(
                    emitter,
                    lambda name: f"{name}[{lane}]",
                    lambda name: f"{name}[{self.rows}*part + {lane}]",
                )

    def _asks(self, statement: Statement) -> bool:
        """Whether the value of a cell depends on the number of its column as such."""
        dims = (index.dims for index in indices(statement))
        return isinstance(statement, Index | Guard) and any(self.dim in each for each in dims)

    def _others(self) -> str:
        return f"for i{self.lane} in range({self.rows}, {self.lanes}):"

    def _before(self, name: str) -> str:
        return f"{name}[i{self.lane} - {self.rows}]"


def _joins(statement: Statement, rows: int, lane: int, dim: int) -> bool:
    """Whether a statement of cells has the same code for all elements of a line."""
    level = statement.level if isinstance(statement, Store) else statement.out.level
    if level is not Level.CELL:
        return True
    match statement:
        case Load() | Store():
            return statement.index.stride(dim) == rows * statement.index.stride(lane)
        case Index() | Guard():
            return not any(lane in index.dims for index in indices(statement))
        case _:
            return not isinstance(statement, Gather)

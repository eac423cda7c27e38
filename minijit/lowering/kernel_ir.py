"""The kernel IR: a straight list of typed statements over an iteration space of rows and columns.

A kernel computes, for every point ``(row, column)`` of its space, the statements of its body in
order. ``rows`` are the dimensions that survive, ``cols`` those that reductions run over; a kernel
without reductions has no ``cols``. A value lives once for the whole launch, once a row or once a
cell (point); its level follows from what it is computed from, and no statement says it twice.

Example, softmax over the last axis of f32[4096,1024] (d0 is the row, d1 the column)::

    kernel softmax rows=(4096,) cols=(1024,)
      in  b0: f32[4194304]
      out b1: f32[4194304]
      cell v0: f32 = load b0[1024*i0 + i1]
      row  v1: f32 = reduce max v0
      cell v2: f32 = sub v0 v1
      cell v3: f32 = exp v2
      row  v4: f32 = reduce sum v3
      cell v5: f32 = div v3 v4
           store b1[1024*i0 + i1] = v5

A loop or a branch is one statement that holds others: at each point its body runs again and again
with the carried values of the last step, or one of its blocks runs. Values of the body exist in it
alone; it may read those before it. The steps of a counted loop are a dimension of the index
expressions like rows and columns, numbered after them.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, cast

import numpy as np

from minijit.graph.dtypes import short_name
from minijit.lowering.kernel_text import statement_lines
from minijit.lowering.statements import (
    Block,
    Branch,
    Constant,
    Gather,
    Guard,
    Index,
    Level,
    Load,
    Loop,
    Map,
    Node,
    Operand,
    Place,
    Product,
    Read,
    Reduce,
    Statement,
    Store,
    Value,
    blocks,
    outputs_of,
    walk,
    with_blocks,
)

__all__ = [
    "Argument",
    "Block",
    "Branch",
    "Buffer",
    "Constant",
    "Gather",
    "Guard",
    "Index",
    "Kernel",
    "Level",
    "Load",
    "Loop",
    "Map",
    "Node",
    "Operand",
    "Place",
    "Product",
    "Read",
    "Reduce",
    "Role",
    "Statement",
    "Store",
    "Value",
    "blocks",
    "outputs_of",
    "walk",
    "with_blocks",
]


class Role(enum.Enum):
    """What a kernel does with a buffer."""

    INPUT = "in"
    OUTPUT = "out"


@dataclasses.dataclass(frozen=True, slots=True)
class Buffer:
    """One pointer argument of the kernel.

    Attributes:
        name: Readable and unique in the kernel: the argument's or variable's name.
        dtype: Element type in memory (bool is one byte, float16 two).
        role: Read or written, never both; no two buffers overlap, except inputs with each other.
        contiguous: Whether the elements of the array lie in C order without gaps, starting at
            the pointer.
        size: Number of elements of the array.
    """

    name: str
    dtype: np.dtype[Any]
    role: Role
    contiguous: bool
    size: int


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """One scalar that is passed by value: a Python number or a NumPy scalar."""

    name: str
    dtype: np.dtype[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """One fused kernel.

    Attributes:
        name: A Python identifier.
        rows: Extents of the dimensions that survive; they are dimensions ``0 ... len(rows) - 1``
            of the index expressions.
        cols: Extents of the reduced dimensions, numbered after the rows; empty without reductions.
        buffers: The pointer arguments, inputs first.
        arguments: The scalar arguments, passed after the pointers.
        body: The statements in an order in which every value is computed before it is used.
        ragged: When not None, the first row dimension counts blocks of the (then single) column
            dimension: the cell exists where ``block * cols[0] + col < ragged``.
        steps: Number of steps of each loop, in the order of their numbers; 1 where none is known.
            Sums of products are numbered with them, and have as many steps as terms; so are the
            axes of gathers.
    """

    name: str
    rows: tuple[int, ...]
    cols: tuple[int, ...]
    buffers: tuple[Buffer, ...]
    arguments: tuple[Argument, ...]
    body: tuple[Node, ...]
    ragged: int | None = None
    steps: tuple[int, ...] = ()

    @property
    def spans(self) -> tuple[int, ...]:
        """Extents of all dimensions of index expressions: rows, columns, steps of loops."""
        return self.extents + self.steps

    @property
    def structured(self) -> bool:
        """Whether there are loops or branches."""
        return any(isinstance(node, Loop | Branch) for node in self.body)

    @property
    def has_rows(self) -> bool:
        """Whether statements read a row as a whole: they reduce it, or multiply with it."""
        return any(isinstance(node, Reduce | Product) for node in walk(self.body))

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The body of a kernel that is not structured.

        Raises:
            TypeError: it is.
        """
        if self.structured:
            raise TypeError(f"kernel {self.name} has loops or branches")
        return cast("tuple[Statement, ...]", self.body)

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of all dimensions, rows then columns."""
        return self.rows + self.cols

    @property
    def dtypes(self) -> set[np.dtype[Any]]:
        """The dtypes of everything in memory and of every value."""
        held = {value.dtype for s in walk(self.body) for value in outputs_of(s)}
        return held | {b.dtype for b in self.buffers} | {a.dtype for a in self.arguments}

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        """The buffers that are read."""
        return tuple(buffer for buffer in self.buffers if buffer.role is Role.INPUT)

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """The buffers that are written."""
        return tuple(buffer for buffer in self.buffers if buffer.role is Role.OUTPUT)

    def __str__(self) -> str:
        """Return the form shown in the module docstring."""
        head = f"kernel {self.name} rows={self.rows} cols={self.cols}"
        if self.ragged is not None:
            head += f" ragged={self.ragged}"
        lines = [head]
        for position, buffer in enumerate(self.buffers):
            gaps = "" if buffer.contiguous else " strided"
            lines.append(
                f"  {buffer.role.value:3s} b{position}: "
                f"{short_name(buffer.dtype)}[{buffer.size}] {buffer.name}{gaps}"
            )
        for position, argument in enumerate(self.arguments):
            lines.append(f"  arg a{position}: {short_name(argument.dtype)} {argument.name}")
        return "\n".join(lines + [f"  {line}" for s in self.body for line in statement_lines(s)])

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
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

import numpy as np

from minijit.graph.dtypes import short_name
from minijit.graph.index import Affine
from minijit.graph.primitive import Monoid, Primitive

__all__ = [
    "Argument",
    "Buffer",
    "Constant",
    "Guard",
    "Index",
    "Kernel",
    "Level",
    "Load",
    "Map",
    "Operand",
    "Read",
    "Reduce",
    "Role",
    "Statement",
    "Store",
    "Value",
]


class Level(enum.IntEnum):
    """How often a value exists: once a launch, once a row, once a cell."""

    LAUNCH = 0
    ROW = 1
    CELL = 2


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


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A typed SSA value; compared by identity.

    Attributes:
        name: Unique in the kernel, ``v0``, ``v1``, ...
        dtype: Its type. float16 values are held as float32 that was rounded to float16.
        level: How often it exists.
    """

    name: str
    dtype: np.dtype[Any]
    level: Level


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """A typed constant: ``value`` is a NumPy scalar of exactly ``dtype``."""

    value: Any
    dtype: np.dtype[Any]


Operand = Value | Constant


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """``out = buffer[index]``, or zero where ``guard`` (a bool value) does not hold."""

    out: Value
    buffer: int
    index: Affine
    guard: Operand | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """``out = argument``: the value of a scalar argument (level LAUNCH)."""

    out: Value
    argument: int


@dataclasses.dataclass(frozen=True, slots=True)
class Index:
    """``out = index`` as int64: the affine expression itself as a value."""

    out: Value
    index: Affine


@dataclasses.dataclass(frozen=True, slots=True)
class Guard:
    """``out`` (bool) ``= low <= expression < high`` for every one of the ``conditions``."""

    out: Value
    conditions: tuple[tuple[Affine, int, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Map:
    """``out = op(*args)`` by the primitive's scalar code, then cast to ``out.dtype``.

    ``line`` is the user's source line (``file:line``), shown as a comment in generated code.
    """

    out: Value
    op: Primitive
    args: tuple[Operand, ...]
    params: Mapping[str, Any]
    line: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Reduce:
    """``out = monoid`` over the cells of a row; one argument and one accumulator a component.

    ``accumulators`` are the dtypes that the components are accumulated in.
    """

    out: Value
    monoid: Monoid
    args: tuple[Operand, ...]
    accumulators: tuple[np.dtype[Any], ...]
    line: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Store:
    """``buffer[index] = value``, once for each point of ``level``."""

    buffer: int
    index: Affine
    value: Operand
    level: Level


Statement = Load | Read | Index | Guard | Map | Reduce | Store


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
        ragged: When not None, the last row dimension counts blocks of the (then single) column
            dimension: the cell exists where ``block * cols[0] + col < ragged``.
    """

    name: str
    rows: tuple[int, ...]
    cols: tuple[int, ...]
    buffers: tuple[Buffer, ...]
    arguments: tuple[Argument, ...]
    body: tuple[Statement, ...]
    ragged: int | None = None

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of all dimensions, rows then columns."""
        return self.rows + self.cols

    @property
    def dtypes(self) -> set[np.dtype[Any]]:
        """The dtypes of everything in memory and of every value."""
        held = {s.out.dtype for s in self.body if not isinstance(s, Store)}
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
        return "\n".join(lines + [f"  {_statement(s)}" for s in self.body])


def _operand(operand: Operand) -> str:
    return (
        operand.name
        if isinstance(operand, Value)
        else f"{operand.value}:{short_name(operand.dtype)}"
    )


def _statement(statement: Statement) -> str:
    if isinstance(statement, Store):
        return f"     store b{statement.buffer}[{statement.index}] = {_operand(statement.value)}"
    out = statement.out
    match statement:
        case Load():
            code = f"load b{statement.buffer}[{statement.index}]"
            if statement.guard is not None:
                code += f" if {_operand(statement.guard)}"
        case Read():
            code = f"argument a{statement.argument}"
        case Index():
            code = f"index {statement.index}"
        case Guard():
            code = "guard " + " and ".join(
                f"{low} <= {e} < {high}" for e, low, high in statement.conditions
            )
        case Map():
            code = " ".join([statement.op.name, *map(_operand, statement.args)])
        case Reduce():
            code = " ".join(["reduce", statement.monoid.name, *map(_operand, statement.args)])
    return f"{out.level.name.lower():6s} {out.name}: {short_name(out.dtype)} = {code}"

"""The statements of the kernel IR, and how to go through those inside others."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from minijit.graph.index import Affine
from minijit.graph.primitive import Monoid, Primitive

__all__ = [
    "Block",
    "Branch",
    "Constant",
    "Gather",
    "Guard",
    "Index",
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
    "Statement",
    "Store",
    "Value",
    "blocks",
    "outputs_of",
    "walk",
    "with_blocks",
]


class Level(enum.IntEnum):
    """How often a value exists: once a launch, once a row, once a cell."""

    LAUNCH = 0
    ROW = 1
    CELL = 2


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
class Gather:
    """``out = buffer[index + sum of stride * position]``: an element at a place that is computed.

    Attributes:
        out: The element.
        buffer: An input.
        index: The part of the place that is known.
        positions: Integers from zero on and below the extents of their axes.
        strides: Of the axes.
        guard: Where this bool does not hold, ``out`` is zero.
        line: The user's line.
    """

    out: Value
    buffer: int
    index: Affine
    positions: tuple[Operand, ...]
    strides: tuple[int, ...]
    guard: Operand | None = None
    line: str = ""


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
    """``out = monoid`` over the cells of a row.

    ``accumulators`` are the dtypes that the components are accumulated in; there is an argument for
    each, unless the monoid makes them of an element. ``dtype`` is that of the elements, for which
    its code is made; None: the first accumulator's.
    """

    out: Value
    monoid: Monoid
    args: tuple[Operand, ...]
    accumulators: tuple[np.dtype[Any], ...]
    line: str = ""
    dtype: np.dtype[Any] | None = None

    @property
    def made_for(self) -> np.dtype[Any]:
        """The dtype for which the monoid's code is made."""
        return self.accumulators[0] if self.dtype is None else self.dtype


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """An element of an input: ``buffer[index]``."""

    buffer: int
    index: Affine


@dataclasses.dataclass(frozen=True, slots=True)
class Product:
    """``out = sum of row * matrix`` over ``terms``: a row times a matrix that all rows share.

    Attributes:
        out: A cell of the product, as it is accumulated: float32 or float64.
        row: The factors of the row: a cell value, whose cells are the terms in order, or an element
            of an input that differs from term to term but not from column to column.
        matrix: The other factors; they differ from term to term and from column to column.
        dim: The number of this sum among the dimensions of index expressions: it counts the terms.
        terms: How many there are.
        line: The user's line.
    """

    out: Value
    row: Value | Place
    matrix: Place
    dim: int
    terms: int
    line: str = ""

    @property
    def places(self) -> tuple[Place, ...]:
        """What it reads of inputs."""
        return (self.row, self.matrix) if isinstance(self.row, Place) else (self.matrix,)


@dataclasses.dataclass(frozen=True, slots=True)
class Store:
    """``buffer[index] = value``, once for each point of ``level``."""

    buffer: int
    index: Affine
    value: Operand
    level: Level


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Statements in order, and the operands that are their result."""

    body: tuple[Node, ...]
    results: tuple[Operand, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Loop:
    """``carries = inits``, then again and again ``carries = body``; ``outs`` are the last ones.

    Attributes:
        outs: The carries after the last step.
        inits: The carries before the first one.
        carries: The carries as ``body`` and ``condition`` see them.
        body: One step; its results are the next carries. It may store: at each step elsewhere.
        dim: The number of this loop, unique in the kernel: dimension ``dim`` of index expressions
            is the step, from zero, if the loop is counted.
        length: How many steps there are; None without a count.
        condition: Without a count: its one result says whether to take the next step.
        together: Whether points that take their steps together go on as long as the condition holds
            for one of them; the body then keeps what the others carry.
        line: The user's line.
    """

    outs: tuple[Value, ...]
    inits: tuple[Operand, ...]
    carries: tuple[Value, ...]
    body: Block
    dim: int
    length: int | None
    condition: Block | None = None
    line: str = ""
    together: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Branch:
    """``outs`` are the results of ``blocks[index]``; no other block runs.

    ``index`` is an int32 between zero and the number of blocks, or the last block for any other.
    """

    outs: tuple[Value, ...]
    index: Operand
    blocks: tuple[Block, ...]
    line: str = ""


Statement = Load | Gather | Read | Index | Guard | Map | Reduce | Product | Store
Node = Statement | Loop | Branch


def outputs_of(node: Node) -> tuple[Value, ...]:
    """Return the values that a statement defines for those after it."""
    match node:
        case Store():
            return ()
        case Loop() | Branch():
            return node.outs
    return (node.out,)


def blocks(node: Node) -> tuple[Block, ...]:
    """Return the blocks that a statement holds; a loop's condition comes first."""
    match node:
        case Loop():
            return (node.body,) if node.condition is None else (node.condition, node.body)
        case Branch():
            return node.blocks
    return ()


def walk(body: Iterable[Node]) -> Iterator[Node]:
    """Yield statements and, after each, those inside it."""
    for node in body:
        yield node
        for block in blocks(node):
            yield from walk(block.body)


def with_blocks(node: Node, change: Callable[[Block], Block]) -> Node:
    """Return a statement with each block that it holds changed."""
    match node:
        case Loop():
            condition = None if node.condition is None else change(node.condition)
            return dataclasses.replace(node, body=change(node.body), condition=condition)
        case Branch():
            return dataclasses.replace(node, blocks=tuple(map(change, node.blocks)))
    return node

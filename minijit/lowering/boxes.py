"""Boxes: parts of a kernel's space, in each of which it is known which guards hold.

Where arrays are joined, padded or rolled, a kernel asks at every point which part the point is in.
Cut where the answer changes, the space is a few boxes whose statements ask nothing: each loads one
part, in vectors.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from minijit.graph.dtypes import BOOL
from minijit.graph.index import Affine
from minijit.lowering.kernel_ir import (
    Constant,
    Gather,
    Guard,
    Kernel,
    Load,
    Map,
    Operand,
    Statement,
    Store,
    Value,
)
from minijit.lowering.stages import operands

__all__ = ["Box", "boxes", "guarded"]

_LEAST_POINTS = 1 << 10
"""A smaller space is done before the code of its boxes is loaded."""
_MOST_BOXES = 128
"""Each has loops of its own, which LLVM takes a millisecond for."""
_GROWTH = 4
"""How many times as many statements all boxes may have together, beside a few for each kernel."""
_FEW = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Box:
    """A part of a space.

    Attributes:
        spans: First index and the one after the last, along each dimension that is cut.
        statements: What is computed in it.
    """

    spans: Mapping[int, tuple[int, int]]
    statements: tuple[Statement, ...]

    def share(self, extents: Sequence[int]) -> float:
        """Return the share of the points of a space that are in the box."""
        return math.prod((after - at) / extents[dim] for dim, (at, after) in self.spans.items())


def boxes(kernel: Kernel) -> tuple[Box, ...]:
    """Return the boxes of a kernel that has no columns, loops or branches; () if it has but one.

    They are in the order of their indices, the last dimension's the fastest. Inner dimensions are
    cut first: an outer one stays whole where there would be too many.
    """
    if math.prod(kernel.rows) < _LEAST_POINTS:
        return ()
    cuts = _cuts(kernel)
    while cuts:
        if math.prod(len(found) + 1 for found in cuts.values()) <= _MOST_BOXES:
            cut = [Box(spans, _inside(kernel, spans)) for spans in _products(cuts, kernel.rows)]
            statements = sum(len(box.statements) for box in cut)
            if statements <= _GROWTH * len(kernel.body) + _FEW:
                return tuple(cut)
        del cuts[min(cuts)]
    return ()


def guarded(kernel: Kernel) -> frozenset[Value]:
    """Return the guards, and what depends on one."""
    found: set[Value] = set()
    for statement in kernel.statements:
        if isinstance(statement, Store):
            continue
        read = (operand for operand in operands(statement) if isinstance(operand, Value))
        if isinstance(statement, Guard) or not found.isdisjoint(read):
            found.add(statement.out)
    return frozenset(found)


def _cuts(kernel: Kernel) -> dict[int, list[int]]:
    """Return by dimension where guards begin or cease to hold that ask for it alone."""
    cuts: dict[int, set[int]] = defaultdict(set)
    for guard in kernel.statements:
        if isinstance(guard, Guard):
            for affine, low, high in guard.conditions:
                for dim, stride in affine.terms if len(affine.terms) == 1 else ():
                    # The first index beyond each bound: at it, or below it where values fall.
                    beyond = affine.offset + (stride < 0)
                    cuts[dim].update(-((beyond - bound) // stride) for bound in (low, high))
    inside = {d: sorted(at for at in found if 0 < at < kernel.rows[d]) for d, found in cuts.items()}
    return {dim: found for dim, found in inside.items() if found}


def _value(affine: Affine, index: int) -> int:
    return affine.offset + affine.terms[0][1] * index


def _products(
    cuts: Mapping[int, Sequence[int]], extents: Sequence[int]
) -> list[dict[int, tuple[int, int]]]:
    """Return the spans of each box."""
    dims = sorted(cuts)
    along = [itertools.pairwise((0, *cuts[dim], extents[dim])) for dim in dims]
    return [dict(zip(dims, spans, strict=True)) for spans in itertools.product(*along)]


def _inside(kernel: Kernel, spans: Mapping[int, tuple[int, int]]) -> tuple[Statement, ...]:
    """Return what the statements come to where the guards of a box are known."""
    spans = dict(enumerate((0, extent) for extent in kernel.rows)) | dict(spans)
    known: dict[Operand, Operand] = {}
    found: list[Statement] = []
    for statement in kernel.statements:
        match statement:
            case Guard():
                holds = _holds(statement, spans)
                if isinstance(holds, Guard):
                    found.append(holds)
                else:
                    known[statement.out] = Constant(np.bool_(holds), BOOL)
            case Load(guard=Value() as asked) | Gather(guard=Value() as asked) if isinstance(
                known.get(asked), Constant
            ):
                if _is_true(known[asked]):
                    found.append(_known(dataclasses.replace(statement, guard=None), known))
                else:
                    dtype = statement.out.dtype
                    known[statement.out] = Constant(dtype.type(0), dtype)
            case Gather():
                found.append(_known(statement, known))
            case Map():
                args = tuple(known.get(operand, operand) for operand in statement.args)
                if statement.op.name == "select" and isinstance(args[0], Constant):
                    known[statement.out] = args[1] if _is_true(args[0]) else args[2]
                else:
                    found.append(dataclasses.replace(statement, args=args))
            case Store():
                value = known.get(statement.value, statement.value)
                found.append(dataclasses.replace(statement, value=value))
            case _:
                found.append(statement)
    return _needed(found)


def _known(statement: Load | Gather, known: Mapping[Operand, Operand]) -> Statement:
    """Return a read at positions some of which are known."""
    if isinstance(statement, Load):
        return statement
    positions = tuple(known.get(position, position) for position in statement.positions)
    return dataclasses.replace(statement, positions=positions)


def _is_true(operand: Operand) -> bool:
    return isinstance(operand, Constant) and bool(operand.value)


def _holds(guard: Guard, spans: Mapping[int, tuple[int, int]]) -> bool | Guard:
    """Return whether a guard holds in a box, or what is left to ask for."""
    left = []
    for affine, low, high in guard.conditions:
        if len(affine.terms) == 1:
            first, after = spans[affine.terms[0][0]]
            ends = sorted((_value(affine, first), _value(affine, after - 1)))
            if ends[1] < low or ends[0] >= high:
                return False
            if low <= ends[0] and ends[1] < high:
                continue
        left.append((affine, low, high))
    return dataclasses.replace(guard, conditions=tuple(left)) if left else True


def _needed(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """Return the statements without those whose values nothing reads."""
    read: set[Operand] = set()
    found: list[Statement] = []
    for statement in reversed(statements):
        if isinstance(statement, Store) or statement.out in read:
            found.append(statement)
            read.update(operands(statement))
    return tuple(reversed(found))

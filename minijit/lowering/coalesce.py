"""Fewer dimensions for the same kernel: extents of one drop out, contiguous neighbours merge."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from minijit.graph.index import Affine
from minijit.lowering.kernel_ir import (
    Block,
    Branch,
    Gather,
    Guard,
    Index,
    Kernel,
    Load,
    Loop,
    Node,
    Place,
    Product,
    Reduce,
    Store,
    walk,
    with_blocks,
)
from minijit.lowering.stages import indices

__all__ = ["coalesce"]


def coalesce(kernel: Kernel) -> Kernel:
    """Return an equal kernel over as few dimensions as its indices allow.

    Rows are first put in the order in which the outputs lie in memory, columns in that of the
    inputs (unless a reduction asks for positions); then neighbours merge wherever every index
    walks through both as through one. The blocks and columns of a ragged kernel stay as they are.
    """
    rows = range(len(kernel.rows))
    cols = range(len(kernel.rows), len(kernel.extents))
    ordered = any(isinstance(s, Reduce) and s.monoid.position for s in walk(kernel.body))
    ragged = kernel.ragged is not None
    row_groups = _groups(kernel, rows[1:] if ragged else rows, reorder=True)
    col_groups = _groups(kernel, cols, reorder=not ordered)
    if cols and not col_groups:
        col_groups = [tuple(cols)]  # a reduction of one value is one all the same
    if ragged:
        row_groups.insert(0, (0,))
        col_groups = [tuple(cols)]
    groups = row_groups + col_groups
    # A merged dimension is walked with the stride of its fastest part.
    renamed = {group[-1]: position for position, group in enumerate(groups)}
    first = len(kernel.extents)
    renamed |= {first + loop: len(groups) + loop for loop in range(len(kernel.steps))}

    def moved(index: Affine) -> Affine:
        terms = sorted((renamed[d], s) for d, s in index.terms if d in renamed)
        return Affine(index.offset, tuple(terms))

    extents = [math.prod(kernel.extents[d] for d in group) for group in groups]
    return dataclasses.replace(
        kernel,
        rows=tuple(extents[: len(row_groups)]),
        cols=tuple(extents[len(row_groups) :]),
        body=tuple(_moved(node, moved, len(groups) - first) for node in kernel.body),
    )


def _groups(kernel: Kernel, dims: Sequence[int], *, reorder: bool) -> list[tuple[int, ...]]:
    """Split ``dims`` into runs, slowest first, that every index walks as one dimension."""
    statements = [node for node in walk(kernel.body) if not isinstance(node, Loop | Branch)]
    stores = [s.index for s in statements if isinstance(s, Store)]
    others = [i for s in statements if not isinstance(s, Store) for i in indices(s)]
    left = [dim for dim in dims if kernel.extents[dim] != 1]
    if reorder:

        def reach(dim: int) -> tuple[int, ...]:
            # The first index that moves along both of two dimensions decides between them.
            return tuple(-abs(index.stride(dim)) for index in stores + others)

        left.sort(key=reach)
    groups: list[tuple[int, ...]] = []
    for dim in left:
        if groups and all(
            index.stride(groups[-1][-1]) == index.stride(dim) * kernel.extents[dim]
            for index in stores + others
        ):
            groups[-1] += (dim,)
        else:
            groups.append((dim,))
    return groups


def _moved(node: Node, moved: Callable[[Affine], Affine], by: int) -> Node:
    match node:
        case Load() | Gather() | Index() | Store():
            return dataclasses.replace(node, index=moved(node.index))
        case Guard():
            conditions = tuple((moved(index), low, high) for index, low, high in node.conditions)
            return dataclasses.replace(node, conditions=conditions)
        case Product():
            row, matrix = node.row, Place(node.matrix.buffer, moved(node.matrix.index))
            if isinstance(row, Place):
                row = Place(row.buffer, moved(row.index))
            return dataclasses.replace(node, row=row, matrix=matrix, dim=node.dim + by)
        case Loop():
            node = dataclasses.replace(node, dim=node.dim + by)

    def block(inner: Block) -> Block:
        return dataclasses.replace(inner, body=tuple(_moved(n, moved, by) for n in inner.body))

    return with_blocks(node, block)

"""Lowering: a group of nodes becomes a kernel in IR, every value at the index it is needed at."""

from __future__ import annotations

from collections.abc import Mapping

from minijit.graph.index import Affine, SplitDimension
from minijit.graph.jaxpr import Var
from minijit.graph.layout import Layout
from minijit.lowering.demand import Program, Request, Space
from minijit.lowering.follow import follow
from minijit.lowering.partition import Group, Member
from minijit.lowering.writer import KernelWriter, Lowered

__all__ = ["Lowered", "lower_group"]


def lower_group(
    program: Program,
    group: Group,
    stored: frozenset[Var],
    layouts: Mapping[Var, Layout],
    name: str,
) -> Lowered:
    """Write the kernel of ``group``.

    Args:
        program: The program.
        group: One of its kernels.
        stored: Values that live in memory between steps.
        layouts: Of the inputs; other values are contiguous.
        name: What to call the kernel.
    """
    rows = [d for d in range(len(group.extents)) if d not in group.reduced]
    cols = sorted(group.reduced)
    order = {d: position for position, d in enumerate(rows + cols)}
    extents = tuple(group.extents[d] for d in rows + cols)
    columns = tuple(Affine.dim(order[d], group.extents[d]) for d in cols if group.extents[d] != 1)
    space = Space(extents, columns)
    places = {d: Affine.dim(order[d], n) for d, n in enumerate(group.extents)}
    is_row = [True] * len(rows) + [False] * len(cols)
    while True:
        roots = [Request(m.var, _placed(m, places)) for m in group.members]
        try:
            demand = follow(program, roots, space, group.reads)
            break
        except SplitDimension as split:
            space, replaced = space.split(split.dim, split.inner)
            places = {d: a.substituted(replaced) for d, a in places.items()}
            is_row[split.dim : split.dim + 1] = [is_row[split.dim]] * 2
    outputs = [root for root in roots if root.var in stored]
    return KernelWriter(space, sum(is_row), layouts).write(program, demand, outputs, name)


def _placed(member: Member, places: Mapping[int, Affine]) -> tuple[Affine, ...]:
    return tuple(Affine() if dim is None else places[dim] for dim in member.axes)

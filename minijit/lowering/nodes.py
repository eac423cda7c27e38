"""What each node of a program is before it joins a kernel: its own space, and what it reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Set

from minijit.graph.index import Affine, SplitDimension
from minijit.graph.jaxpr import JaxprEqn, Var, has_effect
from minijit.graph.loop import is_collected
from minijit.graph.primitive import Kind
from minijit.lowering.cells import Cells, cells_of, refuse_dear
from minijit.lowering.demand import Blocked, Program, Request, Space
from minijit.lowering.follow import follow
from minijit.lowering.products import seen_through
from minijit.lowering.realize import Realized, realize

__all__ = ["Node", "Nodes", "find_nodes", "row_extents"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A node in a space of its own.

    Attributes:
        var: The value.
        eqn: The equation that defines it.
        extents: Dimensions of its space, unit ones dropped.
        reduced: Which of them it reduces.
        axes: For each axis of the value, the dimension of the space (None: extent one).
        refined: Each dimension in terms of those into which reshapes cut it.
        parts: The extents of those, for the dimensions that are cut.
        reads: What it needs of values in memory and of other nodes.
    """

    var: Var
    eqn: JaxprEqn
    extents: tuple[int, ...]
    reduced: frozenset[int]
    axes: tuple[int | None, ...]
    refined: dict[int, Affine]
    parts: dict[int, tuple[int, ...]]
    reads: tuple[Request, ...]

    @property
    def row_extents(self) -> tuple[int, ...]:
        """The dimensions of its space that it does not reduce."""
        return row_extents(self.extents, self.reduced)

    @property
    def structured(self) -> bool:
        """Whether it is computed by a loop or a branch."""
        return self.eqn.primitive.kind in (Kind.LOOP, Kind.BRANCH)

    @property
    def collected(self) -> bool:
        """Whether it is collected from the steps of a loop."""
        return is_collected(self.eqn, self.var)


def row_extents(extents: tuple[int, ...], reduced: frozenset[int]) -> tuple[int, ...]:
    """Return the dimensions of a space that are not reduced."""
    return tuple(extent for dim, extent in enumerate(extents) if dim not in reduced)


@dataclasses.dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes of a program.

    Attributes:
        realized: Which values they are, and what no kernel computes.
        nodes: Each of them.
        blocked: Equations that no kernel can hold, with the reason.
    """

    realized: Realized
    nodes: Mapping[Var, Node]
    blocked: tuple[tuple[JaxprEqn, str], ...]


def find_nodes(
    program: Program, most_reads: int, most_columns: int, most_matrix_bytes: int
) -> Nodes:
    """Choose and describe the nodes of ``program``.

    What a kernel cannot hold is found node by node; then the nodes are chosen anew around it. So
    that this takes a few rounds however much there is, a round looks behind what it finds: what is
    computed before a blocked equation is a node of the next round, and may be blocked itself.

    Args:
        program: Its outputs are all defined by equations.
        most_reads: From how many values in memory one node may be computed.
        most_columns: How long a row may be that a loop or a branch reduces inside.
        most_matrix_bytes: How large the matrices of a loop may be together that it multiplies with.
    """
    blocked: dict[int, tuple[JaxprEqn, str]] = {
        position: (eqn, "it has effects, which the host carries out")
        for position, eqn in enumerate(program.jaxpr.eqns)
        if eqn.primitive.kind in (Kind.LOOP, Kind.BRANCH) and has_effect(eqn)
    }

    def block(error: Blocked) -> JaxprEqn:
        blocked[program.position[error.eqn.outvars[0]]] = (error.eqn, error.why)
        return error.eqn

    inputs = (*program.jaxpr.invars, *program.jaxpr.constvars)
    while True:
        known = len(blocked)
        try:
            realized = realize(program, frozenset(blocked), most_reads)
        except Blocked as error:
            block(error)
            continue
        library = {var for at in realized.eager for var in program.jaxpr.eqns[at].outvars}
        memory = {*inputs, *realized.nodes, *library}
        nodes: dict[Var, Node] = {}
        pending = list(reversed(realized.nodes))
        while pending:
            var = pending.pop()
            try:
                nodes[var] = _node(program, var, memory, most_columns, most_matrix_bytes)
            except Blocked as error:
                eqn = block(error)
                memory.update(eqn.outvars)
                behind = {seen_through(atom, program.definition) for atom in eqn.invars}
                found = program.position.keys() & behind - memory
                memory |= found
                pending += sorted(found, key=program.position.__getitem__)
                if var not in eqn.outvars:
                    pending.append(var)
        if len(blocked) == known:
            return Nodes(realized, nodes, tuple(blocked.values()))


def _node(
    program: Program, var: Var, memory: Set[Var], most_columns: int, most_matrix_bytes: int
) -> Node:
    eqn = program.definition(var)
    assert eqn is not None
    shape, reduced_axes = var.aval.shape, frozenset[int]()
    steps: tuple[None, ...] = ()
    if is_collected(eqn, var):
        shape, steps = shape[1:], (None,)
    own: tuple[int | None, ...] = tuple(range(len(shape)))
    cells = None
    if eqn.primitive.kind in (Kind.LOOP, Kind.BRANCH):
        cells = cells_of(eqn)
        refuse_dear(eqn, cells, most_columns, most_matrix_bytes)
    elif eqn.primitive.kind is Kind.REDUCTION:
        cells = Cells(eqn.invars[0].aval.shape, tuple(eqn.params["axes"]))
    placed = None if cells is None else cells.axes_of(shape)
    if cells is not None and placed is not None:
        own, shape, reduced_axes = placed, cells.shape, frozenset(cells.axes)
    elif cells is not None and cells.columns == 1:
        raise Blocked(eqn, "it reduces single values of arrays of other shapes")
    dims: dict[int, int] = {}
    for axis, extent in enumerate(shape):
        if extent != 1:
            dims[axis] = len(dims)
    axes = (*steps, *(None if axis is None else dims.get(axis) for axis in own))
    extents = tuple(shape[axis] for axis in dims)
    reduced = frozenset(dims[axis] for axis in reduced_axes if axis in dims)
    if reduced_axes and not reduced:
        # A reduction over unit axes keeps one column, so that it is a reduction all the same.
        extents, reduced = (*extents, 1), frozenset((len(extents),))
    columns = tuple(Affine.dim(d, extents[d]) for d in sorted(reduced) if extents[d] != 1)
    space = Space(extents, columns)
    refined = {d: Affine.dim(d, n) for d, n in enumerate(extents)}
    while True:
        index = tuple(Affine() if d is None else refined[d] for d in axes)
        try:
            demand = follow(program, (Request(var, index),), space, memory)
        except SplitDimension as split:
            space, replaced = space.split(split.dim, split.inner)
            refined = {d: a.substituted(replaced) for d, a in refined.items()}
            continue
        parts = {
            d: tuple(space.extents[part] for part in refined[d].dims)
            for d in range(len(extents))
            if len(refined[d].dims) > 1
        }
        return Node(var, eqn, extents, reduced, axes, refined, parts, demand.loaded)

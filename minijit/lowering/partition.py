"""Partition: which nodes share a kernel, and why the others do not.

Nodes are taken in program order; each joins an earlier kernel when its iteration space fits, when
every value that passes between them is read exactly where it is computed, and when no value would
have to be known before the kernel has run. This moves as few bytes and launches as few kernels as
joining neighbours can.
"""

from __future__ import annotations

import dataclasses
import graphlib
import heapq
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set

from minijit.graph.index import Affine, SplitDimension
from minijit.graph.jaxpr import JaxprEqn, Var
from minijit.graph.loop import is_collected
from minijit.graph.primitive import Kind
from minijit.lowering.cells import Cells, cells_of, refuse_dear
from minijit.lowering.demand import Blocked, Program, Request, Space
from minijit.lowering.follow import follow
from minijit.lowering.groups import Group, Member, Partition, Refusal
from minijit.lowering.realize import Realized, realize

__all__ = ["Group", "Member", "Partition", "Refusal", "partition"]

_LONG = 1 << 15  # columns from which a reduction with few rows is split over the machine


def partition(
    program: Program,
    few_rows: int,
    most_buffers: int = 256,
    most_columns: int = 1 << 14,
    most_matrix_bytes: int = 1 << 18,
) -> Partition:
    """Group the nodes of ``program`` into kernels.

    Args:
        program: Its outputs are all defined by equations.
        few_rows: A reduction with fewer rows leaves the device idle, so that long ones are split.
        most_buffers: How many arrays one kernel may read and write.
        most_columns: How long a row may be that a loop or a branch reduces inside.
        most_matrix_bytes: How large the matrices of a loop may be together that it multiplies with.
    """
    blocked: dict[int, tuple[JaxprEqn, str]] = {}
    while True:
        try:
            realized = realize(program, frozenset(blocked), most_buffers - 1)
            found = _Partitioner(
                program, realized, few_rows, most_buffers, most_columns, most_matrix_bytes
            ).run()
        except Blocked as error:
            blocked[program.position[error.eqn.outvars[0]]] = (error.eqn, error.why)
        else:
            return dataclasses.replace(found, blocked=tuple(blocked.values()))


@dataclasses.dataclass(slots=True)
class _Node:
    """A node before it has joined a kernel: its own space, and the nodes that it reads."""

    var: Var
    eqn: JaxprEqn
    extents: tuple[int, ...]
    reduced: frozenset[int]
    axes: tuple[int | None, ...]
    refined: dict[int, Affine]
    parts: dict[int, tuple[int, ...]]
    reads: tuple[Request, ...]

    @property
    def structured(self) -> bool:
        """Whether it is computed by a loop or a branch."""
        return self.eqn.primitive.kind in (Kind.LOOP, Kind.BRANCH)

    @property
    def member(self) -> Member:
        """The node in a kernel of its own."""
        return Member(self.var, self.axes, self.collected)

    @property
    def collected(self) -> bool:
        """Whether it is collected from the steps of a loop."""
        return is_collected(self.eqn, self.var)


def _in_order(needs: Mapping[int, Set[int]]) -> Iterator[int]:
    """Iterate over steps, each after those that it needs; of several that can run the first."""
    sorter = graphlib.TopologicalSorter(needs)
    sorter.prepare()
    ready = list(sorter.get_ready())
    heapq.heapify(ready)
    while ready:
        step = heapq.heappop(ready)
        yield step
        sorter.done(step)
        for following in sorter.get_ready():
            heapq.heappush(ready, following)


class _Partitioner:
    def __init__(
        self,
        program: Program,
        realized: Realized,
        few_rows: int,
        most_buffers: int,
        most_columns: int,
        most_matrix_bytes: int,
    ) -> None:
        self.program = program
        self.realized = realized
        self.few_rows = few_rows
        self.most_buffers = most_buffers
        self.most_columns = most_columns
        self.most_matrix_bytes = most_matrix_bytes
        eqns = program.jaxpr.eqns
        self.stride = 1 + max((len(eqn.outvars) for eqn in eqns), default=0)
        library = {var for position in realized.eager for var in eqns[position].outvars}
        inputs = (*program.jaxpr.invars, *program.jaxpr.constvars)
        self.memory = frozenset({*inputs, *realized.nodes, *library})
        self.nodes: dict[Var, _Node] = {}
        self.groups: dict[int, Group] = {}
        self.step_of: dict[Var, int] = {}
        self.needs: dict[int, set[int]] = {}
        """By step, the steps whose results it reads."""
        self.by_extents: dict[tuple[int, ...], set[int]] = defaultdict(set)
        self.refusals: list[Refusal] = []

    def run(self) -> Partition:
        """Place every node and order the steps."""
        nodes = set(self.realized.nodes)
        for position, eqn in enumerate(self.program.jaxpr.eqns):
            if position in self.realized.eager or position in self.realized.views:
                self._add_eager(position, eqn)
            if position not in self.realized.eager:
                for var in eqn.outvars:
                    if var in nodes:
                        self._place(position, self._node(eqn, var))
        order = _in_order(self.needs)
        eqns = self.program.jaxpr.eqns
        steps = tuple(self.groups.get(s) or eqns[s // self.stride] for s in order)
        return Partition(steps, self._stored(), tuple(self.refusals))

    # Steps are numbered by position: the first number of a position is that of an equation which no
    # kernel holds, the others are those of kernels that were begun there, one for each result.

    def _add_eager(self, position: int, eqn: JaxprEqn) -> None:
        step = self.stride * position
        needs = self.needs.setdefault(step, set())
        for atom in eqn.invars:
            if isinstance(atom, Var) and atom in self.program.position:
                source = self.program.position[atom]
                viewed = source in self.realized.views
                needs.add(self.stride * source if viewed else self.step_of[atom])
        if position in self.realized.eager:
            for var in eqn.outvars:
                self.step_of[var] = step

    def _node(self, eqn: JaxprEqn, var: Var) -> _Node:
        shape, reduced_axes = var.aval.shape, frozenset[int]()
        steps: tuple[None, ...] = ()
        if is_collected(eqn, var):
            shape, steps = shape[1:], (None,)
        own: tuple[int | None, ...] = tuple(range(len(shape)))
        structured = eqn.primitive.kind in (Kind.LOOP, Kind.BRANCH)
        cells = cells_of(eqn) if structured else None
        if structured:
            refuse_dear(eqn, cells, self.most_columns, self.most_matrix_bytes)
        if eqn.primitive.kind is Kind.REDUCTION:
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
                demand = follow(self.program, (Request(var, index),), space, self.memory)
            except SplitDimension as split:
                space, replaced = space.split(split.dim, split.inner)
                refined = {d: a.substituted(replaced) for d, a in refined.items()}
                continue
            parts = {
                d: tuple(space.extents[part] for part in refined[d].dims)
                for d in range(len(extents))
                if len(refined[d].dims) > 1
            }
            return _Node(var, eqn, extents, reduced, axes, refined, parts, demand.loaded)

    def _place(self, position: int, node: _Node) -> None:
        self.nodes[node.var] = node
        sources = [r.var for r in node.reads if r.var in self.step_of]
        producers = sorted({self.step_of[var] for var in sources}, reverse=True)
        before = self._ancestors(producers)
        for step in (*producers, *self._siblings(node, before.union(producers))):
            group = self.groups.get(step)
            if group is None:
                continue
            joined = self._join(group, node, step in producers)
            if step in before and not isinstance(joined, str):
                joined = "it also reads what is computed from that kernel's results"
            if not isinstance(joined, str):
                self._commit(step, joined, node, [p for p in producers if p != step])
                return
            if step in producers:
                producer = next(v for v in sources if self.step_of[v] == step)
                self.refusals.append(Refusal(producer, node.var, joined))
        step = self.stride * position + 1 + node.eqn.outvars.index(node.var)
        group = Group(node.extents, node.reduced, (node.member,))
        self.needs.setdefault(step, set())
        self._commit(step, dataclasses.replace(group, split=self._is_long(group)), node, producers)

    def _ancestors(self, steps: list[int]) -> set[int]:
        """Return the steps that must have run before one of ``steps`` can."""
        found: set[int] = set()
        pending = list(steps)
        while pending:
            for step in self.needs[pending.pop()]:
                if step not in found:
                    found.add(step)
                    pending.append(step)
        return found

    def _siblings(self, node: _Node, excluded: set[int]) -> list[int]:
        """Return the kernels with an iteration space that ``node`` may fit, latest first."""
        rows = _row_extents(node.extents, node.reduced)
        fitting = {*self.by_extents[node.extents], *self.by_extents[rows]}
        return sorted(fitting - excluded, reverse=True)

    def _commit(self, step: int, group: Group, node: _Node, producers: list[int]) -> None:
        for extents in (group.extents, _row_extents(group.extents, group.reduced)):
            self.by_extents[extents].add(step)
        self.groups[step] = group
        self.step_of[node.var] = step
        self.needs[step].update(producers)

    def _join(self, group: Group, node: _Node, related: bool) -> Group | str:
        """Return ``group`` with ``node`` in it, or the reason why that cannot be."""
        nodes = (node, *(self.nodes[member.var] for member in group.members))
        foreign = len({each.eqn for each in nodes}) > 1 and any(n.structured for n in nodes)
        if foreign and (node.reduced or group.reduced):
            return "a loop or a branch shares no kernel with a reduction"
        joined = _fitted(group, node)
        if joined is None:
            return "their iteration spaces differ"
        if not related and bool(group.reduced) != bool(node.reduced):
            shared = {r.var for r in node.reads}
            if not any(r.var in shared for m in group.members for r in self.nodes[m.var].reads):
                return "they share neither values nor inputs"
        placed = {member.var: member for member in joined.members}
        read = {r.var for var in placed for r in self.nodes[var].reads}
        if len(read.union(placed)) > self.most_buffers:
            return f"one kernel takes at most {self.most_buffers} buffers"
        # Nobody in the kernel reads the newcomer, so only what it reads can be out of place.
        if not self._aligned(joined.members[-1], placed):
            return "a value is needed at another place than where it is computed"
        if not self._split_alike(joined):
            return "reshapes cut their iteration space in different ways"
        joined = dataclasses.replace(joined, split=self._is_long(joined))
        if joined.split and self._waits_for_reduction(joined, placed):
            return (
                "few long rows: the reduction is split, so its result is known only after the "
                "kernel"
            )
        return joined

    def _aligned(self, member: Member, placed: dict[Var, Member]) -> bool:
        """Whether ``member`` reads the others of its kernel at its own row and cell."""
        node = self.nodes[member.var]
        own = _own_dims(member, node)
        for request in node.reads:
            other = placed.get(request.var)
            if other is None:
                continue
            if request.conditions or other.collected:
                return False
            for index, dim in zip(request.index, other.axes, strict=True):
                if dim is None:
                    continue
                if dim not in own or index != node.refined[own[dim]]:
                    return False
        return True

    def _split_alike(self, group: Group) -> bool:
        """Whether no two members need a dimension to be split in different ways."""
        parts: dict[int, tuple[int, ...]] = {}
        for member in group.members:
            node = self.nodes[member.var]
            for there, here in _own_dims(member, node).items():
                if (
                    here in node.parts
                    and parts.setdefault(there, node.parts[here]) != node.parts[here]
                ):
                    return False
        return True

    def _is_long(self, group: Group) -> bool:
        rows = math.prod(n for d, n in enumerate(group.extents) if d not in group.reduced)
        cols = math.prod(group.extents[d] for d in group.reduced)
        return bool(group.reduced) and rows < self.few_rows and cols >= _LONG

    def _waits_for_reduction(self, group: Group, placed: dict[Var, Member]) -> bool:
        """Whether a cell of ``group`` depends on one of its reductions."""
        rows = set(range(len(group.extents))) - group.reduced
        known_late: set[Var] = set()
        for member in group.members:
            node = self.nodes[member.var]
            waits = any(r.var in known_late for r in node.reads if r.var in placed)
            on_row = {d for d in member.axes if d is not None} <= rows and not node.reduced
            if waits and not on_row:
                return True
            if waits or node.reduced:
                known_late.add(member.var)
        return False

    def _stored(self) -> frozenset[Var]:
        """Return what has to be in memory: results, and what another step reads."""
        stored = {atom for atom in self.program.jaxpr.outvars if isinstance(atom, Var)}
        for node in self.nodes.values():
            step = self.step_of[node.var]
            stored.update(r.var for r in node.reads if self.step_of.get(r.var) != step)
        views: set[Var] = set()
        for position in (*self.realized.eager, *self.realized.views):
            eqn = self.program.jaxpr.eqns[position]
            stored.update(atom for atom in (*eqn.invars, *eqn.outvars) if isinstance(atom, Var))
            if position in self.realized.views:
                views.update(eqn.outvars)
        # The library alone reads those: kernels look through them to what they show.
        return frozenset(stored - views)


def _row_extents(extents: tuple[int, ...], reduced: frozenset[int]) -> tuple[int, ...]:
    return tuple(extent for dim, extent in enumerate(extents) if dim not in reduced)


def _own_dims(member: Member, node: _Node) -> dict[int, int]:
    """Return, for dimensions of the group's space, the dimension of the node's own space."""
    if node.reduced:  # a reduction spans the whole space, in the same order
        return {d: d for d in range(len(node.extents))}
    return {
        there: here
        for there, here in zip(member.axes, node.axes, strict=True)
        if there is not None and here is not None
    }


def _fitted(group: Group, node: _Node) -> Group | None:
    """Return ``group`` with ``node`` over all of its space or over its rows, if it fits."""
    if node.reduced and group.reduced:
        if (node.extents, node.reduced) != (group.extents, group.reduced):
            return None
        return dataclasses.replace(group, members=(*group.members, node.member))
    if node.reduced:
        # The kernel so far has no reductions: its members become cells, or rows of the reduction.
        members = [_remapped(m, group.extents, node.extents, node.reduced) for m in group.members]
        if any(member is None for member in members):
            return None
        kept = tuple(member for member in members if member is not None)
        return Group(node.extents, node.reduced, (*kept, node.member))
    member = _remapped(node.member, node.extents, group.extents, group.reduced)
    if member is None:
        return None
    return dataclasses.replace(group, members=(*group.members, member))


def _remapped(
    member: Member, own: tuple[int, ...], extents: tuple[int, ...], reduced: frozenset[int]
) -> Member | None:
    """Place a member of space ``own`` into a space, over all of it or over its rows."""
    rows = [d for d in range(len(extents)) if d not in reduced]
    for dims in (list(range(len(extents))), rows):
        if own == tuple(extents[d] for d in dims):
            axes = tuple(None if d is None else dims[d] for d in member.axes)
            return dataclasses.replace(member, axes=axes)
    return None

"""Whether a node fits a kernel, and what the kernel is with it.

Everything that is asked of a kernel is kept up to date as nodes join it, so that a node is judged
by what it brings along and not by how much is there already.
"""

from __future__ import annotations

import dataclasses

from minijit.graph.few_rows import FewRows
from minijit.graph.jaxpr import JaxprEqn, Var
from minijit.lowering.groups import Group, Member
from minijit.lowering.nodes import Node, row_extents

__all__ = ["Draft", "Fit"]

_Dims = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Fit:
    """How a kernel and a node share a space.

    Attributes:
        extents: The space.
        reduced: Its columns.
        held: Where the kernel's dimensions are in it.
        joining: Where the node's are.
    """

    extents: tuple[int, ...]
    reduced: frozenset[int]
    held: _Dims
    joining: _Dims


class Draft:
    """A kernel that nodes join.

    Attributes:
        extents: Of its space.
        reduced: Which dimensions of it reductions run over.
    """

    def __init__(self, node: Node, few_rows: FewRows, most_buffers: int) -> None:
        """Begin with one node.

        Args:
            node: The first.
            few_rows: Which reductions are split.
            most_buffers: How many arrays the kernel may read and write.
        """
        self.extents = node.extents
        self.reduced: frozenset[int] = frozenset()
        self._few_rows = few_rows
        self._most_buffers = most_buffers
        self._members: dict[Var, Member] = {}
        self._eqns: set[JaxprEqn] = set()
        self._structured = False
        self._read: set[Var] = set()
        self._buffers: set[Var] = set()
        self._parts: dict[int, tuple[int, ...]] = {}
        self._late: set[Var] = set()
        """What is known only when a reduction of the kernel is."""
        same = tuple(range(len(node.extents)))
        self.add(node, Fit(node.extents, node.reduced, same, same))

    @property
    def group(self) -> Group:
        """The kernel as it is now."""
        split = self._few_rows.has(self.extents, self.reduced)
        read = frozenset(self._read.difference(self._members))
        return Group(self.extents, self.reduced, tuple(self._members.values()), read, split)

    @property
    def row_extents(self) -> tuple[int, ...]:
        """The dimensions of its space that are not reduced."""
        return row_extents(self.extents, self.reduced)

    @property
    def full(self) -> bool:
        """Whether no other node can join it."""
        return len(self._buffers) >= self._most_buffers

    def fit(self, node: Node, *, related: bool) -> Fit | str:
        """Return how ``node`` fits the kernel, or the reason why it does not.

        Args:
            node: No member reads it.
            related: Whether it reads a member.
        """
        structured = self._structured or node.structured
        if structured and self._eqns != {node.eqn} and (node.reduced or self.reduced):
            return "a loop or a branch shares no kernel with a reduction"
        fit = self._space(node)
        if fit is None:
            return "their iteration spaces differ"
        read = {request.var for request in node.reads}
        if not related and bool(self.reduced) != bool(node.reduced) and read.isdisjoint(self._read):
            return "they share neither values nor inputs"
        if len(self._buffers) + len((read | {node.var}) - self._buffers) > self._most_buffers:
            return f"one kernel takes at most {self._most_buffers} buffers"
        # Nobody in the kernel reads the newcomer, so only what it reads can be out of place.
        if not self._aligned(node, fit):
            return "a value is needed at another place than where it is computed"
        parts = self._moved_parts(fit)
        if any(parts.get(fit.joining[d], cut) != cut for d, cut in node.parts.items()):
            return "reshapes cut their iteration space in different ways"
        if self._few_rows.has(fit.extents, fit.reduced) and self._waits(node, fit):
            return (
                "few long rows: the reduction is split, so its result is known only after the "
                "kernel"
            )
        return fit

    def add(self, node: Node, fit: Fit) -> None:
        """Take ``node`` in, which fits."""
        if fit.held != tuple(range(len(self.extents))):
            self._members = {
                var: dataclasses.replace(member, axes=_moved(member.axes, fit.held))
                for var, member in self._members.items()
            }
            self._parts = self._moved_parts(fit)
        self.extents, self.reduced = fit.extents, fit.reduced
        read = {request.var for request in node.reads}
        if node.reduced or not self._late.isdisjoint(read):
            self._late.add(node.var)
        self._members[node.var] = Member(node.var, _moved(node.axes, fit.joining), node.collected)
        self._parts |= {fit.joining[d]: cut for d, cut in node.parts.items()}
        self._eqns.add(node.eqn)
        self._structured |= node.structured
        self._read |= read
        self._buffers |= read | {node.var}

    def _space(self, node: Node) -> Fit | None:
        """Return the space of both, over all of which or over whose rows each of them lies."""
        same = tuple(range(len(node.extents)))
        if node.reduced and self.reduced:
            alike = (node.extents, node.reduced) == (self.extents, self.reduced)
            return Fit(node.extents, node.reduced, same, same) if alike else None
        if node.reduced:
            # The kernel has no reductions so far: it becomes cells, or rows of the reduction.
            held = _place(self.extents, node.extents, node.reduced)
            return None if held is None else Fit(node.extents, node.reduced, held, same)
        joining = _place(node.extents, self.extents, self.reduced)
        if joining is None:
            return None
        return Fit(self.extents, self.reduced, tuple(range(len(self.extents))), joining)

    def _aligned(self, node: Node, fit: Fit) -> bool:
        """Whether ``node`` reads the members at its own row and cell."""
        own = {there: here for here, there in enumerate(fit.joining)}
        for request in node.reads:
            other = self._members.get(request.var)
            if other is None:
                continue
            if request.conditions or other.collected:
                return False
            for index, dim in zip(request.index, _moved(other.axes, fit.held), strict=True):
                if dim is not None and (dim not in own or index != node.refined[own[dim]]):
                    return False
        return True

    def _moved_parts(self, fit: Fit) -> dict[int, tuple[int, ...]]:
        """Return how reshapes cut the dimensions of the space, by those of ``fit``."""
        return {fit.held[d]: cut for d, cut in self._parts.items()}

    def _waits(self, node: Node, fit: Fit) -> bool:
        """Whether a cell of ``node`` depends on a reduction of the kernel."""
        waits = not self._late.isdisjoint(request.var for request in node.reads)
        return waits and (bool(node.reduced) or not fit.reduced.isdisjoint(fit.joining))


def _moved(axes: tuple[int | None, ...], dims: _Dims) -> tuple[int | None, ...]:
    return tuple(None if axis is None else dims[axis] for axis in axes)


def _place(own: tuple[int, ...], extents: tuple[int, ...], reduced: frozenset[int]) -> _Dims | None:
    """Return where the dimensions of a space are in another: all of those there, or its rows."""
    every = tuple(range(len(extents)))
    for dims in (every, tuple(d for d in every if d not in reduced)):
        if own == tuple(extents[d] for d in dims):
            return dims
    return None

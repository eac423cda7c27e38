"""Gathers: elements of an array in memory, at places that are computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from minijit.graph.index import Affine
from minijit.graph.jaxpr import Atom, JaxprEqn, Var
from minijit.lowering.demand import Conditions, Request, Space

__all__ = ["Gathered", "gather_at"]

_Index = tuple[Affine, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Gathered:
    """An element that a gather returns.

    Attributes:
        operand: The array.
        index: Of its element. Each gathered axis is a dimension of its own, numbered with the
            steps of loops, whose value is a position.
        positions: The operands that hold them, with the index of each.
        dims: The dimension of each.
    """

    operand: Atom
    index: _Index
    positions: tuple[tuple[Atom, _Index], ...]
    dims: tuple[int, ...]

    def requests(self, conditions: Conditions) -> Iterator[Request]:
        """Yield what it needs, where ``conditions`` hold."""
        if isinstance(self.operand, Var):
            yield Request(self.operand, self.index)
        for atom, index in self.positions:
            if isinstance(atom, Var):
                yield Request(atom, index, conditions)


def gather_at(eqn: JaxprEqn, request: Request, space: Space) -> Gathered:
    """Return what ``request``, an element of a gather's result, is read from."""
    operand, *positions = eqn.invars
    axes, at = eqn.params["axes"], eqn.params["at"]
    shape = operand.aval.shape
    rank = positions[0].aval.ndim
    own = request.index[at : at + rank]
    extents = tuple(shape[axis] for axis in axes)
    first = len(space.extents) + space.steps.whole(eqn, request.index, *extents)
    dims = tuple(range(first, first + len(axes)))
    gathered = dict(zip(axes, map(Affine.dim, dims, extents), strict=True))
    others = iter((*request.index[:at], *request.index[at + rank :]))
    index = tuple(
        gathered[axis] if axis in gathered else next(others) for axis in range(len(shape))
    )
    return Gathered(operand, index, tuple((atom, own) for atom in positions), dims)

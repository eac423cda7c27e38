"""How the values of a loop or a branch lie over the rows and columns of its kernel."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from minijit.graph.index import Affine
from minijit.graph.jaxpr import Jaxpr, JaxprEqn, subjaxprs
from minijit.graph.primitive import Kind
from minijit.lowering.demand import Blocked

__all__ = ["Cells", "cells_of"]

_Index = tuple[Affine, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Cells:
    """The arrays that the reductions inside run over.

    Attributes:
        shape: Their shape.
        axes: The axes that are reduced.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def columns(self) -> int:
        """Number of cells of a row."""
        return math.prod(self.shape[axis] for axis in self.axes)

    def axes_of(self, shape: tuple[int, ...]) -> tuple[int | None, ...] | None:
        """Return which axis of the cells each axis of an array is, None for one of extent one.

        The array has the shape of the cells, or that of the rows with the reduced axes left out or
        kept as axes of extent one; None is returned for any other.
        """
        every = range(len(self.shape))
        if shape == self.shape:
            return tuple(every)
        if shape == tuple(1 if axis in self.axes else self.shape[axis] for axis in every):
            return tuple(None if axis in self.axes else axis for axis in every)
        kept = tuple(axis for axis in every if axis not in self.axes)
        return kept if shape == tuple(self.shape[axis] for axis in kept) else None

    def index_of(self, shape: tuple[int, ...], cell: _Index) -> _Index | None:
        """Return the index into an array of ``shape`` at a cell, or None if it has another one."""
        axes = self.axes_of(shape)
        if axes is None:
            return None
        return tuple(Affine() if axis is None else cell[axis] for axis in axes)

    def cell(
        self, shape: tuple[int, ...], index: _Index, columns: Sequence[Affine]
    ) -> _Index | None:
        """Return the cells at which an element of an array is known: one, or those of its row."""
        axes = self.axes_of(shape)
        if axes is None:
            return None
        known = {axis: own for axis, own in zip(axes, index, strict=True) if axis is not None}
        left = iter(columns)
        for axis in self.axes:
            column = next(left, Affine()) if self.shape[axis] != 1 else Affine()
            known.setdefault(axis, column)
        return tuple(known.get(axis, Affine()) for axis in range(len(self.shape)))


def cells_of(eqn: JaxprEqn) -> Cells | None:
    """Return what a loop or a branch reduces, None where it does not.

    Raises:
        Blocked: it reduces arrays of several shapes, or along several axes.
    """
    found = {
        Cells(inner.invars[0].aval.shape, tuple(inner.params["axes"]))
        for body in subjaxprs(eqn)
        for inner in _equations(body)
        if inner.primitive.kind is Kind.REDUCTION
    }
    if len(found) > 1:
        raise Blocked(eqn, "its body reduces arrays of several shapes, or along several axes")
    return found.pop() if found else None


def _equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    for eqn in jaxpr.eqns:
        yield eqn
        for body in subjaxprs(eqn):
            yield from _equations(body)

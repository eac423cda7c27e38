"""How the values of a loop or a branch lie over the rows and columns of its kernel."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from minijit.graph.index import Affine
from minijit.graph.jaxpr import JaxprEqn, equations
from minijit.graph.primitive import Kind
from minijit.lowering.demand import Blocked
from minijit.lowering.products import LoopProduct, loop_products

__all__ = ["Cells", "cells_of", "refuse_dear"]

_Index = tuple[Affine, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Cells:
    """The arrays whose rows are reduced or multiplied inside.

    Attributes:
        shape: Their shape.
        axes: The axes along which a row lies.
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
    """Return the rows that a loop or a branch reduces or multiplies, None where it does not.

    Raises:
        Blocked: they are rows of several shapes, or along several axes, or a product is none of a
            row with a matrix.
    """
    found = {
        Cells(inner.invars[0].aval.shape, tuple(inner.params["axes"]))
        for inner in equations((eqn,))
        if inner.primitive.kind is Kind.REDUCTION
    }
    products = [product for product in loop_products(eqn) if product.row is not None]
    found.update(_factor(product) for product in products if product.computed)
    if not found:
        found.update(_result(product) for product in products)
    if len(found) > 1:
        raise Blocked(
            eqn, "its body reduces or multiplies rows of several shapes, or along several axes"
        )
    return found.pop() if found else None


def refuse_dear(
    eqn: JaxprEqn, cells: Cells | None, most_columns: int, most_matrix_bytes: int
) -> None:
    """Raise ``Blocked`` for a loop or a branch over ``cells`` that the host had better drive."""
    if cells is not None and cells.columns > most_columns:
        why = f"rows of {cells.columns} values are more than a loop keeps: {most_columns}"
        raise Blocked(eqn, why)
    products = loop_products(eqn)
    for product in products:
        if not product.looped:
            raise Blocked(eqn, f"{product.eqn.primitive.name} is run by the array library")
    size = sum(product.matrix.nbytes for product in products)
    if size > most_matrix_bytes:
        why = f"matrices of {size} bytes are more than a loop keeps: {most_matrix_bytes}"
        raise Blocked(eqn, f"{why}; the array library multiplies with them")


def _factor(product: LoopProduct) -> Cells:
    """Return the rows of the factor that changes."""
    shape = product.eqn.invars[product.row or 0].aval.shape
    return Cells(shape, (len(shape) - 1 if product.row == 0 else max(len(shape) - 2, 0),))


def _result(product: LoopProduct) -> Cells:
    """Return the rows of the result, or with a vector for the matrix those of the other factor."""
    if len(product.matrix.shape) < 2:
        return _factor(product)
    shape = product.eqn.outvars[0].aval.shape
    vectors = product.row == 1 and len(product.eqn.invars[1].aval.shape) > 1
    return Cells(shape, (len(shape) - 2 if vectors else len(shape) - 1,))

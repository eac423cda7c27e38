"""How an array is cut into blocks that are reduced by themselves, and their results joined."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Atom, JaxprEqn
from minijit.graph.trace import bind, trace_function
from minijit.ops.axes import place_without, shifted
from minijit.ops.promote import convert
from minijit.ops.reduce import reduce_sum_p
from minijit.ops.shape import reshape
from minijit.transforms.inline import spliced

__all__ = ["DTYPES", "Cut", "FewRows", "added", "cut_few_rows", "in_blocks", "made_of"]

DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
"""Sums of float16 in blocks would be rounded to float16."""
_MOST_CELLS = 1 << 12
"""Elements of a row in a block at most: of so many threads hold 16 each, in few registers."""
_FEWEST_CELLS = 1 << 10
"""And at least, as far as there is a choice: of fewer there is little to read at once."""
_FEWEST_ROWS = 256
"""And of each of the rows that it takes side by side: what it leaves is a twentieth of it."""
_ABREAST = 32
"""Rows that are neighbours in memory, so that a block takes as many side by side."""
_VECTOR = 8


class FewRows(NamedTuple):
    """What few long rows are on a target.

    Attributes:
        rows: Fewer than so many leave it idle.
        columns: From so many on rows are worth blocks of their own.
    """

    rows: int
    columns: int


@dataclasses.dataclass(frozen=True, slots=True)
class Cut:
    """How an array is cut along one of its reduced axes.

    Attributes:
        axis: That axis.
        axes: All that are reduced.
        rows: Indices of a block along it.
        count: Number of whole blocks.
        rest: Indices that are left.
    """

    axis: int
    axes: tuple[int, ...]
    rows: int
    count: int
    rest: int

    @property
    def inner(self) -> tuple[int, ...]:
        """The axes over which blocks are reduced, in an array with an axis of blocks."""
        return shifted(self.axes, self.axis)

    @property
    def place(self) -> int:
        """The axis of blocks among the axes that are left then."""
        return place_without(self.axis, self.axes)


def cut_few_rows(aval: ShapedArray, axes: tuple[int, ...], few: FewRows) -> Cut | None:
    """Return how few long rows are cut evenly so that blocks fill the target.

    None where there are many or short ones, or no axis has a divisor of a fitting size.
    """
    shape = aval.shape
    cells = math.prod(shape[axis] for axis in axes)
    rows = math.prod(shape) // max(cells, 1)
    if aval.dtype not in DTYPES or rows >= few.rows or cells < few.columns:
        return None
    neighbours = math.prod(shape[max(axes) + 1 :])
    wanted = min(max(rows * cells // few.rows, _FEWEST_CELLS), _MOST_CELLS)
    # More blocks than that would be long rows themselves.
    least = max(_FEWEST_ROWS, cells // few.columns + 1)
    wanted = max(wanted // min(neighbours, _ABREAST), least)
    for axis in axes:
        inner = cells // shape[axis]
        most = wanted // inner
        sizes = (*range(most, most // 4, -1), *range(most + 1, 4 * _MOST_CELLS // inner + 1))
        lengths = [n for n in sizes if shape[axis] % n == 0]
        lengths = [n for n in lengths if n % _VECTOR == 0] or lengths
        if lengths and lengths[0] < shape[axis]:
            return Cut(axis, axes, lengths[0], shape[axis] // lengths[0], 0)
    return None


def in_blocks(x: Any, cut: Cut) -> Any:
    """Return an array of whole blocks with an axis of blocks before the one that is cut."""
    before, after = x.shape[: cut.axis], x.shape[cut.axis + 1 :]
    return reshape(x, (*before, cut.count, cut.rows, *after))


def added(blocks: Any, axis: int, *rest: Any) -> Any:
    """Return the sum over blocks, and of the rest: of so few large numbers, in float64."""
    wide = bind(reduce_sum_p, convert(blocks, np.dtype(np.float64)), axes=(axis,))
    for each in rest:
        wide = wide + convert(each, np.dtype(np.float64))
    return convert(wide, blocks.dtype)


def made_of(
    eqn: JaxprEqn, function: Callable[..., Sequence[Any]], operands: tuple[Atom, ...]
) -> tuple[tuple[JaxprEqn, ...], tuple[Atom, ...]]:
    """Return the equations of a function of values in the place of ``eqn``, and its results."""
    avals = [atom.aval for atom in operands]
    names = [""] * len(avals)
    made = trace_function(lambda values: function(*values), avals, names, "sums", alone=True).jaxpr
    eqns, results = spliced(made, operands)
    return tuple(dataclasses.replace(each, source=eqn.source) for each in eqns), results

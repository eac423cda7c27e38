"""How an array is cut into blocks that are reduced by themselves, and their results joined."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.few_rows import FewRows
from minijit.graph.jaxpr import Atom, JaxprEqn
from minijit.graph.trace import bind, trace_function
from minijit.ops.axes import place_without, shifted
from minijit.ops.create import full, iota
from minijit.ops.join import pad
from minijit.ops.promote import broadcast_in_dim_p, convert
from minijit.ops.reduce import reduce_sum_p
from minijit.ops.select import where
from minijit.ops.shape import reshape
from minijit.transforms.inline import spliced

__all__ = ["Cut", "added", "cut_few_rows", "elements", "in_blocks", "made_of", "within"]

_MOST_CELLS = 1 << 12
"""Elements of a row in a block at most: of so many threads hold 16 each, in few registers."""
_FEWEST_CELLS = 1 << 10
"""And at least, as far as there is a choice: of fewer there is little to read at once."""
_FEWEST_ROWS = 256
"""And of each of the rows that it takes side by side: what it leaves is a twentieth of it."""
_ABREAST = 32
"""Rows that are neighbours in memory, so that a block takes as many side by side."""
_VECTOR = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Cut:
    """How an array is cut along one of its reduced axes.

    Attributes:
        axis: That axis.
        axes: All that are reduced.
        width: Elements at each index, along the others of these.
        rows: Indices of a block along it.
        count: Number of blocks.
        rest: Indices that are left.
        missing: Indices that the last block has less than the others.
    """

    axis: int
    axes: tuple[int, ...]
    width: int
    rows: int
    count: int
    rest: int = 0
    missing: int = 0

    @property
    def inner(self) -> tuple[int, ...]:
        """The axes over which blocks are reduced, in an array with an axis of blocks."""
        return shifted(self.axes, self.axis)

    @property
    def place(self) -> int:
        """The axis of blocks among the axes that are left then."""
        return place_without(self.axis, self.axes)


def cut_few_rows(aval: ShapedArray, axes: tuple[int, ...], few: FewRows) -> Cut | None:
    """Return how few long rows are cut so that blocks fill the target, evenly if that is possible.

    None where there are many or short ones, or each index of the axes is a block's work.
    """
    shape = aval.shape
    cells = math.prod(shape[axis] for axis in axes)
    rows = math.prod(shape) // max(cells, 1)
    if not few.has(shape, axes):
        return None
    neighbours = math.prod(shape[max(axes) + 1 :])
    wanted = min(max(rows * cells // few.rows, _FEWEST_CELLS), _MOST_CELLS)
    # More blocks than that would be long rows themselves.
    least = max(_FEWEST_ROWS, cells // few.columns + 1)
    wanted = max(wanted // min(neighbours, _ABREAST), least)
    for axis in axes:
        inner = cells // shape[axis]
        most = wanted // inner
        sizes = (*range(most, most // 2, -1), *range(most + 1, 2 * most + 1))
        lengths = [n for n in sizes if shape[axis] % n == 0]
        lengths = [n for n in lengths if n % _VECTOR == 0] or lengths
        if lengths and lengths[0] < shape[axis]:
            return Cut(axis, axes, inner, lengths[0], shape[axis] // lengths[0])
    for axis in axes:
        inner = cells // shape[axis]
        length = wanted // inner
        length = length // _VECTOR * _VECTOR or length
        if 1 < length < shape[axis]:
            count = -(-shape[axis] // length)
            return Cut(axis, axes, inner, length, count, missing=count * length - shape[axis])
    return None


def in_blocks(x: Any, cut: Cut, fill: float = 0) -> Any:
    """Return an array of blocks with an axis of blocks before the one that is cut.

    What the last block is short of is ``fill``, which kernels put in the place of what they read.
    """
    high = [cut.missing if axis == cut.axis else 0 for axis in range(len(x.shape))]
    x = pad(x, fill, [0] * len(high), high)
    before, after = x.shape[: cut.axis], x.shape[cut.axis + 1 :]
    return reshape(x, (*before, cut.count, cut.rows, *after))


def within(x: Any, cut: Cut) -> Any:
    """Return an array of blocks with zeros in the place of what the last one is short of."""
    if not cut.missing:
        return x
    exists = full((cut.count * cut.rows - cut.missing,), True, np.dtype(np.bool_))
    exists = reshape(pad(exists, False, [0], [cut.missing]), (cut.count, cut.rows))
    dims = (cut.axis, cut.axis + 1)
    return where(bind(broadcast_in_dim_p, exists, shape=x.shape, dims=dims), x, x.dtype.type(0))


def elements(cut: Cut, rank: int, dtype: np.dtype[Any]) -> Any:
    """Return of how many elements a block consists, for each of them if they are not alike.

    Args:
        cut: How an array is cut.
        rank: Its dimensions.
        dtype: In which they are counted.
    """
    if not cut.missing:
        return dtype.type(cut.rows * cut.width)
    after = rank - len(cut.axes) - cut.place
    last = iota((cut.count, *(1,) * after), 0, np.dtype(np.int32)) == np.int32(cut.count - 1)
    fewer = dtype.type((cut.rows - cut.missing) * cut.width)
    return where(last, fewer, dtype.type(cut.rows * cut.width))


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

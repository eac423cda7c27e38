"""Sums of squares about a mean in blocks that a cache holds: large arrays are read once, not twice.

A variance needs the mean first, and then every element again: where the array fits no cache, it is
read twice. Here each block of it has a pivot of its own, its own mean, and is gone through twice
where it lies; what blocks found is moved to the common mean afterwards (Chan, Golub and LeVeque,
"Updating formulae and a pairwise algorithm for computing sample variances", 1979). With ``p`` the
pivot, ``e = m - p``, ``c`` the sum of ``x - p`` and ``q`` that of its square over ``n`` numbers:

    sum((x - m)**2) = q - e * (2 * c - n * e)

This holds for any pivot and any ``m``. The difference ``e`` of floats close to each other is exact,
so the result is as exact as that of two passes however far the mean is from zero.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minijit.graph.few_rows import FewRows
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var
from minijit.graph.primitive import Kind
from minijit.graph.trace import bind
from minijit.ops.binary import maximum
from minijit.ops.promote import broadcast_in_dim_p
from minijit.ops.reduce import reduce_sum_p
from minijit.ops.shape import expand_dims, reshape, static_slice
from minijit.transforms.blocks import (
    Cut,
    added,
    cut_few_rows,
    elements,
    in_blocks,
    made_of,
    within,
)
from minijit.transforms.rewrite import rebuild, resolve, substituted
from minijit.transforms.simplify import simplify

__all__ = ["sums_in_blocks"]

_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
"""What is subtracted and squared in float16 would be so in float32 here."""
_FAR_BYTES = 1 << 23
"""What is smaller is read again from the last cache, which costs less than a second kernel."""
_NEAR_BYTES = 1 << 18
"""What is gone through again within so many bytes is found in the second cache."""
_ROWS = 64
"""Least indices of a block: what it leaves for the second kernel is a twentieth of it."""
_BLOCK = 1 << 16
"""Elements of a block with few others beside it."""
_FEWEST = 4
"""Fewest blocks that are worth it."""
_Sums = tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Squares:
    """A sum of squared distances from a centre that is known when all of the array is.

    Attributes:
        eqn: The sum.
        array: What is summed.
        total: The reduction of the array that the centre needs.
        spread: The broadcast of the centre.
    """

    eqn: JaxprEqn
    array: Var
    total: JaxprEqn
    spread: JaxprEqn


def sums_in_blocks(jaxpr: Jaxpr, few: FewRows | None = None) -> Jaxpr:
    """Return ``jaxpr`` with sums of squares about a mean of large arrays taken in blocks.

    With ``few`` those of few long rows are taken so as well, in blocks that fill the target.

    Before: ``s = sum x; m = s / n; d = x - m; v = sum (d * d)``, which reads ``x`` twice; after:
    ``s', c, q`` of each block of ``x``; ``s = sum s'; m = s / n; v = sum of what they tell about
    m``, which reads ``x`` once.
    """
    found: dict[JaxprEqn, list[_Squares]] = defaultdict(list)
    cuts: dict[JaxprEqn, Cut] = {}
    sources = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
    for eqn in jaxpr.eqns:
        squares = _squares(eqn, sources)
        cut = None if squares is None else _cut(squares, few)
        if squares is not None and cut is not None:
            found[squares.total].append(squares)
            cuts[squares.total] = cut  # the same for all sums about one mean
    if not found:
        return jaxpr
    environment: dict[Var, Atom] = {}
    eqns: list[JaxprEqn] = []
    later: dict[JaxprEqn, tuple[_Squares, Cut, tuple[Atom, ...]]] = {}
    for eqn in jaxpr.eqns:
        eqn_here = substituted(eqn, tuple(resolve(atom, environment) for atom in eqn.invars))
        made: tuple[JaxprEqn, ...] = (eqn_here,)
        if eqn in found:
            cut = cuts[eqn]
            made, (total, *sums) = made_of(eqn_here, _gather(cut), eqn_here.invars)
            environment[eqn.outvars[0]] = total
            later |= {each.eqn: (each, cut, tuple(sums)) for each in found[eqn]}
        elif eqn in later:
            squares, cut, known = later[eqn]
            centre = resolve(squares.spread.invars[0], environment)
            function = _about(squares, cut)
            made, (environment[eqn.outvars[0]],) = made_of(eqn_here, function, (centre, *known))
        eqns += made
    return simplify(rebuild(jaxpr, eqns, environment))


def _squares(eqn: JaxprEqn, sources: Mapping[Var, JaxprEqn]) -> _Squares | None:
    """Return the sum of squares that ``eqn`` is, if it waits for a sum of the same array."""
    if eqn.primitive is not reduce_sum_p:
        return None
    square = _source(eqn.invars[0], sources)
    if square is None or square.primitive.name not in ("mul", "square"):
        return None
    difference = _source(square.invars[0], sources)
    if difference is None or difference.primitive.name != "sub" or len({*square.invars}) > 1:
        return None
    for array, other in (difference.invars, difference.invars[::-1]):
        spread = _source(other, sources)
        if isinstance(array, Var) and spread is not None and _is_spread(spread, eqn):
            for total in _reductions(spread.invars[0], sources):
                alike = total.primitive is reduce_sum_p and total.params == eqn.params
                if alike and total.invars[0] is array:
                    return _Squares(eqn, array, total, spread)
    return None


def _source(atom: Atom, sources: Mapping[Var, JaxprEqn]) -> JaxprEqn | None:
    return sources.get(atom) if isinstance(atom, Var) else None


def _is_spread(spread: JaxprEqn, eqn: JaxprEqn) -> bool:
    """Whether a value is the same along the axes over which ``eqn`` sums."""
    if spread.primitive is not broadcast_in_dim_p:
        return False
    pairs = zip(spread.invars[0].aval.shape, spread.params["dims"], strict=True)
    return all(extent == 1 or dim not in eqn.params["axes"] for extent, dim in pairs)


def _reductions(atom: Atom, sources: Mapping[Var, JaxprEqn]) -> Iterator[JaxprEqn]:
    """Yield the reductions from which a value is computed element by element."""
    todo, seen = [atom], set()
    while todo:
        eqn = _source(todo.pop(), sources)
        if eqn is None or eqn in seen:
            continue
        seen.add(eqn)
        if eqn.primitive.kind is Kind.REDUCTION:
            yield eqn
        elif eqn.primitive.kind in (Kind.ELEMENTWISE, Kind.VIEW):
            todo += eqn.invars


def _cut(squares: _Squares, few: FewRows | None) -> Cut | None:
    """Return how to cut an array into blocks, None where that gains nothing."""
    aval, axes = squares.array.aval, squares.eqn.params["axes"]
    if aval.dtype not in _DTYPES or not axes:
        return None
    cut = None if few is None else cut_few_rows(aval, axes, few)
    held = few is not None and math.prod(aval.shape[axis] for axis in axes) <= few.held
    if cut is not None or held:
        return cut
    axis = axes[0]
    extent, inner = aval.shape[axis], math.prod(aval.shape[axis + 1 :])
    size = aval.dtype.itemsize
    if aval.size * size < _FAR_BYTES or extent * inner * size <= _NEAR_BYTES:
        return None
    wanted = max(_BLOCK // inner, _ROWS)
    if extent < _FEWEST * wanted:
        return None
    # Blocks of another size leave no rest, which would take a kernel of its own.
    near = range(wanted - _ROWS // 2, wanted + _ROWS // 2)
    fitting = (n for n in near if extent % n == 0)
    rows = min(fitting, key=lambda n: abs(n - wanted), default=wanted)
    width = math.prod(aval.shape[axis] for axis in axes[1:])
    return Cut(axis, axes, width, rows, extent // rows, extent % rows)


def _gather(cut: Cut) -> Callable[[Any], Sequence[Any]]:
    """Return a function of an array: its total, and the sums of its blocks and of the rest."""

    def gather(x: Any) -> Sequence[Any]:
        shape, axis = x.shape, cut.axis
        parts = []
        whole = cut.rows * cut.count
        blocks = x
        if cut.rest:
            blocks = _along(x, axis, range(whole))
            rest = _along(x, axis, range(whole, shape[axis]))
            parts.append(_sums(rest, cut.axes, x.dtype.type(cut.rest * cut.width)))
        each = elements(cut, len(shape), x.dtype)
        sums = _sums(in_blocks(blocks, cut), cut.inner, each, cut)
        total = added(sums[0], cut.place, *(part[0] for part in parts))
        return [total, *sums, *(each for part in parts for each in part)]

    return gather


def _along(x: Any, axis: int, positions: range) -> Any:
    ranges = [range(n) for n in x.shape]
    ranges[axis] = positions
    return static_slice(x, ranges)


def _sums(x: Any, axes: tuple[int, ...], count: Any, cut: Cut | None = None) -> _Sums:
    """Return the sums of the elements, of their distances from the pivot, and of its squares.

    Args:
        x: An array, or blocks of it.
        axes: Over which they are summed.
        count: Of how many elements.
        cut: Where blocks come from.
    """
    total = _sum(x, axes)
    distance = x - expand_dims(total / count, axes)
    if cut is not None:
        distance = within(distance, cut)
    return total, _sum(distance, axes), _sum(distance * distance, axes)


def _sum(x: Any, axes: tuple[int, ...]) -> Any:
    return bind(reduce_sum_p, x, axes=axes)


def _about(squares: _Squares, cut: Cut) -> Callable[..., Sequence[Any]]:
    """Return a function of a centre and of the sums of blocks: the sum of squares about it."""
    shape, axes = squares.array.aval.shape, cut.axes
    dims = squares.spread.params["dims"]

    def about(centre: Any, *sums: Any) -> Sequence[Any]:
        flat = tuple(1 if axis in axes else n for axis, n in enumerate(shape))
        centre = bind(broadcast_in_dim_p, centre, shape=flat, dims=dims)
        centre = reshape(centre, tuple(n for axis, n in enumerate(shape) if axis not in axes))
        blocks, rest = sums[:3], sums[3:]
        each = elements(cut, len(shape), centre.dtype)
        found = _moved(blocks, expand_dims(centre, (cut.place,)), each)
        count = centre.dtype.type(cut.rest * cut.width)
        return [added(found, cut.place, *([_moved(rest, centre, count)] if rest else []))]

    return about


def _moved(sums: _Sums, centre: Any, count: Any) -> Any:
    """Return the sums of squares about ``centre``, from those about pivots; never below zero."""
    total, first, second = sums
    number = total.dtype.type
    shift = centre - total / count
    return maximum(second - shift * (number(2) * first - count * shift), number(0))

"""Scatters of one update to each row: each element asks whether it is the one."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var
from minijit.graph.trace import bind
from minijit.ops.compare import equal
from minijit.ops.create import iota
from minijit.ops.gather import SCATTERED, scatter_p
from minijit.ops.promote import broadcast_in_dim_p
from minijit.ops.select import where
from minijit.ops.shape import squeeze
from minijit.transforms.blocks import made_of
from minijit.transforms.gather_first import counted_along
from minijit.transforms.rewrite import rebuild, resolve, substituted

__all__ = ["scatter_rows"]


def scatter_rows(jaxpr: Jaxpr) -> Jaxpr:
    """Return ``jaxpr`` with scatters as choices where each row of an array takes one update.

    So the gradient of what takes one element of each row, such as the score of a label, is fused.

    Before: ``c = scatter[axes=(0, 1) how=add] x y rows i`` where ``rows`` counts the rows; after:
    ``c = select (iota == i) (x + y) x``.
    """
    definitions = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
    environment: dict[Var, Atom] = {}
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        here = substituted(eqn, tuple(resolve(atom, environment) for atom in eqn.invars))
        rows = _rows(here, definitions) if eqn.primitive is scatter_p else None
        made: tuple[JaxprEqn, ...] = (here,)
        if rows is not None:
            choice = functools.partial(_choice, rows, eqn.params["how"])
            made, (environment[eqn.outvars[0]],) = made_of(here, choice, here.invars)
        eqns += made
    return rebuild(jaxpr, eqns, environment)


class _Rows(NamedTuple):
    """How updates belong to rows.

    Attributes:
        axis: The axis of the array along which a row lies.
        number: Which of the positions choose along it.
        positions: For each axis of the positions the array's axis, None for extent one.
        updates: The same for those of the updates.
    """

    axis: int
    number: int
    positions: list[int | None]
    updates: list[int | None]


def _rows(eqn: JaxprEqn, definitions: Mapping[Var, JaxprEqn]) -> _Rows | None:
    """Return how a scatter works on rows; None where one may take several updates."""
    operand, _, *positions = eqn.invars
    shape, own = operand.aval.shape, positions[0].aval.shape
    axes, at = eqn.params["axes"], eqn.params["at"]
    along = [counted_along(atom, definitions) for atom in positions]
    free = [n for n, axis in enumerate(along) if axis is None or own[axis] != shape[axes[n]]]
    counted = {axis: axes[n] for n, axis in enumerate(along) if axis is not None and n not in free}
    if len(free) != 1 or len(counted) != len(axes) - 1:
        return None
    if any(extent != 1 for axis, extent in enumerate(own) if axis not in counted):
        return None
    dims = [counted.get(axis) for axis in range(len(own))]
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    spread = [*rest[:at], *dims, *rest[at:]]
    ordered = [axis for axis in spread if axis is not None]
    if ordered != sorted(ordered):
        return None
    return _Rows(axes[free[0]], free[0], dims, spread)


def _choice(rows: _Rows, how: str, x: Any, updates: Any, *positions: Any) -> tuple[Any]:
    place = _repeated(positions[rows.number], rows.positions, x.shape)
    new = SCATTERED[how](x, _repeated(updates, rows.updates, x.shape))
    return (where(equal(iota(x.shape, rows.axis, place.dtype), place), new, x),)


def _repeated(x: Any, dims: list[int | None], shape: tuple[int, ...]) -> Any:
    """Return an array whose axes are ``dims`` of a shape as an array of that shape."""
    x = squeeze(x, [axis for axis, dim in enumerate(dims) if dim is None])
    kept = tuple(dim for dim in dims if dim is not None)
    return bind(broadcast_in_dim_p, x, shape=shape, dims=kept)

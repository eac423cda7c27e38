"""Gathers before what is computed for each element: it is computed where it is needed only."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var
from minijit.graph.primitive import Kind, Primitive
from minijit.ops.gather import gather_p
from minijit.ops.places import taken_shape
from minijit.ops.promote import broadcast_in_dim_p
from minijit.ops.shape import squeeze_p
from minijit.transforms.rewrite import substituted

__all__ = ["counted_along", "gather_first"]

_CHEAP_FLOPS = 4
"""An operation of no more is done twice rather than stored."""
_FEW = 8
"""Of so many elements one is computed twice, whatever it takes."""


def gather_first(jaxpr: Jaxpr) -> Jaxpr:
    """Return ``jaxpr`` with gathers moved in front of elementwise operations and broadcasts.

    They move where they take no more than there are, and where that is cheap if others need all
    elements as well. What takes every element at its own place is a broadcast, and no gather.

    Before: ``c = sub a b; d = gather[axes=(1,)] c i``; after: ``e = gather[axes=(1,)] a i;
    f = gather[axes=(1,)] b i; d = sub e f``. What is no longer needed is left to others.
    """
    gathers = any(eqn.primitive.kind is Kind.GATHER for eqn in jaxpr.eqns)
    return _Mover(jaxpr).run() if gathers else jaxpr


@dataclasses.dataclass(frozen=True, slots=True)
class _Places:
    """Positions along some axes, as a gather has them."""

    positions: tuple[Atom, ...]
    axes: tuple[int, ...]
    at: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the positions."""
        return self.positions[0].aval.shape

    def rest(self, ndim: int) -> list[int]:
        """Return the axes of an array along which there are none."""
        return [axis for axis in range(ndim) if axis not in self.axes]

    def place(self, number: int) -> int:
        """Return where in the result the axis is that is ``number`` among the rest."""
        return number + (number >= self.at) * len(self.shape)


class _Mover:
    """Rewrites the equations of one program in order."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.jaxpr = jaxpr
        self.definitions = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
        self.users: dict[Var, list[JaxprEqn]] = defaultdict(list)
        for eqn in jaxpr.eqns:
            for atom in eqn.invars:
                if isinstance(atom, Var):
                    self.users[atom].append(eqn)
        self.results = {atom for atom in jaxpr.outvars if isinstance(atom, Var)}
        self.passed: set[JaxprEqn] = set()
        """Operations that every gather of their result has moved in front of."""
        self.eqns: list[JaxprEqn] = []

    def run(self) -> Jaxpr:
        """Return the program."""
        for eqn in self.jaxpr.eqns:
            if eqn.primitive.kind is not Kind.GATHER:
                self.eqns.append(eqn)
                continue
            operand, *positions = eqn.invars
            places = _Places(tuple(positions), eqn.params["axes"], eqn.params["at"])
            self._take(eqn, operand, places, eqn.outvars[0])
        return dataclasses.replace(self.jaxpr, eqns=tuple(self.eqns))

    def _take(self, eqn: JaxprEqn, operand: Atom, places: _Places, out: Var | None = None) -> Atom:
        """Write the elements of ``operand`` at ``places``, for the gather ``eqn``; return them."""
        shape = taken_shape(operand.aval.shape, places.shape, places.axes, places.at)
        own = Var(ShapedArray(shape, operand.aval.dtype)) if out is None else out
        dims = self._own_places(operand, places)
        if dims is not None:
            return self._put(eqn, broadcast_in_dim_p, (operand,), own, shape=shape, dims=dims)
        source = self.definitions.get(operand) if isinstance(operand, Var) else None
        if source is not None and self._moves(source, shape):
            if source.primitive is not broadcast_in_dim_p:
                taken = tuple(
                    self._take(eqn, atom, places) if atom.aval.shape else atom
                    for atom in source.invars
                )
                self.eqns.append(substituted(source, taken, (own,)))
                return own
            return self._take_repeated(eqn, source, places, own)
        params = {"axes": places.axes, "at": places.at}
        return self._put(eqn, gather_p, (operand, *places.positions), own, **params)

    def _take_repeated(self, eqn: JaxprEqn, source: JaxprEqn, places: _Places, own: Var) -> Atom:
        """Take from what is repeated before it is; positions along new axes do not matter."""
        (operand,), dims, shape = source.invars, source.params["dims"], source.params["shape"]
        new = [axis for axis, (d, n) in enumerate(zip(dims, operand.aval.shape, strict=True))
               if n != shape[d]]  # fmt: skip
        if new:
            dims = tuple(dim for axis, dim in enumerate(dims) if axis not in new)
            left = tuple(shape[dim] for dim in dims)
            squeezed = Var(ShapedArray(left, operand.aval.dtype))
            operand = self._put(eqn, squeeze_p, (operand,), squeezed, axes=tuple(new))
        rest = places.rest(len(shape))
        inner = [dim for dim in dims if dim not in places.axes]
        kept = [n for n, axis in enumerate(places.axes) if axis in dims]
        target = {dim: places.place(rest.index(dim)) for dim in inner}
        if not kept:
            there = tuple(target[dim] for dim in inner)
        else:
            at = sum(rest.index(dim) < places.at for dim in inner)
            axes = tuple(dims.index(places.axes[n]) for n in kept)
            fewer = _Places(tuple(places.positions[n] for n in kept), axes, at)
            operand = self._take(eqn, operand, fewer)
            between = range(places.at, places.at + len(places.shape))
            outer = [target[dim] for dim in inner]
            there = (*outer[:at], *between, *outer[at:])
        repeated = {"shape": own.aval.shape, "dims": there}
        return self._put(eqn, broadcast_in_dim_p, (operand,), own, **repeated)

    def _put(
        self,
        eqn: JaxprEqn,
        primitive: Primitive,
        operands: tuple[Atom, ...],
        out: Var,
        **params: object,
    ) -> Var:
        self.eqns.append(JaxprEqn(primitive, operands, (out,), params, eqn.source))
        return out

    def _moves(self, source: JaxprEqn, shape: tuple[int, ...]) -> bool:
        """Whether a gather of elements in ``shape`` moves in front of what computes its operand.

        Not where that is stored for another reason, or more is taken than there is. What others
        need as well is computed again if that is cheap: else it would be stored for the gather.
        """
        if source.primitive is not broadcast_in_dim_p and source.primitive.scalar is None:
            return False
        (var,) = source.outvars
        size = var.aval.size
        if var in self.results or math.prod(shape) > size:
            return False
        users = [user for user in self.users[var] if user not in self.passed]
        gathers = all(u.primitive.kind is Kind.GATHER and u.invars[0] is var for u in users)
        if gathers and sum(user.outvars[0].aval.size for user in users) <= size:
            self.passed.add(source)
            return True
        return source.primitive.flops <= _CHEAP_FLOPS or _FEW * math.prod(shape) <= size

    def _own_places(self, operand: Atom, places: _Places) -> tuple[int, ...] | None:
        """Return the axis of the result that each axis of ``operand`` is; None if it is gathered.

        Each element is at its own place where positions count along an axis of their own.
        """
        along: dict[int, int] = {}
        for axis, atom in zip(places.axes, places.positions, strict=True):
            found = counted_along(atom, self.definitions)
            if found is None or places.shape[found] != operand.aval.shape[axis]:
                return None
            along[axis] = places.at + found
        rest = {axis: places.place(n) for n, axis in enumerate(places.rest(operand.aval.ndim))}
        dims = tuple((along | rest)[axis] for axis in range(operand.aval.ndim))
        return dims if all(a < b for a, b in itertools.pairwise(dims)) else None


def counted_along(atom: Atom, definitions: Mapping[Var, JaxprEqn]) -> int | None:
    """Return the axis along which an array counts from zero, repeated along all others."""
    eqn = None if isinstance(atom, Literal) else definitions.get(atom)
    if eqn is None:
        return None
    if eqn.primitive.kind is Kind.INDEX:
        axis: int = eqn.params["axis"]
        return axis
    if eqn.primitive is broadcast_in_dim_p:
        inner = counted_along(eqn.invars[0], definitions)
        dims: Sequence[int] = eqn.params["dims"]
        return None if inner is None else dims[inner]
    return None

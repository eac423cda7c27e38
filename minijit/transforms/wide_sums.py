"""Sums over the steps of a scan, kept for each cell and added up across cells at the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var

__all__ = ["Total", "widened"]


@dataclasses.dataclass(frozen=True, slots=True)
class Total:
    """What is left to do after the scan.

    Attributes:
        aval: The type of what is carried now.
        axes: Over which it has to be summed.
    """

    aval: ShapedArray
    axes: tuple[int, ...]


def widened(
    body: Jaxpr, carry: Var, place: int, shapes: Collection[tuple[int, ...]]
) -> tuple[Jaxpr, Total] | None:
    """Return a body whose sum ``carry`` adds up cells apart, or None where it does not sum cells.

    A sum of all cells at each step would couple them, so that no kernel could take different cells
    through all steps at once.

    Before: ``d = add c (neg (reduce_sum h))``; after: ``D = add C (neg h)``, to be summed later.

    Args:
        body: The body of a scan, from cotangents: what is added may be added in any order.
        carry: The sum, which starts at zero.
        place: Which result is the next value of the sum.
        shapes: Those of other carries; a sum gets no other shape.
    """
    made = {var: eqn for eqn in body.eqns for var in eqn.outvars}
    last = made.get(_var(body.outvars[place]))
    if last is None or last.primitive.name != "add" or carry not in last.invars:
        return None
    uses = sum(atom is carry for eqn in body.eqns for atom in eqn.invars)
    added = next(atom for atom in last.invars if atom is not carry)
    found = _Sums(made)
    if uses != 1 or not found.read(added) or len(found.totals) != 1:
        return None
    (total,) = found.totals
    if total.aval.shape not in shapes:
        return None
    wide, result = Var(total.aval), Var(total.aval)
    operands = (wide, found.wide(added, total.aval))
    eqns = (*found.eqns, dataclasses.replace(last, invars=operands, outvars=(result,)))
    outvars = list(body.outvars)
    outvars[place] = result
    changed = dataclasses.replace(
        body,
        invars=tuple(wide if var is carry else var for var in body.invars),
        eqns=(*(eqn for eqn in body.eqns if eqn is not last), *eqns),
        outvars=tuple(outvars),
    )
    return changed, total


class _Sums:
    """Sums across cells in what is added at a step, and the same for each cell.

    Attributes:
        totals: The types and axes of what is summed.
        eqns: The equations for each cell.
    """

    def __init__(self, made: Mapping[Var, JaxprEqn]) -> None:
        self._made = made
        self._cells: dict[Atom, Var] = {}
        self.totals: set[Total] = set()
        self.eqns: list[JaxprEqn] = []

    def read(self, atom: Atom) -> bool:
        """Whether ``atom`` is made of sums by what can be done to each cell as well."""
        eqn = self._made.get(_var(atom))
        if eqn is None:
            return False
        name = eqn.primitive.name
        if name == "reduce_sum" and isinstance(eqn.invars[0], Var):
            aval = eqn.invars[0].aval.strip_weak_type()
            self.totals.add(Total(aval, eqn.params["axes"]))
            return True
        if name in ("add", "sub", "neg"):
            return all(map(self.read, eqn.invars))
        return name == "mul" and any(self._is_scaled(*pair) for pair in _pairs(eqn))

    def _is_scaled(self, factor: Atom, scaled: Atom) -> bool:
        return not factor.aval.shape and not self.read(factor) and self.read(scaled)

    def wide(self, atom: Atom, aval: ShapedArray) -> Var:
        """Return what is summed, making its equations."""
        eqn = self._made[_var(atom)]
        if eqn.primitive.name == "reduce_sum":
            summed = eqn.invars[0]
            assert isinstance(summed, Var)
            return summed
        if atom not in self._cells:
            if eqn.primitive.name == "mul":
                factor, scaled = next(p for p in _pairs(eqn) if self._is_scaled(*p))
                operands: tuple[Atom, ...] = (self.wide(scaled, aval), factor)
            else:
                operands = tuple(self.wide(each, aval) for each in eqn.invars)
            self._cells[atom] = Var(aval)
            outvars = (self._cells[atom],)
            self.eqns.append(dataclasses.replace(eqn, invars=operands, outvars=outvars))
        return self._cells[atom]


def _pairs(eqn: JaxprEqn) -> tuple[tuple[Atom, Atom], tuple[Atom, Atom]]:
    first, second = eqn.invars
    return (first, second), (second, first)


def _var(atom: Atom) -> Any:
    return None if isinstance(atom, Literal) else atom

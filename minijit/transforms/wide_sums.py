"""Sums over the steps of a scan, kept for each cell and added up across cells at the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var

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
    last = next((eqn for eqn in body.eqns if body.outvars[place] in eqn.outvars), None)
    if last is None or last.primitive.name != "add" or carry not in last.invars:
        return None
    uses = sum(atom is carry for eqn in body.eqns for atom in eqn.invars)
    added = next((atom for atom in last.invars if atom is not carry), None)
    found = _Sums(body.eqns)
    if uses != 1 or added is None or len(found.totals(added)) != 1:
        return None
    (total,) = found.totals(added)
    if total.aval.shape not in shapes:
        return None
    wide, result = Var(total.aval), Var(total.aval)
    made, cells = found.wide(added, total.aval)
    eqns = (*made, dataclasses.replace(last, invars=(wide, cells), outvars=(result,)))
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
    """Values that are made of sums across cells by what can be done to each cell as well."""

    def __init__(self, eqns: Sequence[JaxprEqn]) -> None:
        self._eqns = eqns
        self._totals: dict[Atom, frozenset[Total]] = {}
        self._summed: dict[Atom, Var] = {}
        for eqn in eqns:
            found = self._found(eqn)
            if found:
                self._totals[eqn.outvars[0]] = found

    def totals(self, atom: Atom) -> frozenset[Total]:
        """Return the types and axes of the sums that ``atom`` is made of; none if it is not."""
        return self._totals.get(atom, frozenset())

    def _found(self, eqn: JaxprEqn) -> frozenset[Total]:
        name, first = eqn.primitive.name, eqn.invars[0] if eqn.invars else None
        if name == "reduce_sum" and isinstance(first, Var):
            self._summed[eqn.outvars[0]] = first
            return frozenset({Total(first.aval.strip_weak_type(), eqn.params["axes"])})
        operands = [self.totals(atom) for atom in eqn.invars]
        if name in ("add", "sub", "neg") and all(operands):
            return frozenset().union(*operands)
        factors = [atom for atom in eqn.invars if not self.totals(atom)]
        if name == "mul" and len(factors) == 1 and not factors[0].aval.shape:
            return frozenset().union(*operands)
        return frozenset()

    def wide(self, atom: Atom, aval: ShapedArray) -> tuple[list[JaxprEqn], Var]:
        """Return equations for each cell, and the variable that is summed to ``atom``."""
        needed, chosen = {atom}, []
        for eqn in reversed(self._eqns):
            if needed.intersection(eqn.outvars) and eqn.outvars[0] not in self._summed:
                needed.update(each for each in eqn.invars if self.totals(each))
                chosen.append(eqn)
        cells, made = dict(self._summed), []
        for eqn in reversed(chosen):
            operands = tuple(cells[each] if self.totals(each) else each for each in eqn.invars)
            cells[eqn.outvars[0]] = result = Var(aval)
            made.append(dataclasses.replace(eqn, invars=operands, outvars=(result,)))
        return made, cells[atom]

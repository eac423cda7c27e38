"""Elementwise work on what a scan collects happens in the step that computes it."""

from __future__ import annotations

import dataclasses

from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var
from minijit.graph.primitive import Kind

__all__ = ["absorb_consumers"]

_CELLWISE = (Kind.ELEMENTWISE, Kind.VIEW, Kind.INDEX, Kind.LOOP, Kind.BRANCH, Kind.PIECEWISE)


def absorb_consumers(jaxpr: Jaxpr) -> Jaxpr:
    """Return ``jaxpr`` with elementwise consumers of collected results inside their scans.

    What such an operation reads besides must be known before the scan: scalars, and arrays of the
    same shape, which the scan then takes apart as well.

    Before: ``c, ys = scan[...] a xs; z = exp ys``; after: ``c, ys, z = scan[...] a xs`` with
    ``z = exp y`` in its body.
    """
    scans: dict[Var, _Scan] = {}
    known: set[Var] = {*jaxpr.invars, *jaxpr.constvars}
    order: list[_Scan | JaxprEqn] = []
    for eqn in jaxpr.eqns:
        scan = _absorber(eqn, scans)
        if scan is not None:
            scan.absorb(eqn)
            scans[eqn.outvars[0]] = scan
            known.update(eqn.outvars)
            continue
        if eqn.primitive.name == "scan" and _is_cellwise(eqn.params["jaxpr"]):
            scan = _Scan(eqn, frozenset(known))
            scans.update((var, scan) for var in eqn.outvars[eqn.params["carries"] :])
            order.append(scan)
        else:
            order.append(eqn)
        known.update(eqn.outvars)
    eqns = tuple(item.eqn if isinstance(item, _Scan) else item for item in order)
    return dataclasses.replace(jaxpr, eqns=eqns)


def _is_cellwise(jaxpr: Jaxpr) -> bool:
    """Whether the body may be lowered into a kernel: host-driven loops gain nothing."""
    return all(eqn.primitive.kind in _CELLWISE for eqn in jaxpr.eqns)


def _absorber(eqn: JaxprEqn, scans: dict[Var, _Scan]) -> _Scan | None:
    """Return the one scan that can run ``eqn`` in its steps."""
    if eqn.primitive.kind is not Kind.ELEMENTWISE:
        return None
    found = {scans[atom] for atom in eqn.invars if isinstance(atom, Var) and atom in scans}
    if len(found) != 1:
        return None
    (scan,) = found
    return scan if all(scan.takes(atom) for atom in eqn.invars) else None


class _Scan:
    """A scan that grows.

    Attributes:
        eqn: The equation as it is now.
    """

    def __init__(self, eqn: JaxprEqn, known: frozenset[Var]) -> None:
        self.eqn = eqn
        self._known = known
        carries = eqn.params["carries"]
        body: Jaxpr = eqn.params["jaxpr"]
        # A value outside, and what it is in a step.
        self._inside: dict[Var, Atom] = dict(
            zip(eqn.outvars[carries:], body.outvars[carries:], strict=True)
        )

    def takes(self, atom: Atom) -> bool:
        """Whether a step can know its element of ``atom``, a scalar or of the results' shape."""
        return isinstance(atom, Literal) or atom in self._inside or atom in self._known

    def absorb(self, eqn: JaxprEqn) -> None:
        """Run ``eqn`` in each step and collect its results."""
        body: Jaxpr = self.eqn.params["jaxpr"]
        (result,) = eqn.outvars
        invars = tuple(self._operand(atom) for atom in eqn.invars)
        body = self.eqn.params["jaxpr"]
        row = ShapedArray(result.aval.shape[1:], result.aval.dtype, result.aval.weak_type)
        own = Var(row)
        step = dataclasses.replace(eqn, invars=invars, outvars=(own,))
        body = dataclasses.replace(body, eqns=(*body.eqns, step), outvars=(*body.outvars, own))
        self._inside[result] = own
        self.eqn = dataclasses.replace(
            self.eqn,
            outvars=(*self.eqn.outvars, result),
            params={**self.eqn.params, "jaxpr": body},
        )

    def _operand(self, atom: Atom) -> Atom:
        if isinstance(atom, Literal):
            return atom
        if atom not in self._inside:
            self._inside[atom] = self._input(atom)
        return self._inside[atom]

    def _input(self, atom: Var) -> Var:
        """Give the scan another operand and return what it is in a step."""
        params, body = dict(self.eqn.params), self.eqn.params["jaxpr"]
        scalar = not atom.aval.shape
        place = params["consts"] if scalar else len(self.eqn.invars)
        shape = atom.aval.shape[1:]
        var = Var(ShapedArray(shape, atom.aval.dtype, atom.aval.weak_type))
        params["consts"] += scalar
        before, after = body.invars[:place], body.invars[place:]
        params["jaxpr"] = dataclasses.replace(body, invars=(*before, var, *after))
        operands = (*self.eqn.invars[:place], atom, *self.eqn.invars[place:])
        self.eqn = dataclasses.replace(self.eqn, invars=operands, params=params)
        return var

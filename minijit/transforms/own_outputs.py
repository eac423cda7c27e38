"""Outputs: after this pass every result is a new array, defined by an equation of its own."""

from __future__ import annotations

from minijit.graph.jaxpr import Jaxpr, JaxprEqn, Var
from minijit.graph.primitive import Kind, find_primitive
from minijit.graph.source_info import SourceLine

__all__ = ["own_outputs"]


def own_outputs(jaxpr: Jaxpr) -> Jaxpr:
    """Return ``jaxpr`` with a copy for each result that is no new array of its own.

    These are inputs, literals, views and what is returned twice: a jitted function gives its caller
    arrays that can be written to without a change of the arguments or of other results. Views in
    particular, since the array library runs those that no kernel can express.

    Before: ``{ lambda ; a. let in (a, 2.0) }``; after:
    ``{ lambda ; a. let b = copy a; c = copy 2.0 in (b, c) }``
    (a copy is a ``convert_element_type`` to the same dtype).
    """
    shared = {*jaxpr.invars, *jaxpr.constvars}
    for eqn in jaxpr.eqns:
        if eqn.primitive.kind is Kind.VIEW:
            shared.update(eqn.outvars)
    cast = find_primitive("convert_element_type")
    line = SourceLine(jaxpr.name, 0, jaxpr.name)
    eqns = list(jaxpr.eqns)
    outvars: list[Var] = []
    for atom in jaxpr.outvars:
        if isinstance(atom, Var) and atom not in shared:
            shared.add(atom)
            outvars.append(atom)
            continue
        copy = Var(atom.aval)
        params = {"dtype": atom.aval.dtype, "weak_type": atom.aval.weak_type}
        eqns.append(JaxprEqn(cast, (atom,), (copy,), params, line))
        outvars.append(copy)
    return Jaxpr(
        jaxpr.invars, jaxpr.constvars, jaxpr.consts, tuple(eqns), tuple(outvars), jaxpr.name
    )

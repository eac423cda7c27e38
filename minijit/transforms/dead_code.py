"""Dead code: equations whose results nobody reads, and what bodies compute for nobody."""

from __future__ import annotations

from minijit.graph.jaxpr import Jaxpr, JaxprEqn, Var
from minijit.graph.primitive import Kind
from minijit.transforms.dead_bodies import pruned
from minijit.transforms.rewrite import rebuild

__all__ = ["eliminate_dead_code"]


def eliminate_dead_code(jaxpr: Jaxpr) -> Jaxpr:
    """Return ``jaxpr`` without equations that no result depends on; inputs stay as they are.

    Before: ``b = exp a; c = sin a in (c,)``; after: ``c = sin a in (c,)``.
    """
    needed = {atom for atom in jaxpr.outvars if isinstance(atom, Var)}
    kept: list[JaxprEqn] = []
    for eqn in reversed(jaxpr.eqns):
        if needed.intersection(eqn.outvars):
            if eqn.primitive.kind in (Kind.BRANCH, Kind.LOOP):
                eqn = pruned(eqn, needed)
            needed.update(atom for atom in eqn.invars if isinstance(atom, Var))
            kept.append(eqn)
    return rebuild(jaxpr, reversed(kept), {})

"""Dead code: equations whose results nobody reads, and what bodies compute for nobody."""

from __future__ import annotations

from minijit.graph.jaxpr import Jaxpr
from minijit.transforms.dead_bodies import live_equations
from minijit.transforms.rewrite import rebuild

__all__ = ["eliminate_dead_code"]


def eliminate_dead_code(jaxpr: Jaxpr) -> Jaxpr:
    """Return ``jaxpr`` without equations that no result depends on; inputs stay as they are.

    Before: ``b = exp a; c = sin a in (c,)``; after: ``c = sin a in (c,)``.
    """
    return rebuild(jaxpr, live_equations(jaxpr.eqns, jaxpr.outvars), {})

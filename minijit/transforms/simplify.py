"""Simplification: the passes that make a program smaller without changing a bit of its results."""

from __future__ import annotations

import dataclasses

from minijit.graph.jaxpr import Jaxpr
from minijit.graph.primitive import Kind
from minijit.transforms.absorb import absorb_consumers
from minijit.transforms.common_subexpr import share_common_subexpressions
from minijit.transforms.dead_code import eliminate_dead_code
from minijit.transforms.fold import fold_constants
from minijit.transforms.gather_first import gather_first
from minijit.transforms.hoist import hoist_invariants
from minijit.transforms.rewrite import with_bodies
from minijit.transforms.scatter_rows import scatter_rows
from minijit.transforms.split_totals import split_totals

__all__ = ["simplify", "simplify_loops"]


def simplify(jaxpr: Jaxpr) -> Jaxpr:
    """Fold constants, share what is computed twice, gather first, drop dead code; in bodies too."""
    jaxpr = share_common_subexpressions(fold_constants(jaxpr))
    jaxpr = scatter_rows(gather_first(jaxpr))
    jaxpr = eliminate_dead_code(jaxpr)
    eqns = tuple(with_bodies(eqn, simplify) for eqn in jaxpr.eqns)
    return dataclasses.replace(jaxpr, eqns=eqns)


def simplify_loops(jaxpr: Jaxpr) -> Jaxpr:
    """Move out of loops what does not belong there, and into them what does."""
    if not any(eqn.primitive.kind is Kind.LOOP for eqn in jaxpr.eqns):
        return jaxpr
    return simplify(split_totals(absorb_consumers(hoist_invariants(jaxpr))))

"""Simplification: the passes that make a program smaller without changing a bit of its results."""

from __future__ import annotations

import dataclasses

from minijit.graph.jaxpr import Jaxpr
from minijit.transforms.common_subexpr import share_common_subexpressions
from minijit.transforms.dead_code import eliminate_dead_code
from minijit.transforms.fold import fold_constants
from minijit.transforms.rewrite import with_bodies

__all__ = ["simplify"]


def simplify(jaxpr: Jaxpr) -> Jaxpr:
    """Fold constants, share common subexpressions, drop dead code, here and in all bodies."""
    jaxpr = eliminate_dead_code(share_common_subexpressions(fold_constants(jaxpr)))
    eqns = tuple(with_bodies(eqn, simplify) for eqn in jaxpr.eqns)
    return dataclasses.replace(jaxpr, eqns=eqns)

"""Constant folding: scalar operations on literals happen while compiling."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var
from minijit.graph.primitive import Kind
from minijit.transforms.rewrite import rebuild, resolve, substituted

__all__ = ["fold_constants"]


def fold_constants(jaxpr: Jaxpr) -> Jaxpr:
    """Return ``jaxpr`` with elementwise equations of scalar literals replaced by their values.

    Before: ``b = mul 2.0 3.0; c = add a b``; after: ``c = add a 6.0``.
    """
    environment: dict[Var, Atom] = {}
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        invars = tuple(resolve(atom, environment) for atom in eqn.invars)
        foldable = eqn.primitive.kind is Kind.ELEMENTWISE and len(eqn.outvars) == 1
        if not (foldable and all(isinstance(atom, Literal) for atom in invars)):
            eqns.append(substituted(eqn, invars))
            continue
        aval = eqn.outvars[0].aval
        operands = (_operand(atom) for atom in invars if isinstance(atom, Literal))
        with np.errstate(all="ignore"):
            value = np.asarray(eqn.primitive.eager(np, *operands, **eqn.params), aval.dtype)
        environment[eqn.outvars[0]] = Literal(value[()], aval)
    return rebuild(jaxpr, eqns, environment)


def _operand(literal: Literal) -> Any:
    # A Python integer must fit where it is converted; a NumPy integer would wrap.
    weak_integer = literal.aval.weak_type and literal.aval.dtype.kind == "i"
    return int(literal.value) if weak_integer else literal.value

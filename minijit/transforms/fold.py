"""Constant folding: what is decided by literals happens while compiling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var
from minijit.graph.primitive import Kind
from minijit.transforms.inline import spliced
from minijit.transforms.rewrite import rebuild, resolve, substituted

__all__ = ["fold_constants"]


def fold_constants(jaxpr: Jaxpr) -> Jaxpr:
    """Return ``jaxpr`` with elementwise equations of scalar literals replaced by their values.

    A branch whose number is a literal is replaced by its equations.

    Before: ``b = mul 2.0 3.0; c = add a b``; after: ``c = add a 6.0``.
    """
    environment: dict[Var, Atom] = {}
    eqns = tuple(_folded(jaxpr.eqns, environment))
    return rebuild(jaxpr, eqns, environment)


def _folded(eqns: Iterable[JaxprEqn], environment: dict[Var, Atom]) -> Iterator[JaxprEqn]:
    for eqn in eqns:
        invars = tuple(resolve(atom, environment) for atom in eqn.invars)
        kind = eqn.primitive.kind
        if kind is Kind.BRANCH and isinstance(invars[0], Literal):
            branches = eqn.params["branches"]
            taken = branches[min(max(int(invars[0].value), 0), len(branches) - 1)]
            inner, results = spliced(taken, invars[1:])
            yield from _folded(inner, environment)
            resolved = (resolve(atom, environment) for atom in results)
            environment.update(zip(eqn.outvars, resolved, strict=True))
        elif (
            kind is Kind.ELEMENTWISE
            and not eqn.primitive.derived  # it would be compiled for this
            and all(isinstance(atom, Literal) for atom in invars)
        ):
            (var,) = eqn.outvars
            operands = (_operand(atom) for atom in invars if isinstance(atom, Literal))
            with np.errstate(all="ignore"):
                value = np.asarray(eqn.primitive.eager(np, *operands, **eqn.params), var.aval.dtype)
            environment[var] = Literal(value[()], var.aval)
        else:
            yield substituted(eqn, invars)


def _operand(literal: Literal) -> Any:
    # A Python integer must fit where it is converted; a NumPy integer would wrap.
    weak_integer = literal.aval.weak_type and literal.aval.dtype.kind == "i"
    return int(literal.value) if weak_integer else literal.value

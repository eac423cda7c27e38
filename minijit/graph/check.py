"""The checker: every variable defined once and before use, every result typed as its rule says."""

from __future__ import annotations

import numpy as np

from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var, subjaxprs
from minijit.graph.pretty import format_eqn

__all__ = ["JaxprTypeError", "check_jaxpr"]


class JaxprTypeError(TypeError):
    """A jaxpr is malformed: a fault of a transformation or of a primitive's declaration."""


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Verify ``jaxpr`` and the jaxprs inside it.

    Raises:
        JaxprTypeError: with the equation at fault and the user's line.
    """
    if len(jaxpr.constvars) != len(jaxpr.consts):
        raise JaxprTypeError(f"{len(jaxpr.constvars)} constvars but {len(jaxpr.consts)} consts")
    defined: set[Var] = set()
    for var in (*jaxpr.constvars, *jaxpr.invars):
        if var in defined:
            raise JaxprTypeError(f"input {var} appears twice")
        defined.add(var)
    for eqn in jaxpr.eqns:
        _check_eqn(eqn, defined)
        defined.update(eqn.outvars)
    for atom in jaxpr.outvars:
        if isinstance(atom, Var) and atom not in defined:
            raise JaxprTypeError(f"a result of type {atom.aval} is never defined in {jaxpr.name!r}")


def _check_eqn(eqn: JaxprEqn, defined: set[Var]) -> None:
    for atom in eqn.invars:
        if isinstance(atom, Var) and atom not in defined:
            raise JaxprTypeError(f"an operand is used before it is defined:\n  {format_eqn(eqn)}")
        if isinstance(atom, Literal) and not _is_typed(atom):
            raise JaxprTypeError(f"a literal is not of the type it says:\n  {format_eqn(eqn)}")
    for var in eqn.outvars:
        if var in defined:
            raise JaxprTypeError(f"a variable is defined twice:\n  {format_eqn(eqn)}")
    for inner in subjaxprs(eqn):
        check_jaxpr(inner)
    result = eqn.primitive.abstract_eval(*map(_aval, eqn.invars), **eqn.params)
    wanted = result if eqn.primitive.multiple_results else (result,)
    got = tuple(var.aval for var in eqn.outvars)
    if tuple(map(_typed, wanted)) != tuple(map(_typed, got)):
        types = ", ".join(map(str, wanted))
        raise JaxprTypeError(f"the rule of {eqn.primitive} gives {types}:\n  {format_eqn(eqn)}")


def _is_typed(literal: Literal) -> bool:
    value = literal.value
    return isinstance(value, np.generic) and (value.dtype, ()) == (
        literal.aval.dtype,
        literal.aval.shape,
    )


def _aval(atom: Atom) -> object:
    return atom.aval


def _typed(aval: object) -> object:
    return aval.strip_weak_type()  # type: ignore[attr-defined]  # weakness may be lost by rewriting

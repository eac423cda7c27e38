"""Transposes of linear programs: from cotangents of their results to those of their inputs.

It is walked backwards; the cotangents of what is read in several places are summed. A cotangent
that is zero is None and costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijit.graph.errors import DeclarationError
from minijit.graph.jaxpr import Jaxpr, JaxprEqn, Var
from minijit.graph.primitive import Derived, Kind, Unsupported
from minijit.graph.source_info import standing_at, user_line
from minijit.transforms.jvp import scaled, summed
from minijit.transforms.replay import Values, replay_equation
from minijit.transforms.transpose_bodies import is_linear, pull_branch, pull_scan

__all__ = ["pull"]

Cotangents = Sequence[Any]


def pull(jaxpr: Jaxpr, operands: Sequence[Any], cotangents: Cotangents) -> list[Any]:
    """Record the transpose of ``jaxpr`` in the current trace.

    Args:
        jaxpr: The program.
        operands: Of each input the value, or its aval where the program is linear in it.
        cotangents: Of each result.

    Returns:
        The cotangents of the inputs that came as avals.

    Raises:
        TypeError: an operation on a linear value has no transpose, with the user's line.
        DeclarationError: a rule does not return a value for each operand.
    """
    pairs = list(zip(jaxpr.invars, operands, strict=True))
    linear = {var for var, operand in pairs if is_linear(operand)}
    values = Values(jaxpr.invars, operands)
    backwards: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        if linear.intersection(eqn.invars):
            linear.update(eqn.outvars)
            backwards.append(eqn)
        else:
            read = [values[atom] for atom in eqn.invars]
            values.update(eqn.outvars, replay_equation(eqn, read))
    found = Values((), ())
    for atom, cotangent in zip(jaxpr.outvars, cotangents, strict=True):
        if cotangent is not None and isinstance(atom, Var) and atom in linear:
            found.add(atom, cotangent)
    for eqn in reversed(backwards):
        given = [found.pop(var) for var in eqn.outvars]
        if all(each is None for each in given):
            continue
        known = [atom.aval if atom in linear else values[atom] for atom in eqn.invars]
        with standing_at(eqn.source), np.errstate(all="ignore"):
            for atom, result in zip(eqn.invars, _transposed(eqn, given, known), strict=True):
                if result is not None and isinstance(atom, Var) and atom in linear:
                    found.add(atom, result)
    return [found.get(var) for var, operand in pairs if is_linear(operand)]


def _transposed(eqn: JaxprEqn, cotangents: Cotangents, operands: list[Any]) -> Sequence[Any]:
    """Return a cotangent, or None, for each operand of one equation."""
    primitive, rule, partials = eqn.primitive, eqn.primitive.transpose, eqn.primitive.jvp
    results: Sequence[Any]
    given = cotangents if primitive.multiple_results else cotangents[0]
    if isinstance(rule, Unsupported):
        raise TypeError(_no_transpose(eqn, rule.why))
    if not isinstance(rule, Derived):
        results = rule(given, *operands, **eqn.params)
        if not isinstance(results, tuple | list) or len(results) != len(operands):
            raise DeclarationError(
                f"the transpose= of {primitive} (at {user_line()}) returned {results!r}: return "
                f"{len(operands)} values, a cotangent or None for each operand"
            )
    elif primitive.kind is Kind.CALL:
        found = iter(pull(eqn.params["jaxpr"], operands, cotangents))
        results = [next(found) if is_linear(operand) else None for operand in operands]
    elif primitive.kind is Kind.BRANCH:
        results = pull_branch(eqn, cotangents, operands, pull)
    elif primitive.kind is Kind.LOOP:
        results = pull_scan(eqn, cotangents, operands, pull)
    elif isinstance(partials, tuple):
        pairs = zip(partials, operands, strict=True)
        results = [
            _times_partial(partial, given, operands, eqn) if is_linear(operand) else None
            for partial, operand in pairs
        ]
    else:
        raise TypeError(_no_transpose(eqn, "its declaration has no transpose"))
    if primitive.kind is Kind.ELEMENTWISE:
        return [
            summed(result, operand) if is_linear(operand) else None
            for result, operand in zip(results, operands, strict=True)
        ]
    return results


def _times_partial(partial: Any, cotangent: Any, operands: list[Any], eqn: JaxprEqn) -> Any:
    """Return the cotangent of an operand, whose partial derivative reads the others alone."""
    try:
        unknown = eqn.outvars[0].aval
        factor = partial(unknown, *operands) if callable(partial) else partial
        if is_linear(factor):
            raise TypeError
    except (TypeError, AttributeError):
        raise TypeError(_no_transpose(eqn, "it is not linear in what it is given")) from None
    return scaled(cotangent, factor)


def _no_transpose(eqn: JaxprEqn, why: str) -> str:
    return (
        f"{eqn.primitive} (at {user_line()}) stands in a derivative rule and cannot be transposed: "
        f"{why}; reverse mode needs rules that are linear in their tangents, made of operations "
        "that have a transpose"
    )

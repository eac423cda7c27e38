"""Forward derivatives: a program, and with it how its results change when its inputs do.

A tangent that is zero is None and costs nothing. Rules are fields of declarations; calls, branches
and loops follow from what they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Jaxpr, JaxprEqn
from minijit.graph.loop import LoopParts
from minijit.graph.primitive import Derived, Kind, Linear, Partial, Unsupported
from minijit.graph.source_info import standing_at, user_line
from minijit.graph.trace import abstractify, bind
from minijit.ops.promote import broadcast_to
from minijit.ops.pullback import pullback
from minijit.ops.reduce import reduce_sum_p
from minijit.transforms.jvp_bodies import Derivative, push_branch, push_loop
from minijit.transforms.replay import Values, replay_equation, traced, zeros_of

__all__ = ["Derivative", "jvp", "push", "refuse_reverse", "scaled", "summed"]

Tangents = list[Any]


def jvp(jaxpr: Jaxpr, moved: Sequence[bool], *, reverse: bool) -> Derivative:
    """Return a program with its derivative.

    Args:
        jaxpr: The program.
        moved: Which inputs have a tangent.
        reverse: Whether what follows is its transpose: reverse rules are used then.

    Raises:
        TypeError: an operation has no rule, with the user's line.
    """
    avals = jaxpr.in_avals
    changes = [aval.strip_weak_type() for aval, has in zip(avals, moved, strict=True) if has]
    found: list[bool] = []

    def run(inputs: list[Any]) -> list[Any]:
        given = iter(inputs[len(avals) :])
        tangents = [next(given) if has else None for has in moved]
        results, changed = push(jaxpr, inputs[: len(avals)], tangents, reverse=reverse)
        found.extend(each is not None for each in changed)
        return [*results, *(each for each in changed if each is not None)]

    program, captures = traced(run, [*avals, *changes], jaxpr.name)
    return Derivative(program, captures, tuple(found))


def push(
    jaxpr: Jaxpr, primals: Sequence[Any], tangents: Sequence[Any], *, reverse: bool
) -> tuple[list[Any], Tangents]:
    """Record ``jaxpr`` and its derivative in the current trace; return results and tangents."""
    values = Values(jaxpr.invars, primals)
    changes = Values(jaxpr.invars, tangents)
    for eqn in jaxpr.eqns:
        operands = [values[atom] for atom in eqn.invars]
        moved = [changes.get(atom) for atom in eqn.invars]
        if all(each is None for each in moved) or not any(map(_is_float, eqn.outvars)):
            values.update(eqn.outvars, replay_equation(eqn, operands))
            continue
        with standing_at(eqn.source), np.errstate(all="ignore"):
            results, changed = _derived(eqn, operands, moved, reverse)
            changed = [_checked(eqn, *pair) for pair in zip(results, changed, strict=True)]
        values.update(eqn.outvars, results)
        changes.update(eqn.outvars, changed)
    return [values[atom] for atom in jaxpr.outvars], [changes.get(atom) for atom in jaxpr.outvars]


def _derived(
    eqn: JaxprEqn, operands: list[Any], moved: Tangents, reverse: bool
) -> tuple[Sequence[Any], Sequence[Any]]:
    primitive, params, rule = eqn.primitive, eqn.params, eqn.primitive.jvp
    captured = params.get("captured", 0)  # of calls with rules of users
    if any(tangent is not None for tangent in moved[:captured]):
        raise TypeError(
            f"{params['jaxpr'].name}() has a derivative of its own and reads a value of its "
            f"surroundings that is differentiated (at {user_line()}): its rule knows of arguments "
            "alone, so make it one"
        )
    pulls = not isinstance(primitive.vjp, Unsupported)
    if pulls and (reverse or isinstance(rule, Unsupported)):
        if not reverse:
            called = params["jaxpr"].name if primitive.kind is Kind.CALL else primitive.name
            raise TypeError(_only_reverse(called))
        return _pulled(eqn, operands, moved)
    if isinstance(rule, Unsupported):
        raise TypeError(
            f"{primitive} cannot be differentiated (at {user_line()}): {rule.why}; "
            "minijit.lax.stop_gradient(x) takes its operand for a constant"
        )
    if isinstance(rule, Derived):
        return _structured(eqn, operands, moved, reverse)
    if isinstance(rule, (Linear, tuple)):
        (result,) = replay_equation(eqn, operands)
        if isinstance(rule, Linear):
            given = [zeros_of(o) if t is None else t for o, t in zip(operands, moved, strict=True)]
            return [result], [bind(primitive, *given, **params)]
        return [result], [_total_derivative(rule, result, operands, moved)]
    found = rule(operands, moved, **params)
    if not isinstance(found, tuple) or len(found) != 2:
        raise TypeError(
            f"the jvp rule of {primitive} (at {user_line()}) has to return (result, tangent), not "
            f"{type(found).__name__}; partial derivatives are given as a tuple, one function "
            "(result, *operands) for each operand"
        )
    results, changed = found
    return (results, changed) if primitive.multiple_results else ([results], [changed])


def _structured(
    eqn: JaxprEqn, operands: list[Any], moved: Tangents, reverse: bool
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Differentiate what holds programs."""

    def differentiate(body: Jaxpr, moved: Sequence[bool]) -> Derivative:
        return jvp(body, moved, reverse=reverse)

    kind = eqn.primitive.kind
    if kind is Kind.CALL:
        return push(eqn.params["jaxpr"], operands, moved, reverse=reverse)
    if kind is Kind.BRANCH:
        return push_branch(eqn, operands, moved, differentiate)
    if reverse:
        refuse_reverse(eqn)
    return push_loop(eqn, operands, moved, differentiate)


def _total_derivative(
    partials: Sequence[Partial], result: Any, operands: list[Any], moved: Tangents
) -> Any:
    total = None
    for partial, tangent in zip(partials, moved, strict=True):
        if tangent is None or partial == 0:
            continue
        term = scaled(tangent, partial(result, *operands) if callable(partial) else partial)
        total = term if total is None else total + term
    return None if total is None else broadcast_to(total, abstractify(result).shape)


def scaled(x: Any, factor: Any) -> Any:
    """Return ``factor * x``; None, for zero, where the factor is the number 0."""
    if isinstance(factor, (int, float)):
        if factor == 0:
            return None
        if abs(factor) == 1:
            return x if factor == 1 else -x
    return x * factor


def summed(cotangent: Any, operand: ShapedArray) -> Any:
    """Return the cotangent of an operand of shape () that stood beside arrays."""
    if cotangent is None or operand.shape:
        return cotangent
    axes = tuple(range(abstractify(cotangent).ndim))
    return bind(reduce_sum_p, cotangent, axes=axes) if axes else cotangent


def _pulled(
    eqn: JaxprEqn, operands: list[Any], moved: Tangents
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return results and tangents that the declared reverse rule pulls back."""
    rule, params, several = eqn.primitive.vjp, eqn.params, eqn.primitive.multiple_results
    places = [place for place, tangent in enumerate(moved) if tangent is not None]
    if isinstance(rule, tuple):
        result, kept = rule[0](*operands, **params)
        results = result if several else (result,)
    else:
        results = replay_equation(eqn, operands)
        kept = [*results, *operands]

    def pull(cotangents: Sequence[Any], kept: Sequence[Any]) -> list[Any]:
        cotangent = tuple(cotangents) if several else cotangents[0]
        if isinstance(rule, tuple):
            found = rule[1](kept, cotangent, **params)
        else:
            assert callable(rule)
            outputs, inputs = kept[: len(results)], kept[len(results) :]
            found = rule(cotangent, tuple(outputs) if several else outputs[0], *inputs, **params)
        return _cotangents(eqn, found, avals_of_operands, places)

    avals_of_operands = list(map(abstractify, operands))
    tangents = [moved[place] for place in places]
    avals = [var.aval.strip_weak_type() for var in eqn.outvars]
    return results, pullback(pull, kept, tangents, avals)


def _cotangents(
    eqn: JaxprEqn, found: Any, avals: Sequence[ShapedArray], places: Sequence[int]
) -> list[Any]:
    """Return what a reverse rule returned for the operands at ``places``.

    Raises:
        TypeError: there is not one for each operand, or one has another shape or dtype.
    """
    rule = f"the vjp rule of {eqn.primitive} (at {eqn.source})"
    if not isinstance(found, (tuple, list)) or len(found) != len(avals):
        said = f"{len(found)}" if isinstance(found, (tuple, list)) else type(found).__name__
        raise TypeError(
            f"{rule} has to return a tuple of {len(avals)} cotangents, one for each operand, None "
            f"for zero, not {said}"
        )
    cotangents = [found[place] for place in places]
    if eqn.primitive.kind is Kind.ELEMENTWISE:
        cotangents = [summed(c, avals[place]) for c, place in zip(cotangents, places, strict=True)]
    for place, cotangent in zip(places, cotangents, strict=True):
        if cotangent is None:
            continue
        own, aval = abstractify(cotangent), avals[place]
        if (own.shape, own.dtype) != (aval.shape, aval.dtype):
            raise TypeError(
                f"{rule} gives a cotangent {own} for operand {place}, which is {aval}: they have "
                "to have one shape and one dtype"
            )
    return cotangents


def _only_reverse(name: str) -> str:
    return (
        f"{name} has a reverse rule alone (at {user_line()}): minijit.grad and minijit.vjp can "
        "differentiate it; minijit.jvp needs a forward rule, custom_jvp or jvp= of its declaration"
    )


def refuse_reverse(eqn: JaxprEqn) -> None:
    """Raise ``TypeError`` for a loop whose steps are not counted: none can be the last one."""
    if LoopParts.of(eqn).condition is not None:
        raise TypeError(
            f"while_loop, or fori_loop with traced bounds, (at {eqn.source}) cannot be "
            "differentiated in reverse mode: how many steps there are, and with what values, is "
            "not known before it has run. Write lax.scan, or lax.fori_loop with bounds that are "
            "Python integers and no arguments; minijit.jvp, which goes forward, can differentiate "
            "it"
        )


def _is_float(var: Any) -> bool:
    return bool(var.aval.dtype.kind == "f")


def _checked(eqn: JaxprEqn, result: Any, tangent: Any) -> Any:
    """Return a tangent that has the type of its result; that of what is no float is zero."""
    aval = abstractify(result)
    if tangent is None or aval.dtype.kind != "f":
        return None
    own = abstractify(tangent)
    if (own.shape, own.dtype) != (aval.shape, aval.dtype):
        raise TypeError(
            f"the jvp rule of {eqn.primitive} (at {user_line()}) gives a tangent {own} for the "
            f"result {aval}: they have to have one shape and one dtype"
        )
    return tangent

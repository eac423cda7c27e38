"""Rewrites that users declare: where a program computes one thing, compute another in its place."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.errors import DeclarationError
from minijit.graph.events import emit
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var
from minijit.graph.registry import declared
from minijit.graph.trace import trace_function
from minijit.transforms.inline import inline_calls, spliced
from minijit.transforms.rewrite import rebuild, resolve, substituted, with_bodies
from minijit.transforms.simplify import simplify

__all__ = ["STEPS", "Rewrite", "apply_rewrites"]

STEPS = ("inline", "simplify", "loops")
"""The steps after which rewrites can run."""
Bindings = dict[Var, Atom]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Rewrite:
    """One rewrite.

    Attributes:
        name: For messages and events.
        pattern: A function of arrays: what is looked for.
        replacement: A function of the same arrays: what is computed instead.
        at: After which step of the pipeline it runs.
        example: Types of arguments for which the pattern can be traced.
    """

    name: str
    pattern: Callable[..., Any]
    replacement: Callable[..., Any]
    at: str
    example: tuple[ShapedArray, ...]

    def program(self, function: Callable[..., Any], avals: Sequence[ShapedArray]) -> Jaxpr:
        """Return one of the two functions as the program that the step sees.

        Raises:
            DeclarationError: it captures an array or has not one result.
        """
        traced = trace_function(
            lambda tracers: [function(*tracers)], avals, [""] * len(avals), self.name, alone=True
        ).jaxpr
        if traced.consts:
            raise DeclarationError(
                f"the rewrite {self.name!r} reads an array from its surroundings: its functions "
                "compute from their arguments and numbers alone"
            )
        inlined = inline_calls(traced)
        return inlined if self.at == "inline" else simplify(inlined)

    def checked(self) -> Rewrite:
        """Return it if the replacement has the type of the pattern, for the example.

        Raises:
            DeclarationError: it has another, or there is nothing to look for.
        """
        looked_for = self.program(self.pattern, self.example)
        if not looked_for.eqns or looked_for.outvars[0] not in looked_for.eqns[-1].outvars:
            raise DeclarationError(f"the pattern of the rewrite {self.name!r} computes nothing")
        unused = set(looked_for.invars) - _read(looked_for)
        if unused:
            raise DeclarationError(
                f"the pattern of the rewrite {self.name!r} does not use all of its arguments"
            )
        self.typed(self.program(self.replacement, self.example), looked_for.out_avals[0], "")
        return self

    def typed(self, made: Jaxpr, wanted: ShapedArray, where: str) -> Jaxpr:
        """Return a replacement if it has the wanted type.

        Raises:
            DeclarationError: it has another.
        """
        (found,) = made.out_avals
        if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
            raise DeclarationError(
                f"the rewrite {self.name!r} replaces {wanted} by {found}{where}: cast the "
                "replacement's result, or keep its shape"
            )
        return made


def _read(jaxpr: Jaxpr) -> set[Atom]:
    return {atom for eqn in jaxpr.eqns for atom in eqn.invars}


def apply_rewrites(jaxpr: Jaxpr, step: str) -> Jaxpr:
    """Return ``jaxpr`` with the rewrites applied that run after ``step``, here and in all bodies.

    Each goes through the equations once, in order; what it puts there it does not rewrite again.

    Before, with ``log(exp(x)) -> x``: ``b = exp a; c = log b; d = sin c``; after: ``d = sin a``.
    """
    for rewrite in declared("rewrite"):
        if rewrite.at == step:
            count = 0
            jaxpr, count = _applied(jaxpr, rewrite)
            if count:
                emit("rewrite", name=rewrite.name, count=count)
    return jaxpr


def _applied(jaxpr: Jaxpr, rewrite: Rewrite) -> tuple[Jaxpr, int]:
    shape = rewrite.program(rewrite.pattern, rewrite.example)
    root = shape.eqns[-1]
    environment: dict[Var, Atom] = {}
    sources: dict[Var, JaxprEqn] = {}
    eqns: list[JaxprEqn] = []
    count = 0

    def inside(body: Jaxpr) -> Jaxpr:
        nonlocal count
        body, inner = _applied(body, rewrite)
        count += inner
        return body

    for old in jaxpr.eqns:
        eqn = substituted(old, tuple(resolve(atom, environment) for atom in old.invars))
        eqn = with_bodies(eqn, inside)
        operands = None
        if eqn.primitive is root.primitive:
            operands = _operands(shape, eqn, sources, rewrite)
        if operands is None:
            new: Sequence[JaxprEqn] = (eqn,)
        else:
            count += 1
            new, result = _replacement(rewrite, operands, eqn)
            environment[eqn.outvars[0]] = result
        eqns += new
        sources.update((var, each) for each in new for var in each.outvars)
    return rebuild(jaxpr, eqns, environment), count


def _replacement(
    rewrite: Rewrite, operands: tuple[Atom, ...], eqn: JaxprEqn
) -> tuple[tuple[JaxprEqn, ...], Atom]:
    made = rewrite.program(rewrite.replacement, [atom.aval for atom in operands])
    rewrite.typed(made, eqn.outvars[0].aval, f" (at {eqn.source})")
    eqns, (result,) = spliced(made, operands)
    return tuple(dataclasses.replace(each, source=eqn.source) for each in eqns), result


def _operands(
    shape: Jaxpr, eqn: JaxprEqn, sources: Mapping[Var, JaxprEqn], rewrite: Rewrite
) -> tuple[Atom, ...] | None:
    """Return the arguments for which the pattern computes what ``eqn`` does, or None.

    Types decide parameters and casts, so the pattern is looked for by its operations first, and
    then traced for the types that were found.
    """
    bound = _bound(shape, eqn, sources, exact=False)
    if bound is None:
        return None
    avals = [bound[var].aval for var in shape.invars]
    try:
        typed = rewrite.program(rewrite.pattern, avals)
    except (TypeError, ValueError):
        return None  # it has no meaning for these types
    if not typed.eqns:
        return None
    bound = _bound(typed, eqn, sources, exact=True)
    return None if bound is None else tuple(bound[var] for var in typed.invars)


def _bound(
    pattern: Jaxpr, eqn: JaxprEqn, sources: Mapping[Var, JaxprEqn], *, exact: bool
) -> Bindings | None:
    """Return what the pattern's arguments stand for if ``eqn`` is its last equation, else None."""
    inside = {var: each for each in pattern.eqns for var in each.outvars}
    bound: Bindings = {}
    pairs: list[tuple[JaxprEqn, JaxprEqn]] = [(pattern.eqns[-1], eqn)]
    while pairs:
        looked_for, found = pairs.pop()
        if not _alike(looked_for, found, exact=exact):
            return None
        for wanted, atom in zip(looked_for.invars, found.invars, strict=True):
            if isinstance(wanted, Literal):
                if not (isinstance(atom, Literal) and _equal(wanted, atom, exact=exact)):
                    return None
            elif wanted in inside:
                source = sources.get(atom) if isinstance(atom, Var) else None
                if source is None:
                    return None
                pairs.append((inside[wanted], source))
            elif not _same(bound.setdefault(wanted, atom), atom):
                return None
    return bound if len(bound) == len(pattern.invars) else None


def _alike(looked_for: JaxprEqn, found: JaxprEqn, *, exact: bool) -> bool:
    if looked_for.primitive is not found.primitive or len(looked_for.invars) != len(found.invars):
        return False
    if not exact:
        return True
    types = list(_types(looked_for)) == list(_types(found))
    return types and dict(looked_for.params) == dict(found.params)


def _types(eqn: JaxprEqn) -> Iterator[Any]:
    for var in eqn.outvars:
        yield var.aval.shape, var.aval.dtype


def _equal(wanted: Literal, found: Literal, *, exact: bool) -> bool:
    if exact:
        return bool(wanted.aval.dtype == found.aval.dtype) and (
            wanted.value.tobytes() == found.value.tobytes()
        )
    with np.errstate(all="ignore"):
        return bool(np.isclose(float(wanted.value), float(found.value), rtol=1e-2, equal_nan=True))


def _same(first: Atom, second: Atom) -> bool:
    if isinstance(first, Literal) and isinstance(second, Literal):
        return first.aval == second.aval and first.value.tobytes() == second.value.tobytes()
    return first is second

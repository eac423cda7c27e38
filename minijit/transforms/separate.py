"""A program cut in two: what is linear in some of its inputs, and what does not depend on them.

The first part of a derivative computes results and what the second one needs of them (residuals);
the second takes tangents, and can be turned around. A loop or a branch that does both becomes two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var, has_effect
from minijit.graph.primitive import Kind
from minijit.transforms.inline import renamed

__all__ = ["Cut", "Separated", "marked", "separate", "unmarked"]

_T = TypeVar("_T")

_CHEAP = (Kind.ELEMENTWISE, Kind.VIEW, Kind.PIECEWISE, Kind.INDEX)

Cut = Callable[[JaxprEqn, Sequence[bool]], tuple[JaxprEqn | None, JaxprEqn]]
"""Cuts an equation that holds programs, of which the marked operands are tangents."""


@dataclasses.dataclass(frozen=True, slots=True)
class Separated:
    """The two parts of a program.

    Attributes:
        known: Takes the other inputs; returns the results that are not linear.
        linear: Takes the residuals and the linear inputs; returns the linear results.
        residuals: The variables of ``known``, inputs or computed there, that ``linear`` needs.
        moved: Which results of the program are linear.
    """

    known: Jaxpr
    linear: Jaxpr
    residuals: tuple[Var, ...]
    moved: tuple[bool, ...]


def separate(
    jaxpr: Jaxpr,
    linear: Sequence[bool],
    cut: Cut,
    *,
    wanted: Sequence[bool] = (),
    free: Iterable[Var] = (),
) -> Separated:
    """Cut a program in two.

    Args:
        jaxpr: The program.
        linear: Which inputs are tangents.
        cut: What does it to branches and loops.
        wanted: Results that belong to the linear part, be they zero.
        free: Inputs that the linear part can have without their being kept.
    """
    moved = {*marked(jaxpr.invars, linear)}
    known: list[JaxprEqn] = []
    later: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        flags = [atom in moved for atom in eqn.invars]
        if not any(flags):
            known.append(eqn)
            continue
        if eqn.primitive.kind in (Kind.BRANCH, Kind.LOOP):
            first, eqn = cut(eqn, flags)
            known += [] if first is None else [first]
        later.append(eqn)
        moved.update(eqn.outvars)
    asked = [*wanted, *(False for _ in jaxpr.outvars[len(wanted) :])]
    results = [atom in moved or force for atom, force in zip(jaxpr.outvars, asked, strict=True)]
    outvars = marked(jaxpr.outvars, results)
    needed = _known_among((*(a for eqn in later for a in eqn.invars), *outvars), moved)
    residuals, again = _residuals(needed, known, {*free})
    tangents = marked(jaxpr.invars, linear)
    second = Jaxpr(residuals + tangents, (), (), (*again, *later), outvars, jaxpr.name)
    first_part = dataclasses.replace(
        jaxpr,
        invars=unmarked(jaxpr.invars, linear),
        eqns=tuple(known),
        outvars=unmarked(jaxpr.outvars, results),
    )
    return Separated(first_part, renamed(second), residuals, tuple(results))


def marked(items: Sequence[_T], flags: Sequence[bool]) -> tuple[_T, ...]:
    """Return those of ``items`` whose flag is set."""
    return tuple(item for item, flag in zip(items, flags, strict=True) if flag)


def unmarked(items: Sequence[_T], flags: Sequence[bool]) -> tuple[_T, ...]:
    """Return those of ``items`` whose flag is not set."""
    return tuple(item for item, flag in zip(items, flags, strict=True) if not flag)


def _known_among(atoms: Iterable[Atom], moved: set[Var]) -> list[Var]:
    """Return the variables among ``atoms`` that are not linear, each once."""
    found = (atom for atom in atoms if isinstance(atom, Var) and atom not in moved)
    return list(dict.fromkeys(found))


def _residuals(
    needed: Sequence[Var], known: Sequence[JaxprEqn], free: set[Var]
) -> tuple[tuple[Var, ...], list[JaxprEqn]]:
    """Return what is kept for the linear part, and what that computes once more.

    Cheap operations are done again on what they read, where that takes no more memory than their
    results: what is free, and the results of dear ones.
    """
    definitions = {var: eqn for eqn in known for var in eqn.outvars}
    frontier: dict[Var, None] = {}
    again: set[JaxprEqn] = set()
    pending = list(needed)
    while pending:
        var = pending.pop()
        eqn = definitions.get(var)
        if eqn is None or eqn.primitive.kind not in _CHEAP or has_effect(eqn):
            frontier[var] = None
        elif eqn not in again:
            again.add(eqn)
            pending += (atom for atom in eqn.invars if isinstance(atom, Var))
    if _bytes(frontier, free) <= _bytes(needed, free):
        return tuple(frontier), [eqn for eqn in known if eqn in again]
    return tuple(needed), []


def _bytes(variables: Iterable[Var], free: set[Var]) -> int:
    return sum(var.aval.nbytes for var in variables if var not in free)

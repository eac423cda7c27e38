"""Loop-invariant code: what is the same at each step and costs more than a look runs once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var, has_effect
from minijit.graph.loop import may_not_end
from minijit.graph.primitive import Kind
from minijit.transforms.rewrite import resolve, with_bodies

__all__ = ["hoist_invariants"]

_DEAR = (Kind.REDUCTION, Kind.LIBRARY, Kind.LOOP, Kind.BRANCH)
"""Other operations are left where they are: a kernel computes them before its loop by itself."""


def hoist_invariants(jaxpr: Jaxpr) -> Jaxpr:
    """Return ``jaxpr`` with what no step of a loop changes computed before the loop.

    Loops with a condition stay: one that does not end must not start before a loop of no steps.

    Before: ``c = scan[body = { lambda ; x c v. let s = sum x; d = add c s in (d,) }] x a b``;
    after: ``s = sum x; c = scan[body = { lambda ; s c v. let d = add c s in (d,) }] s a b``.
    """
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        eqn = with_bodies(eqn, hoist_invariants)
        if eqn.primitive.kind is Kind.LOOP:
            before, eqn = _hoisted(eqn)
            eqns += before
        eqns.append(eqn)
    return dataclasses.replace(jaxpr, eqns=tuple(eqns))


def _hoisted(eqn: JaxprEqn) -> tuple[list[JaxprEqn], JaxprEqn]:
    """Return the equations that leave the loop, and the loop without them."""
    params = dict(eqn.params)
    invars: list[Atom] = []
    before: list[JaxprEqn] = []
    start = 0
    for name, count in (
        [("jaxpr", "consts")]
        if "jaxpr" in params
        else [("condition", "condition_consts"), ("body", "body_consts")]
    ):
        consts = eqn.invars[start : start + params[count]]
        start += params[count]
        moved, results, params[name] = _split(params[name], consts)
        before += moved
        invars += [*consts, *results]
        params[count] += len(results)
    if not before:
        return [], eqn
    return before, dataclasses.replace(eqn, params=params, invars=(*invars, *eqn.invars[start:]))


def _split(body: Jaxpr, consts: Sequence[Atom]) -> tuple[list[JaxprEqn], list[Var], Jaxpr]:
    """Return what leaves a body, its results, and the body that takes them as further constants."""
    outer: dict[Var, Atom] = dict(zip(body.invars, consts, strict=False))
    invariant: dict[Var, JaxprEqn] = {}
    known = set(outer)
    leaving: dict[JaxprEqn, None] = {}
    for eqn in body.eqns:
        same = all(isinstance(atom, Literal) or atom in known for atom in eqn.invars)
        if same and not may_not_end((eqn,)) and not has_effect(eqn):
            known.update(eqn.outvars)
            invariant.update((var, eqn) for var in eqn.outvars)
            if eqn.primitive.kind in _DEAR:
                leaving[eqn] = None
        elif eqn.primitive.kind is Kind.LIBRARY:
            # What the library reads, or a product as a whole, has to be in memory anyway.
            sources = (_source(atom, invariant) for atom in eqn.invars)
            leaving.update((source, None) for source in sources if source is not None)
    if not leaving:
        return [], [], body
    needed = set(leaving)
    for eqn in reversed(body.eqns):
        if eqn in needed:
            needed.update(invariant[a] for a in eqn.invars if isinstance(a, Var) and a in invariant)
    moved = list(_copied((eqn for eqn in body.eqns if eqn in needed), outer))
    kept = tuple(eqn for eqn in body.eqns if eqn not in leaving)
    fresh = [var for eqn in leaving for var in eqn.outvars]
    results = [resolve(var, outer) for var in fresh]
    count = len(consts)
    invars = (*body.invars[:count], *fresh, *body.invars[count:])
    jaxpr = dataclasses.replace(body, invars=invars, eqns=kept)
    return moved, [result for result in results if isinstance(result, Var)], jaxpr


def _source(atom: Atom, invariant: Mapping[Var, JaxprEqn]) -> JaxprEqn | None:
    """Return what computes the values that ``atom`` shows, if no step changes them."""
    eqn = invariant.get(atom) if isinstance(atom, Var) else None
    while eqn is not None and eqn.primitive.kind is Kind.VIEW:
        (atom,) = eqn.invars
        eqn = invariant.get(atom) if isinstance(atom, Var) else None
    return eqn


def _copied(eqns: Iterator[JaxprEqn], outer: dict[Var, Atom]) -> Iterator[JaxprEqn]:
    """Yield the equations on the operands outside, with results of their own."""
    for eqn in eqns:
        outvars = tuple(Var(var.aval) for var in eqn.outvars)
        invars = tuple(resolve(atom, outer) for atom in eqn.invars)
        outer.update(zip(eqn.outvars, outvars, strict=True))
        yield dataclasses.replace(eqn, invars=invars, outvars=outvars)

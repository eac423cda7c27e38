"""Branches and loops cut in two: one that computes values and keeps residuals, one of tangents."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Jaxpr, JaxprEqn, Literal, Var, has_effect
from minijit.graph.loop import LoopParts
from minijit.graph.primitive import Kind, find_primitive
from minijit.graph.source_info import SourceLine
from minijit.transforms.jvp import refuse_reverse
from minijit.transforms.linear_results import results_of_branch, results_of_loop
from minijit.transforms.separate import Separated, marked, separate, unmarked

__all__ = ["cut_bodies"]


def cut_bodies(eqn: JaxprEqn, linear: Sequence[bool]) -> tuple[JaxprEqn | None, JaxprEqn]:
    """Return the equation that computes values, if there is one, and that of tangents.

    Raises:
        TypeError: it is a loop of an unknown number of steps.
    """
    if eqn.primitive.kind is Kind.BRANCH:
        return _cut_branch(eqn, linear)
    refuse_reverse(eqn)
    return _cut_scan(eqn, linear)


def _cut_branch(eqn: JaxprEqn, linear: Sequence[bool]) -> tuple[JaxprEqn | None, JaxprEqn]:
    branches, operands, flags = eqn.params["branches"], eqn.invars[1:], linear[1:]
    wanted = results_of_branch(eqn, linear)
    parts = [
        separate(branch, flags, cut_bodies, wanted=wanted, free=branch.invars)
        for branch in branches
    ]
    # An input of a branch is an operand of both equations; the rest shares places by type.
    read = sorted({branch.invars.index(var) for branch, part in zip(branches, parts, strict=True)
                   for var in part.residuals if var in branch.invars})  # fmt: skip
    kept = [
        [var for var in part.residuals if var not in branch.invars]
        for branch, part in zip(branches, parts, strict=True)
    ]
    slots = _slots(kept)
    residuals = tuple(map(Var, slots))
    pairs = list(zip(parts, kept, strict=True))
    known = tuple(_with_slots(part.known, own, slots, eqn.source) for part, own in pairs)
    later = tuple(
        _taking(part, [*(branch.invars[place] for place in read)], own, slots)
        for branch, part, own in zip(branches, parts, kept, strict=True)
    )
    tangents = marked(operands, flags)
    first = dataclasses.replace(
        eqn,
        invars=(eqn.invars[0], *unmarked(operands, flags)),
        outvars=(*unmarked(eqn.outvars, wanted), *residuals),
        params={"branches": known},
    )
    second = dataclasses.replace(
        eqn,
        invars=(eqn.invars[0], *(operands[place] for place in read), *residuals, *tangents),
        outvars=marked(eqn.outvars, wanted),
        params={"branches": later},
    )
    return (first if first.outvars or has_effect(first) else None), second


def _slots(kept: Sequence[Sequence[Var]]) -> list[ShapedArray]:
    """Return the types of as few places as hold what any one of the branches keeps."""
    slots: list[ShapedArray] = []
    for variables in kept:
        left = list(slots)
        for var in variables:
            aval = var.aval.strip_weak_type()
            if aval in left:
                left.remove(aval)
            else:
                slots.append(aval)
    return slots


def _placed(variables: Sequence[Var], slots: Sequence[ShapedArray]) -> list[Var | None]:
    """Return which variable is in each place."""
    placed: list[Var | None] = [None] * len(slots)
    for var in variables:
        aval = var.aval.strip_weak_type()
        place = next(n for n, slot in enumerate(slots) if slot == aval and placed[n] is None)
        placed[place] = var
    return placed


def _with_slots(
    known: Jaxpr, kept: Sequence[Var], slots: Sequence[ShapedArray], source: SourceLine
) -> Jaxpr:
    """Return a branch that gives the places, zeros in those that it does not use."""
    eqns, results = list(known.eqns), list(known.outvars)
    fill = find_primitive("broadcast_in_dim")
    for var, aval in zip(_placed(kept, slots), slots, strict=True):
        zero = Literal(aval.dtype.type(0), ShapedArray((), aval.dtype))
        if var is None and aval.shape:
            filled = Var(aval)
            params = {"shape": aval.shape, "dims": ()}
            eqns.append(JaxprEqn(fill, (zero,), (filled,), params, source))
            results.append(filled)
        else:
            results.append(zero if var is None else var)
    return dataclasses.replace(known, eqns=tuple(eqns), outvars=tuple(results))


def _taking(
    part: Separated, read: Sequence[Var], kept: Sequence[Var], slots: Sequence[ShapedArray]
) -> Jaxpr:
    """Return the linear part of a branch that takes what any of them reads, then the places."""
    own = dict(zip(part.residuals, part.linear.invars, strict=False))
    inputs = [own.get(var) or Var(var.aval) for var in read]
    for var, aval in zip(_placed(kept, slots), slots, strict=True):
        inputs.append(Var(aval) if var is None else own[var])
    tangents = part.linear.invars[len(part.residuals) :]
    return dataclasses.replace(part.linear, invars=(*inputs, *tangents))


def _cut_scan(eqn: JaxprEqn, linear: Sequence[bool]) -> tuple[JaxprEqn | None, JaxprEqn]:
    loop = LoopParts.of(eqn)
    body, consts, carries = loop.body, len(loop.fixed), loop.carries
    last = consts + carries
    free = (*body.invars[:consts], *body.invars[last:])
    carried = results_of_loop(eqn, linear)[:carries]
    flags = [*linear[:consts], *carried, *linear[last:]]
    part = separate(body, flags, cut_bodies, wanted=carried, free=free)
    outer = dict(zip(body.invars, eqn.invars, strict=True))
    fixed = [var for var in part.residuals if var in body.invars[:consts]]
    rows = [var for var in part.residuals if var in body.invars[last:]]
    stacked = [var for var in part.residuals if var not in fixed and var not in rows]
    length = loop.length or 0
    stacks = tuple(Var(ShapedArray((length, *v.aval.shape), v.aval.dtype)) for v in stacked)
    known = dataclasses.replace(part.known, outvars=(*part.known.outvars, *stacked))
    first = dataclasses.replace(
        eqn,
        invars=unmarked(eqn.invars, flags),
        outvars=(*unmarked(eqn.outvars, part.moved), *stacks),
        params={
            **eqn.params,
            "jaxpr": known,
            "consts": len(unmarked(loop.fixed, flags[:consts])),
            "carries": len(unmarked(loop.inits, carried)),
        },
    )
    own = dict(zip(part.residuals, part.linear.invars, strict=False))
    tangents = part.linear.invars[len(part.residuals) :]
    of_consts = sum(flags[:consts])
    of_carries = of_consts + sum(carried)
    inputs = (
        *(own[var] for var in fixed), *tangents[:of_carries],
        *(own[var] for var in (*rows, *stacked)), *tangents[of_carries:],
    )  # fmt: skip
    second = dataclasses.replace(
        eqn,
        invars=(
            *(outer[var] for var in fixed), *marked(eqn.invars[:last], flags[:last]),
            *(outer[var] for var in rows), *stacks, *marked(eqn.invars[last:], flags[last:]),
        ),
        outvars=marked(eqn.outvars, part.moved),
        params={
            **eqn.params,
            "jaxpr": dataclasses.replace(part.linear, invars=inputs),
            "consts": len(fixed) + of_consts,
            "carries": sum(carried),
        },
    )  # fmt: skip
    return (first if first.outvars or has_effect(first) else None), second

"""Loops that lanes leave one by one, as loops that all lanes leave together.

In a kernel each point has a loop of its own, which ends when its lane is done. The host has one for
all of them: it goes on until every lane is done, and those that are done keep what they have.
"""

from __future__ import annotations

import dataclasses

from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import BOOL
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var
from minijit.graph.primitive import Kind, find_primitive
from minijit.transforms.inline import spliced

__all__ = ["together"]


def together(loop: JaxprEqn) -> JaxprEqn:
    """Return a loop by lanes as one whose condition is one bool; others as they are.

    Before: ``b = while[condition = lt c 9.0:f32[]; body = mul c 2.0:f32[]] a`` with ``c:f32[8]``;
    after: ``condition = reduce_any (lt c 9.0); body = select (lt c 9.0) (mul c 2.0) c``.
    """
    if loop.primitive.kind is not Kind.LOOP or "condition" not in loop.params:
        return loop
    condition: Jaxpr = loop.params["condition"]
    if not condition.out_avals[0].shape:
        return loop
    first = loop.params["condition_consts"]
    asked = loop.invars[:first]
    params = {
        **loop.params,
        "condition": _any(condition, loop),
        "body": _kept(condition, loop.params["body"], first, loop),
        "body_consts": first + loop.params["body_consts"],
    }
    return dataclasses.replace(loop, invars=(*asked, *loop.invars), params=params)


def _any(condition: Jaxpr, loop: JaxprEqn) -> Jaxpr:
    """Return a condition that holds as long as it does for a lane."""
    (lanes,) = condition.outvars
    result = Var(ShapedArray((), BOOL))
    params = {"axes": tuple(range(lanes.aval.ndim))}
    last = JaxprEqn(find_primitive("reduce_any"), (lanes,), (result,), params, loop.source)
    return dataclasses.replace(condition, eqns=(*condition.eqns, last), outvars=(result,))


def _kept(condition: Jaxpr, body: Jaxpr, asked: int, loop: JaxprEqn) -> Jaxpr:
    """Return a body that changes no lane at its end; it takes the condition's constants as well."""
    state = body.invars[len(body.invars) - len(body.outvars) :]
    consts = tuple(Var(aval) for aval in condition.in_avals[:asked])
    before, (lanes,) = spliced(condition, (*consts, *state))
    eqns = [*before, *body.eqns]
    masks: dict[tuple[int, ...], Atom] = {lanes.aval.shape: lanes}
    outvars: list[Atom] = []
    for new, old in zip(body.outvars, state, strict=True):
        shape = old.aval.shape
        if shape not in masks:
            masks[shape] = mask = Var(ShapedArray(shape, BOOL))
            params = {"shape": shape, "dims": tuple(range(lanes.aval.ndim))}
            wide = find_primitive("broadcast_in_dim")
            eqns.append(JaxprEqn(wide, (lanes,), (mask,), params, loop.source))
        kept = Var(old.aval)
        select = find_primitive("select")
        eqns.append(JaxprEqn(select, (masks[shape], new, old), (kept,), {}, loop.source))
        outvars.append(kept)
    return dataclasses.replace(
        body, invars=(*consts, *body.invars), eqns=tuple(eqns), outvars=tuple(outvars)
    )

"""Dead code in branches and loops: results, carries and operands that no one needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var, has_effect
from minijit.graph.primitive import Kind

__all__ = ["live_equations"]

_T = TypeVar("_T")


def live_equations(eqns: Sequence[JaxprEqn], results: Iterable[Atom]) -> tuple[JaxprEqn, ...]:
    """Return the equations that ``results`` depend on, bodies pruned to what they depend on.

    What has an effect is kept, and whole.
    """
    needed = {atom for atom in results if isinstance(atom, Var)}
    kept: list[JaxprEqn] = []
    for eqn in reversed(eqns):
        effect = has_effect(eqn)
        if effect or needed.intersection(eqn.outvars):
            if eqn.primitive.kind in (Kind.BRANCH, Kind.LOOP) and not effect:
                eqn = _pruned(eqn, needed)
            needed.update(atom for atom in eqn.invars if isinstance(atom, Var))
            kept.append(eqn)
    return tuple(reversed(kept))


def _pruned(eqn: JaxprEqn, needed: Collection[Var]) -> JaxprEqn:
    """Return a branch or a loop that computes only the ``needed`` ones of its results."""
    used = {place for place, var in enumerate(eqn.outvars) if var in needed}
    rule = {"cond": _branch, "scan": _scan, "while": _while}[eqn.primitive.name]
    return rule(eqn, used)


def _branch(eqn: JaxprEqn, used: set[int]) -> JaxprEqn:
    outputs = sorted(used)
    branches = [_with_outputs(branch, outputs) for branch in eqn.params["branches"]]
    inputs = sorted(set().union(*(_needed(branch, range(len(outputs))) for branch in branches)))
    return dataclasses.replace(
        eqn,
        invars=(eqn.invars[0], *_chosen(eqn.invars[1:], inputs)),
        outvars=_chosen(eqn.outvars, outputs),
        params={"branches": tuple(_with_inputs(branch, inputs) for branch in branches)},
    )


def _scan(eqn: JaxprEqn, used: set[int]) -> JaxprEqn:
    jaxpr, consts, carries = (eqn.params[name] for name in ("jaxpr", "consts", "carries"))
    used, inputs = _closed(jaxpr, used, consts, carries)
    outputs = sorted(used)
    kept = sorted(inputs | {consts + place for place in outputs if place < carries})
    body = _with_inputs(_with_outputs(jaxpr, outputs), kept)
    params = {
        **eqn.params,
        "jaxpr": body,
        "consts": sum(place < consts for place in kept),
        "carries": sum(place < carries for place in outputs),
    }
    return dataclasses.replace(
        eqn,
        invars=_chosen(eqn.invars, kept),
        outvars=_chosen(eqn.outvars, outputs),
        params=params,
    )


def _while(eqn: JaxprEqn, used: set[int]) -> JaxprEqn:
    condition, body = eqn.params["condition"], eqn.params["body"]
    first, second = eqn.params["condition_consts"], eqn.params["body_consts"]
    asked = _needed(condition, (0,))
    used = used | {place - first for place in asked if place >= first}
    used, inputs = _closed(body, used, second, len(eqn.outvars))
    outputs = sorted(used)
    asked_consts = sorted(place for place in asked if place < first)
    body_consts = sorted(place for place in inputs if place < second)
    operands = [
        *asked_consts,
        *(first + place for place in body_consts),
        *(first + second + place for place in outputs),
    ]
    params = {
        "condition": _with_inputs(condition, [*asked_consts, *(first + p for p in outputs)]),
        "body": _with_inputs(
            _with_outputs(body, outputs), [*body_consts, *(second + p for p in outputs)]
        ),
        "condition_consts": len(asked_consts),
        "body_consts": len(body_consts),
    }
    return dataclasses.replace(
        eqn,
        invars=_chosen(eqn.invars, operands),
        outvars=_chosen(eqn.outvars, outputs),
        params=params,
    )


def _closed(jaxpr: Jaxpr, used: set[int], consts: int, carries: int) -> tuple[set[int], set[int]]:
    """Return the results of a body that are needed, with the carries that they need in turn.

    The second result is which inputs of the body they need.
    """
    while True:
        inputs = _needed(jaxpr, used)
        asked = {place - consts for place in inputs if consts <= place < consts + carries}
        if asked <= used:
            return used, inputs
        used = used | asked


def _needed(jaxpr: Jaxpr, outputs: Iterable[int]) -> set[int]:
    """Return which inputs of ``jaxpr`` its results at ``outputs`` depend on."""
    live = _with_outputs(jaxpr, tuple(outputs))
    needed = {*live.outvars, *(atom for eqn in live.eqns for atom in eqn.invars)}
    return {place for place, var in enumerate(jaxpr.invars) if var in needed}


def _with_outputs(jaxpr: Jaxpr, outputs: Sequence[int]) -> Jaxpr:
    """Return ``jaxpr`` with some of its results, and without what only the others need."""
    outvars = _chosen(jaxpr.outvars, outputs)
    return dataclasses.replace(jaxpr, eqns=live_equations(jaxpr.eqns, outvars), outvars=outvars)


def _with_inputs(jaxpr: Jaxpr, inputs: Sequence[int]) -> Jaxpr:
    return dataclasses.replace(jaxpr, invars=_chosen(jaxpr.invars, inputs))


def _chosen(items: Sequence[_T], places: Iterable[int]) -> tuple[_T, ...]:
    return tuple(items[place] for place in places)

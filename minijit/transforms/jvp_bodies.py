"""Forward derivatives of branches and loops: their bodies carry tangents beside values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from minijit.graph.jaxpr import Jaxpr, JaxprEqn, Var
from minijit.graph.loop import LoopParts
from minijit.graph.trace import abstractify, bind
from minijit.transforms.replay import with_captures, with_zeros, zeros_of

__all__ = ["Derivative", "Differentiate", "push_branch", "push_loop"]

Results = tuple[Sequence[Any], Sequence[Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class Derivative:
    """A program with its derivative.

    Attributes:
        jaxpr: Takes what was captured, the inputs, and a tangent of each input that has one;
            returns the results, and a tangent of each that has one.
        captures: Values that rules of users took from their surroundings.
        moved: Which results have a tangent.
    """

    jaxpr: Jaxpr
    captures: tuple[Any, ...]
    moved: tuple[bool, ...]

    def moving(self, wanted: Sequence[bool]) -> Derivative:
        """Return the same with tangents of zeros for further results."""
        avals = self.jaxpr.out_avals[: len(self.moved)]
        jaxpr = with_zeros(self.jaxpr, self.moved, wanted, avals)
        return dataclasses.replace(self, jaxpr=jaxpr, moved=tuple(wanted))


Differentiate = Callable[[Jaxpr, Sequence[bool]], Derivative]
"""Takes a program, and which inputs have a tangent."""


def push_branch(
    eqn: JaxprEqn, operands: list[Any], moved: list[Any], differentiate: Differentiate
) -> Results:
    """Return results and tangents of a branch: each body computes both."""
    index, *values = operands
    branches: tuple[Jaxpr, ...] = eqn.params["branches"]
    has = [tangent is not None for tangent in moved[1:]]
    bodies = [differentiate(branch, has) for branch in branches]
    wanted = [any(column) for column in zip(*(body.moved for body in bodies), strict=True)]
    captures = {id(value): value for body in bodies for value in body.captures}
    results = bind(
        eqn.primitive,
        index,
        *captures.values(),
        *values,
        *_given(moved),
        branches=tuple(
            with_captures(body.moving(wanted).jaxpr, body.captures, captures) for body in bodies
        ),
    )
    return _sorted_out(results, wanted)


def push_loop(
    eqn: JaxprEqn, operands: list[Any], moved: list[Any], differentiate: Differentiate
) -> Results:
    """Return results and tangents of a loop, which carries the tangents of its carries along."""
    parts = LoopParts.of(eqn)
    asked, fixed = len(parts.asked), len(parts.fixed)
    carries, last = parts.carries, asked + fixed + parts.carries
    has = [tangent is not None for tangent in moved]
    outer = has[asked : asked + fixed]
    carried, rows = has[asked + fixed : last], has[last:]
    while True:
        body = differentiate(parts.body, [*outer, *carried, *rows])
        grown = [a or b for a, b in zip(carried, body.moved[:carries], strict=True)]
        if grown == carried:
            break
        carried = grown
    body = body.moving([*carried, *body.moved[carries:]])
    inits = operands[asked + fixed : last]
    starts = [
        zeros_of(value) if tangent is None else tangent
        for value, tangent, own in zip(inits, moved[asked + fixed : last], carried, strict=True)
        if own
    ]
    own = slice(asked, asked + fixed)
    consts = [*body.captures, *operands[own], *_given(moved[own])]
    program = _arranged(body, len(outer), carries, carried, outer, rows)
    params = dict(eqn.params)
    if parts.condition is None:
        params.update(jaxpr=program, consts=len(consts), carries=carries + len(starts))
    else:
        idle = tuple(Var(abstractify(start)) for start in starts)
        invars = parts.condition.invars + idle
        params.update(
            condition=dataclasses.replace(parts.condition, invars=invars),
            body=program,
            body_consts=len(consts),
        )
    results = bind(
        eqn.primitive,
        *operands[:asked], *consts, *inits, *starts, *operands[last:], *_given(moved[last:]),
        **params,
    )  # fmt: skip
    finals, changes = results[:carries], results[carries : carries + len(starts)]
    collected = results[carries + len(starts) :]
    ys, moved_ys = _sorted_out(collected, body.moved[carries:])
    tangents = iter(changes)
    return [*finals, *ys], [*(next(tangents) if own else None for own in carried), *moved_ys]


def _arranged(
    body: Derivative,
    consts: int,
    carries: int,
    carried: Sequence[bool],
    outer: Sequence[bool],
    rows: Sequence[bool],
) -> Jaxpr:
    """Return a body whose tangents stand where a loop has them: behind their values, by group."""
    jaxpr, first = body.jaxpr, len(body.captures)
    captured, values = jaxpr.invars[:first], jaxpr.invars[first:]
    count = consts + carries + len(rows)
    values, tangents = values[:count], values[count:]
    last = sum(outer)
    middle = last + sum(carried)
    invars = (
        *captured, *values[:consts], *tangents[:last],
        *values[consts : consts + carries], *tangents[last:middle],
        *values[consts + carries :], *tangents[middle:],
    )  # fmt: skip
    results, changes = jaxpr.outvars[: len(body.moved)], jaxpr.outvars[len(body.moved) :]
    kept = sum(carried)
    outvars = (*results[:carries], *changes[:kept], *results[carries:], *changes[kept:])
    return dataclasses.replace(jaxpr, invars=invars, outvars=outvars)


def _given(tangents: Sequence[Any]) -> list[Any]:
    return [tangent for tangent in tangents if tangent is not None]


def _sorted_out(results: Sequence[Any], moved: Sequence[bool]) -> Results:
    """Return results and their tangents, given all results and then the tangents that there are."""
    tangents = iter(results[len(moved) :])
    return results[: len(moved)], [next(tangents) if has else None for has in moved]

"""What makes programs of programs: equations recorded again, on values of the current trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var
from minijit.graph.source_info import standing_at
from minijit.graph.trace import abstractify, bind, current_trace, trace_function
from minijit.graph.tracer import Tracer
from minijit.ops.promote import broadcast_to

__all__ = [
    "Values",
    "replay",
    "replay_equation",
    "traced",
    "with_captures",
    "with_zeros",
    "zeros_of",
]


class Values:
    """What the variables of a program stand for in the current trace."""

    def __init__(self, variables: Sequence[Var], values: Sequence[Any]) -> None:
        """Know ``variables``."""
        self._known: dict[Var, Any] = {}
        self.update(variables, values)

    def __getitem__(self, atom: Atom) -> Any:
        """Return the value of an atom."""
        return _as_traced(atom) if isinstance(atom, Literal) else self._known[atom]

    def get(self, atom: Atom) -> Any:
        """Return the value of a variable, or None where it has none."""
        return self._known.get(atom) if isinstance(atom, Var) else None

    def update(self, variables: Sequence[Var], values: Sequence[Any]) -> None:
        """Know further variables."""
        self._known.update(zip(variables, map(_as_traced, values), strict=True))

    def pop(self, var: Var) -> Any:
        """Forget a variable and return its value, or None where it has none."""
        return self._known.pop(var, None)

    def add(self, var: Var, value: Any) -> None:
        """Add ``value`` to that of a variable."""
        known = self._known.get(var)
        self._known[var] = value if known is None else known + value


def _as_traced(value: Any) -> Any:
    """Return a literal, an array or a number as a value of the current trace.

    Rules are written with operators, which have to mean the same for all operands.
    """
    if value is None or isinstance(value, Tracer | ShapedArray):
        return value
    trace = current_trace()
    assert trace is not None
    return Tracer(trace, value if isinstance(value, Literal) else trace.lift(value))


def replay(jaxpr: Jaxpr, operands: Sequence[Any]) -> list[Any]:
    """Record the equations of ``jaxpr`` on ``operands``, and return its results."""
    values = Values(jaxpr.invars, operands)
    for eqn in jaxpr.eqns:
        values.update(eqn.outvars, replay_equation(eqn, [values[atom] for atom in eqn.invars]))
    return [values[atom] for atom in jaxpr.outvars]


def replay_equation(eqn: JaxprEqn, operands: Sequence[Any]) -> tuple[Any, ...]:
    """Record one equation on ``operands``, and return its results."""
    with standing_at(eqn.source):
        result = bind(eqn.primitive, *operands, **eqn.params)
    return tuple(result) if eqn.primitive.multiple_results else (result,)


def traced(
    function: Callable[[list[Any]], Sequence[Any]],
    avals: Sequence[ShapedArray],
    name: str,
    names: Sequence[str] | None = None,
) -> tuple[Jaxpr, tuple[Any, ...]]:
    """Return the program of ``function``, and the values that it captured.

    They are its first inputs, ahead of the declared ones. ``names`` are what the user calls these.
    """
    found = trace_function(function, avals, names or [""] * len(avals), name)
    jaxpr = found.jaxpr
    if not jaxpr.constvars:
        return jaxpr, found.captures
    invars = jaxpr.constvars + jaxpr.invars
    return dataclasses.replace(jaxpr, invars=invars, constvars=(), consts=()), jaxpr.consts


def with_captures(jaxpr: Jaxpr, own: Sequence[Any], captures: Mapping[int, Any]) -> Jaxpr:
    """Return a program that captured ``own`` and takes all of ``captures``, by identity, instead.

    Branches of one equation take what any of them captured.
    """
    known = {id(value): var for value, var in zip(own, jaxpr.invars, strict=False)}
    shared = tuple(known.get(key) or Var(abstractify(value)) for key, value in captures.items())
    return dataclasses.replace(jaxpr, invars=shared + jaxpr.invars[len(own) :])


def with_zeros(
    jaxpr: Jaxpr, has: Sequence[bool], wanted: Sequence[bool], avals: Sequence[ShapedArray]
) -> Jaxpr:
    """Return a program whose last results, those that ``has`` marks, are those of ``wanted``.

    Zeros stand for what is only wanted. A body that is completed so need not be made anew.
    """
    if list(has) == list(wanted):
        return jaxpr
    first = len(jaxpr.outvars) - sum(has)

    def run(inputs: list[Any]) -> list[Any]:
        results = replay(jaxpr, inputs)
        given = iter(results[first:])
        values = [next(given) if own else None for own in has]
        rows = zip(values, avals, wanted, strict=True)
        return [*results[:first], *(zeros_of(a) if x is None else x for x, a, want in rows if want)]

    return traced(run, jaxpr.in_avals, jaxpr.name)[0]


def zeros_of(value: Any) -> Any:
    """Return zeros of the type of ``value``, which may be that type itself."""
    aval = value if isinstance(value, ShapedArray) else value.aval
    return broadcast_to(aval.dtype.type(0), aval.shape)

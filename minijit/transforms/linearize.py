"""The derivative of a program at a point, as a program: what the second part of it computes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from minijit.graph.jaxpr import Jaxpr
from minijit.transforms.hoist import hoist_invariants
from minijit.transforms.inline import inline_calls
from minijit.transforms.jvp import jvp
from minijit.transforms.replay import replay
from minijit.transforms.separate import separate
from minijit.transforms.separate_bodies import cut_bodies
from minijit.transforms.simplify import simplify
from minijit.transforms.transpose import pull

__all__ = ["Linear", "linearize"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A linear map from tangents of inputs to tangents of results.

    Attributes:
        jaxpr: Takes residuals, then the tangents; returns those of results that have one.
        moved: Which results have a tangent.
    """

    jaxpr: Jaxpr
    moved: tuple[bool, ...]

    def push(self, residuals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Record the map in the current trace; a tangent that is zero is None in the result."""
        found = iter(replay(self.jaxpr, [*residuals, *tangents]))
        return [next(found) if has else None for has in self.moved]

    def pull(self, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """Record its transpose; a cotangent that is zero is None."""
        given = [c for c, has in zip(cotangents, self.moved, strict=True) if has]
        tangents = self.jaxpr.in_avals[len(residuals) :]
        return pull(self.jaxpr, [*residuals, *tangents], given)


def linearize(
    jaxpr: Jaxpr,
    operands: Sequence[Any],
    moved: Sequence[bool],
    asked: int,
    *,
    reverse: bool,
    free: bool = False,
) -> tuple[list[Any], Linear, list[Any]]:
    """Record ``jaxpr`` in the current trace; return its results, its derivative, and residuals.

    Args:
        jaxpr: The program.
        operands: Its inputs.
        moved: Which inputs have a tangent.
        asked: How many results, the first ones, are to be differentiated.
        reverse: Whether the derivative will be transposed.
        free: Whether operands may be residuals at no cost.

    Raises:
        TypeError: an operation has no derivative, or a rule's result depends on tangents, with
            the user's line.
    """
    found = jvp(jaxpr, moved, reverse=reverse)
    count = len(jaxpr.outvars)
    kept = sum(found.moved[:asked])  # tangents of the other results are dead code
    program = dataclasses.replace(found.jaxpr, outvars=found.jaxpr.outvars[: count + kept])
    program = hoist_invariants(simplify(inline_calls(program, with_rules=False)))
    values = [*found.captures, *operands]
    tangents = program.invars[len(values) :]
    flags = [*(False for _ in values), *(True for _ in tangents)]
    wanted = [*(False for _ in range(count)), *(True for _ in range(kept))]
    given = program.invars[: len(values)]
    parts = separate(program, flags, cut_bodies, wanted=wanted, free=given if free else ())
    if any(parts.moved[:count]):
        of_tangents = program.outvars[parts.moved.index(True)]
        line = next((eqn.source for eqn in program.eqns if of_tangents in eqn.outvars), "a rule")
        raise TypeError(
            f"a derivative rule computes a result from tangents (at {line}): it has to be what the "
            "function returns, computed from the primals alone"
        )
    first = dataclasses.replace(parts.known, outvars=(*parts.known.outvars, *parts.residuals))
    results = replay(first, values)
    return results[:count], Linear(parts.linear, found.moved[:asked]), results[count:]

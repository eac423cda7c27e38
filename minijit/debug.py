"""For looking inside: why operations share a kernel or do not, and which events happened."""

from __future__ import annotations

import dataclasses
from typing import Any

from minijit.api.jit import Jitted, jit
from minijit.backends.registry import backend_of
from minijit.graph.events import count, subscribe
from minijit.graph.jaxpr import JaxprEqn, Var
from minijit.graph.primitive import Kind
from minijit.graph.tree import flatten
from minijit.lowering.demand import Program
from minijit.lowering.partition import Group
from minijit.runtime.pipeline import optimize, plan_partition

__all__ = ["FusionReport", "count", "explain_fusion", "subscribe"]


@dataclasses.dataclass(frozen=True, slots=True)
class FusionReport:
    """How a program is cut into kernels.

    Attributes:
        kernels: For each step, the equations of the values it computes, as text.
        boundaries: For each pair that was not fused, the two lines and the reason.
        operations: Number of array operations, views not counted: eager code runs a kernel each.
    """

    kernels: tuple[tuple[str, ...], ...]
    boundaries: tuple[str, ...]
    operations: int

    def __str__(self) -> str:
        """Return a readable list."""
        lines = [f"{self.operations} operations in {len(self.kernels)} steps"]
        for number, step in enumerate(self.kernels):
            lines += [f"step {number}:", *(f"    {value}" for value in step)]
        return "\n".join([*lines, *(f"not fused: {boundary}" for boundary in self.boundaries)])


def explain_fusion(function: Any, *args: Any, **kwargs: Any) -> FusionReport:
    """Return how ``function`` is fused for these arguments, with the reason of every boundary.

    Args:
        function: A function, jitted or not.
        *args: Its arguments.
        **kwargs: Its arguments by name.
    """
    jitted = function if isinstance(function, Jitted) else jit(function)
    jaxpr = optimize(jitted.lower(*args, **kwargs).jaxpr)
    program = Program(jaxpr)
    parts = plan_partition(jaxpr, backend_of(flatten((args, kwargs))[0]))

    def line(var: Var) -> str:
        eqn = program.definition(var)
        return (
            f"{var.aval} = {eqn.primitive.name}  # {eqn.source}"
            if eqn is not None
            else str(var.aval)
        )

    steps = []
    for step in parts.steps:
        if isinstance(step, Group):
            steps.append(tuple(line(member.var) for member in step.members))
        elif isinstance(step, JaxprEqn):
            steps.append((f"array library: {line(step.outvars[0])}",))
    boundaries = tuple(
        f"{line(r.producer)} | {line(r.consumer)}: {r.reason}" for r in parts.refusals
    )
    operations = sum(eqn.primitive.kind is not Kind.VIEW for eqn in jaxpr.eqns)
    return FusionReport(tuple(steps), boundaries, operations)

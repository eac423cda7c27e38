"""For looking inside: why operations share a kernel or do not, and which events happened."""

from __future__ import annotations

import dataclasses
from typing import Any

from minijit.api.jit import Jitted, jit
from minijit.backends.emulator.report import BufferTraffic, KernelReport, LaunchReport, LibraryStep
from minijit.backends.registry import backend_of
from minijit.graph.events import count, subscribe
from minijit.graph.jaxpr import JaxprEqn, Var
from minijit.graph.primitive import Kind
from minijit.graph.tree import flatten
from minijit.lowering.demand import Program
from minijit.lowering.partition import Group
from minijit.runtime.pipeline import optimize, plan_partition

__all__ = [
    "BufferTraffic",
    "FusionReport",
    "KernelReport",
    "LaunchReport",
    "LibraryStep",
    "count",
    "explain_fusion",
    "kernel_report",
    "subscribe",
]


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


def kernel_report(
    function: Any, *args: Any, compute_capability: tuple[int, int] = (9, 0), **kwargs: Any
) -> KernelReport:
    """Run ``function`` once on an emulated GPU and return what each launch cost.

    It works on any machine and whatever the device is: the program is compiled for CUDA, and its
    PTX is run and counted. Programs that ordinary calls use are neither asked nor kept.

    Args:
        function: A function, jitted or not.
        *args: Its arguments, arrays of NumPy or CuPy.
        compute_capability: Of the GPU, by default that of an H100.
        **kwargs: Its arguments by name.

    Raises:
        TypeError: an argument is a type without values.
        RuntimeError: a kernel does what a GPU forbids; the message says which and where.
    """
    jitted = function if isinstance(function, Jitted) else jit(function)
    return jitted.lower(*args, **kwargs).emulate(
        *args, compute_capability=compute_capability, **kwargs
    )

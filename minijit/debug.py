"""For looking inside: why operations share a kernel or do not, and which events happened."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from textwrap import indent
from typing import Any

from minijit.api.jit import Jitted, jit
from minijit.backends.base import Backend
from minijit.backends.emulator.report import BufferTraffic, KernelReport, LaunchReport, LibraryStep
from minijit.backends.registry import backend_of
from minijit.graph.events import count, subscribe
from minijit.graph.jaxpr import Jaxpr, JaxprEqn, Var
from minijit.graph.loop import LoopParts
from minijit.graph.primitive import Kind
from minijit.graph.tree import flatten
from minijit.lowering.cells import cells_of
from minijit.lowering.demand import Program
from minijit.lowering.partition import Group
from minijit.lowering.products import loop_products
from minijit.lowering.traffic import eager_bytes, fused_bytes
from minijit.ops.print import print_values as print
from minijit.runtime.dataflow import dataflow_graph
from minijit.runtime.pipeline import optimize, plan_partition
from minijit.runtime.tactics import tactics_of
from minijit.transforms.lanes import together

__all__ = [
    "BufferTraffic",
    "FusionReport",
    "KernelReport",
    "LaunchReport",
    "LibraryStep",
    "LoopReport",
    "count",
    "dataflow",
    "explain_fusion",
    "kernel_report",
    "print",
    "subscribe",
]

_STRUCTURED = (Kind.LOOP, Kind.BRANCH)


@dataclasses.dataclass(frozen=True, slots=True)
class LoopReport:
    """How a loop or a branch runs.

    Attributes:
        text: Its name and the user's line.
        how: Where it runs, and why there.
        inner: The loops and branches inside, where it is part of a kernel.
        bodies: What each body is, and how it is cut into kernels, where the host drives it.
    """

    text: str
    how: str
    inner: tuple[LoopReport, ...] = ()
    bodies: tuple[tuple[str, FusionReport], ...] = ()

    def __str__(self) -> str:
        """Return a line for the loop, and indented ones for what is inside."""
        parts = [*map(str, self.inner), *(f"{name}: {body}" for name, body in self.bodies)]
        return "\n".join([f"{self.text}: {self.how}", *(indent(part, "    ") for part in parts)])


@dataclasses.dataclass(frozen=True, slots=True)
class FusionReport:
    """How a program is cut into kernels.

    Attributes:
        kernels: For each step, the equations of the values it computes, as text.
        boundaries: For each pair that was not fused, the two lines and the reason.
        operations: Number of array operations, views not counted: eager code runs a kernel each.
        bytes_eager: What eager code reads and writes, an operation at a time. The steps of a loop
            count as often as they run, once where that is not known; of branches the largest.
        bytes_fused: What the kernels and the array library read and write instead.
        loops: For each loop and branch, how it runs.
    """

    kernels: tuple[tuple[str, ...], ...]
    boundaries: tuple[str, ...]
    operations: int
    bytes_eager: int
    bytes_fused: int
    loops: tuple[LoopReport, ...] = ()

    def __str__(self) -> str:
        """Return a readable list."""
        moved = f"{_size(self.bytes_fused)} moved, {_size(self.bytes_eager)} an operation at a time"
        counted = f"{_count(self.operations, 'operation')} in {_count(len(self.kernels), 'step')}"
        lines = [f"{counted}: {moved}"]
        for number, step in enumerate(self.kernels):
            lines += [f"step {number}:", *(f"    {value}" for value in step)]
        lines += map(str, self.loops)
        return "\n".join([*lines, *(f"not fused: {boundary}" for boundary in self.boundaries)])


def explain_fusion(function: Any, *args: Any, **kwargs: Any) -> FusionReport:
    """Return how ``function`` is fused for these arguments, with the reason of every boundary.

    Args:
        function: A function, jitted or not.
        *args: Its arguments.
        **kwargs: Its arguments by name.
    """
    return _report(*_traced(function, args, kwargs))


def _jitted(function: Any) -> Jitted[..., Any]:
    return function if isinstance(function, Jitted) else jit(function)


def _traced(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Jaxpr, Backend]:
    """Return the program of a call, and the backend that would run it."""
    jaxpr = _jitted(function).lower(*args, **kwargs).jaxpr
    return jaxpr, backend_of(flatten((args, kwargs))[0])


def _report(traced: Jaxpr, backend: Backend) -> FusionReport:
    jaxpr = optimize(traced, backend)
    program = Program(jaxpr)
    parts = plan_partition(jaxpr, backend)

    def line(var: Var) -> str:
        eqn = program.definition(var)
        return (
            f"{var.aval} = {eqn.primitive.name}  # {eqn.source}"
            if eqn is not None
            else str(var.aval)
        )

    steps = []
    alone = set()
    for step in parts.steps:
        if isinstance(step, Group):
            steps.append(tuple(line(member.var) for member in step.members))
        elif isinstance(step, JaxprEqn):
            driven = step.primitive.kind in _STRUCTURED
            runner = "driven by the host" if driven else "array library"
            # A loop that is run for its results may have several, and may have none.
            values = step.outvars if driven else step.outvars[:1]
            steps.append(tuple(f"{runner}: {line(var)}" for var in values))
            alone.add(program.position[step.outvars[0]])
    boundaries = tuple(
        f"{line(r.producer)} | {line(r.consumer)}: {r.reason}" for r in parts.refusals
    )
    reasons = {program.position[eqn.outvars[0]]: reason for eqn, reason in parts.blocked}
    loops = tuple(
        _driven(eqn, reasons, position, backend) if position in alone else _in_kernel(eqn)
        for position, eqn in enumerate(jaxpr.eqns)
        if eqn.primitive.kind in _STRUCTURED
    )
    operations = sum(eqn.primitive.kind is not Kind.VIEW for eqn in jaxpr.eqns)
    moved = fused_bytes(parts, lambda body: plan_partition(optimize(body, backend), backend))
    return FusionReport(tuple(steps), boundaries, operations, eager_bytes(jaxpr), moved, loops)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _size(count: int) -> str:
    """Return a number of bytes as people write it: 999 B, 1.02 kB, 16.8 MB."""
    if count < 1000:
        return f"{count} B"
    power = next(power for power in range(1, 7) if count < 999.5 * 1000**power)
    return f"{count / 1000**power:#.3g}".rstrip(".") + f" {' kMGTPE'[power]}B"


def _driven(
    eqn: JaxprEqn, reasons: Mapping[int, str], position: int, backend: Backend
) -> LoopReport:
    # No kernel is made for arrays without elements, so that none has refused the loop.
    reason = reasons.get(position, "there are arrays without elements")
    eqn = together(eqn)
    bodies = tuple((name, _report(body, backend)) for name, body in _bodies(eqn))
    how = [f"driven by the host: {reason}"]
    if eqn.primitive.kind is Kind.LOOP:
        loop = LoopParts.of(eqn)
        tactics = tactics_of(loop, _launches(loop.body, backend), backend)
        how += [tactics.text] if tactics.text else []
    return LoopReport(_title(eqn), "; ".join(how), bodies=bodies)


def _launches(body: Jaxpr, backend: Backend) -> int | None:
    """Return how many kernels a body launches; None where it does anything else as well."""
    launches = 0
    for step in plan_partition(optimize(body, backend), backend).steps:
        if not isinstance(step, Group):
            return None
        launches += 2 if step.split else 1
    return launches


def _in_kernel(eqn: JaxprEqn) -> LoopReport:
    cells = cells_of(eqn)
    along = "element by element" if cells is None else f"row by row, {cells.columns} values each"
    products = len(loop_products(eqn))
    if products:
        along += f", multiplied by {products} {'matrix' if products == 1 else 'matrices'}"
    how = "a branch in the kernel" if eqn.primitive.kind is Kind.BRANCH else "in kernel"
    inner = tuple(
        _in_kernel(each)
        for _, body in _bodies(eqn)
        for each in body.eqns
        if each.primitive.kind in _STRUCTURED
    )
    return LoopReport(_title(eqn), f"{how}, {along}", inner)


def _bodies(eqn: JaxprEqn) -> list[tuple[str, Jaxpr]]:
    """Return the bodies of a loop or a branch, each with what to call it."""
    if eqn.primitive.kind is Kind.BRANCH:
        return [(f"branch {n}", body) for n, body in enumerate(eqn.params["branches"])]
    named = {"condition": "condition", "body": "each step", "jaxpr": "each step"}
    return [(named[key], eqn.params[key]) for key in named if key in eqn.params]


def _title(eqn: JaxprEqn) -> str:
    return f"{eqn.primitive.name}  # {eqn.source}"


def dataflow(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Return how values flow through ``function`` for these arguments, a ``networkx.MultiDiGraph``.

    A node for each input, operation and result: ``kind``, ``label``; operations have ``source``,
    the user's line, and ``steps``, the numbers of the kernels and library calls that compute them
    (none for a view, several where it is computed again). An edge for each use of a value: its
    ``type``, its ``bytes``, and ``stored``, whether it goes through memory.

    Args:
        function: A function, jitted or not.
        *args: Its arguments.
        **kwargs: Its arguments by name.
    """
    return dataflow_graph(*_traced(function, args, kwargs))


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
    return (
        _jitted(function)
        .lower(*args, **kwargs)
        .emulate(*args, compute_capability=compute_capability, **kwargs)
    )

"""From compiled kernels to steps: every value gets a slot, every step its slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minijit.backends.base import Backend, Launcher
from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var
from minijit.graph.layout import Layout, contiguous_strides
from minijit.graph.loop import LoopParts
from minijit.graph.primitive import Kind
from minijit.lowering.groups import Partition
from minijit.lowering.kernel_ir import Role
from minijit.lowering.lower import Lowered
from minijit.lowering.source import KernelSource
from minijit.runtime.captured import Captured
from minijit.runtime.host_loop import BranchStep, LoopStep
from minijit.runtime.link import Linker
from minijit.runtime.plan import Plan
from minijit.runtime.steps import KernelStep, Operands, Slot, Step
from minijit.runtime.tactics import tactics_of

__all__ = ["Assembler"]

CompileBody = Callable[[Jaxpr, Sequence[Layout], Backend], Plan]


class Assembler:
    """Makes the plan of one program."""

    def __init__(
        self,
        backend: Backend,
        jaxpr: Jaxpr,
        parts: Partition,
        layouts: Mapping[Var, Layout],
        compile_body: CompileBody,
    ) -> None:
        """Number the inputs.

        Args:
            backend: The target.
            jaxpr: The program.
            parts: How it was cut into steps.
            layouts: How inputs and constants lie in memory.
            compile_body: Compiles the bodies of the loops that the host drives.
        """
        self.backend = backend
        self.linker = Linker(backend)
        self.jaxpr = jaxpr
        self.parts = parts
        self.layouts = layouts
        self.compile_body = compile_body
        self.slots: dict[Var, Slot] = {}
        for var in (*jaxpr.invars, *jaxpr.constvars):
            self.slot(var)

    def slot(self, var: Var) -> Slot:
        """Return the slot of a value."""
        if var not in self.slots:
            self.slots[var] = len(self.slots)
            self.linker.avals.append(var.aval)
        return self.slots[var]

    def plan(
        self,
        compiled: Sequence[Sequence[tuple[Lowered, KernelSource, Launcher]]],
        consts: tuple[Any, ...],
        captured: Captured,
        check_nans: bool,
    ) -> Plan:
        """Return the plan.

        Args:
            compiled: The kernels of each step.
            consts: Values of the program's constants.
            captured: What must not have changed when the plan runs.
            check_nans: Whether a NaN among the results is an error.
        """
        jaxpr = self.jaxpr
        steps: list[Step] = []
        for step, kernels in zip(self.parts.steps, compiled, strict=True):
            if isinstance(step, JaxprEqn):
                steps.append(self._library_step(step))
            steps += [self._kernel_step(*kernel) for kernel in kernels]
        results = tuple(self.slot(var) for var in jaxpr.outvars if isinstance(var, Var))
        layouts = [self.layouts[var] for var in jaxpr.invars]
        return self.linker.plan(jaxpr.name, steps, layouts, consts, captured, results, check_nans)

    def _kernel_step(
        self, lowered: Lowered, source: KernelSource, launcher: Launcher
    ) -> KernelStep:
        slots = [self.slot(var) for var in lowered.buffers]
        roles = [buffer.role for buffer in lowered.kernel.buffers]
        pairs = list(zip(slots, roles, strict=True))
        return self.linker.kernel(
            lowered.kernel.name,
            lambda: source,
            len(source.text),
            launcher,
            tuple(slot for slot, role in pairs if role is Role.INPUT),
            tuple(slot for slot, role in pairs if role is Role.OUTPUT),
            tuple(self.slot(var) for var in lowered.arguments),
        )

    def _library_step(self, eqn: JaxprEqn) -> Step:
        """Return the step of an equation that no kernel holds."""
        operands = tuple(a.value if isinstance(a, Literal) else self.slot(a) for a in eqn.invars)
        outputs = tuple(self.slot(var) for var in eqn.outvars)
        if eqn.primitive.kind is Kind.LOOP:
            return self._loop_step(eqn, operands, outputs)
        if eqn.primitive.kind is Kind.BRANCH:
            layouts = [self._layout(atom) for atom in eqn.invars[1:]]
            compiled = (self.compile_body(b, layouts, self.backend) for b in eqn.params["branches"])
            return BranchStep(operands, outputs, self._loose(eqn), tuple(compiled))
        stored = all(var in self.parts.stored for var in eqn.outvars)
        return self.linker.library(eqn.primitive, dict(eqn.params), operands, outputs, stored)

    def _loop_step(self, eqn: JaxprEqn, operands: Operands, outputs: tuple[Slot, ...]) -> LoopStep:
        parts = LoopParts.of(eqn)
        asked, fixed, count = len(parts.asked), len(parts.fixed), parts.carries
        carried = [_contiguous(var.aval) for var in eqn.outvars[:count]]
        layouts = [self._layout(atom) for atom in eqn.invars]
        rows = [Layout(layout.strides[1:]) for layout in layouts[asked + fixed + count :]]
        constants = layouts[asked : asked + fixed]
        steps = range(parts.length or 0)
        body = self.compile_body(parts.body, [*constants, *carried, *rows], self.backend)
        only_kernels = all(isinstance(step, KernelStep) for step in body.steps)
        tactics = tactics_of(parts, len(body.steps) if only_kernels else None, self.backend)
        condition = None
        if parts.condition is not None:
            known = [*layouts[:asked], *carried]
            condition = self.compile_body(parts.condition, known, self.backend)
        return LoopStep.linked(
            self.linker,
            operands,
            outputs,
            self._loose(eqn),
            (asked, fixed),
            count,
            body,
            condition,
            steps[::-1] if parts.reverse else steps,
            tactics,
        )

    def _layout(self, atom: Atom) -> Layout:
        """Return how an operand of a host-driven step lies in memory when the step has it."""
        if isinstance(atom, Literal):
            return Layout((), by_value=True)
        known = self.layouts.get(atom)
        return _contiguous(atom.aval) if known is None else known

    def _loose(self, eqn: JaxprEqn) -> frozenset[int]:
        """Return the operands that the array library left in strides of its own."""
        return frozenset(
            place
            for place, atom in enumerate(eqn.invars)
            if isinstance(atom, Var) and atom not in self.layouts and atom not in self.parts.stored
        )


def _contiguous(aval: ShapedArray) -> Layout:
    pairs = zip(contiguous_strides(aval.shape), aval.shape, strict=True)
    return Layout(tuple(stride if extent != 1 else 0 for stride, extent in pairs))

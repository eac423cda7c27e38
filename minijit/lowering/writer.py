"""A kernel from what it computes: its statements, loops and branches among them, its buffers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from minijit.graph.index import Affine
from minijit.graph.jaxpr import Jaxpr, JaxprEqn, Var
from minijit.graph.layout import contiguous_strides
from minijit.graph.primitive import Kind
from minijit.lowering.demand import Demand, Program, Request
from minijit.lowering.follow import BranchUse, LoopUse, branch_uses, loop_uses
from minijit.lowering.kernel_ir import (
    Block,
    Branch,
    Buffer,
    Kernel,
    Level,
    Loop,
    Operand,
    Role,
    Store,
    Value,
)
from minijit.lowering.statement_writer import StatementWriter, flat

__all__ = ["KernelWriter", "Lowered"]


@dataclasses.dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel with the values that its buffers and arguments stand for, in order."""

    kernel: Kernel
    buffers: tuple[Var, ...]
    arguments: tuple[Var, ...]


class KernelWriter(StatementWriter):
    """Writes one kernel."""

    def write(self, program: Program, demand: Demand, outputs: list[Request], name: str) -> Lowered:
        """Return the kernel that computes ``demand`` and stores ``outputs``."""
        for request in demand.loaded:
            self.declare(request.var)
        written = {
            request.var: Buffer(
                f"out{n}", request.var.aval.dtype, Role.OUTPUT, True, request.var.aval.size
            )
            for n, request in enumerate(outputs)
        }
        self.stores = {var: len(self.inputs) + n for n, var in enumerate(written)}
        self._write(program, demand)
        for request in outputs:
            # What a loop collects it has stored itself.
            if request in self.values:
                self._store(request.var, request.index, self.values[request])
        extents = self.space.extents
        kernel = Kernel(
            name,
            extents[: self.rows],
            extents[self.rows :],
            (*self.inputs.values(), *written.values()),
            tuple(self.arguments.values()),
            tuple(self.scopes.outermost.body),
            steps=tuple(self.space.steps.lengths),
        )
        scalars = tuple(var for var, _ in self.arguments)
        return Lowered(kernel, (*self.inputs, *written), scalars)

    def _store(self, var: Var, index: tuple[Affine, ...], value: Operand) -> None:
        place = flat(index, contiguous_strides(var.aval.shape))
        own = value.level if isinstance(value, Value) else Level.LAUNCH
        level = max(self.level(place), own)
        self.scopes.put_here(Store(self.stores[var], place, value, level))

    def _write(self, program: Program, demand: Demand) -> None:
        """Write what ``demand`` computes, in order."""
        done: set[JaxprEqn] = set()
        for request in demand.computed:
            eqn = program.definition(request.var)
            assert eqn is not None
            self.sources[request.var] = eqn
            if eqn.primitive.kind not in (Kind.LOOP, Kind.BRANCH):
                self.values[request] = self.compute(eqn, request)
            elif eqn not in done:
                done.add(eqn)
                own = [r for r in demand.computed if r.var in eqn.outvars]
                if eqn.primitive.kind is Kind.LOOP:
                    for loop in loop_uses(eqn, own, self.space):
                        self._loop(loop)
                else:
                    for branch in branch_uses(eqn, own, self.space):
                        self._branch(branch)

    def _loop(self, use: LoopUse) -> None:
        """Write a loop; its results are the last carries."""
        eqn, parts, body = use.eqn, use.parts, use.parts.body
        inits = tuple(self.operand(parts.inits[n], at, ()) for n, at in use.carries.items())
        carries = tuple(self._result(eqn.outvars[n], at) for n, at in use.carries.items())
        condition = None
        asked = parts.condition
        if asked is not None and use.condition is not None:
            self._bind(use, asked, len(parts.asked), carries)
            self.scopes.open_loop(use.dim, carries)
            self._write(Program(asked), use.condition)
            condition = self._close(asked, (self.operand(asked.outvars[0], use.lane, ()),))
        self._bind(use, body, len(parts.fixed), carries)
        self.scopes.open_loop(use.dim, carries)
        self._write(Program(body), use.body)
        for n, at in use.streams.items():
            value = self.operand(body.outvars[n], at, ())
            self._store(eqn.outvars[n], (use.step, *at), value)
        results = tuple(self.operand(body.outvars[n], at, ()) for n, at in use.carries.items())
        block = self._close(body, results)
        outs = tuple(self._result(eqn.outvars[n], at) for n, at in use.carries.items())
        line = str(eqn.source)
        loop = Loop(outs, inits, carries, block, use.dim, parts.length, condition, line)
        self.scopes.put_here(loop)
        for (n, at), out in zip(use.carries.items(), outs, strict=True):
            self.values[Request(eqn.outvars[n], at)] = out

    def _result(self, var: Var, index: tuple[Affine, ...]) -> Value:
        level = max(map(self.level, index), default=Level.LAUNCH)
        return self.value(var.aval.dtype, level)

    def _bind(self, use: LoopUse, body: Jaxpr, consts: int, carries: Sequence[Value]) -> None:
        self.bindings.update(use.bindings)
        for n, carry in zip(use.carries, carries, strict=True):
            self.bindings[body.invars[consts + n]] = carry

    def _branch(self, use: BranchUse) -> None:
        """Write a branch."""
        eqn = use.eqn
        index = self.operand(eqn.invars[0], (), ())
        blocks = []
        for jaxpr, demand in zip(eqn.params["branches"], use.bodies, strict=True):
            operands = zip(jaxpr.invars, eqn.invars[1:], strict=True)
            self.bindings.update((var, (atom, ())) for var, atom in operands)
            self.scopes.open_block()
            self._write(Program(jaxpr), demand)
            results = tuple(
                self.operand(jaxpr.outvars[n], at, use.conditions) for n, at in use.results.items()
            )
            blocks.append(self._close(jaxpr, results))
        outs = tuple(self._result(eqn.outvars[n], at) for n, at in use.results.items())
        self.scopes.put_here(Branch(outs, index, tuple(blocks), str(eqn.source)))
        for (n, at), out in zip(use.results.items(), outs, strict=True):
            self.values[Request(eqn.outvars[n], at, use.conditions)] = out

    def _close(self, jaxpr: Jaxpr, results: tuple[Operand, ...]) -> Block:
        """Close the scope of a body; what is known in it alone is forgotten."""
        scope = self.scopes.close()
        own = {var for eqn in jaxpr.eqns for var in eqn.outvars}
        for var in jaxpr.invars:
            self.bindings.pop(var, None)

        def lasts(value: Operand) -> bool:
            return not isinstance(value, Value) or self.scopes.home(value) is not scope

        self.values = {
            request: value
            for request, value in self.values.items()
            if request.var not in own and lasts(value)
        }
        self.guards = {key: value for key, value in self.guards.items() if lasts(value)}
        return Block(tuple(scope.body), results)

"""Puts device functions into the kernel that calls them: one list of instructions is left.

A call passes its arguments in variables, so callee and caller share those; registers, labels and
local variables of every call get names of their own. Where a function would come to lie in itself
there is a trap instead, whose modifier says what a thread that gets there has done.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from minijit.backends.emulator.errors import EmulationError, UnknownInstructionError
from minijit.backends.emulator.ptx import (
    WIDTHS,
    Address,
    Function,
    Instruction,
    Label,
    Module,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
    Vector,
)

__all__ = ["GRID_BARRIER", "SYSTEM_CALLS", "Flat", "flatten"]

GRID_BARRIER = "cudaCGSynchronize"
SYSTEM_CALLS = {
    "vprintf": 3, "malloc": 2, "free": 1, "__assertfail": 5,
    "cudaCGGetIntrinsicHandle": 2, GRID_BARRIER: 3,
}  # fmt: skip
"""Functions that no text defines, with the number of their results and arguments."""


@dataclasses.dataclass(frozen=True, slots=True)
class Flat:
    """A kernel without calls.

    Attributes:
        name: Of the entry.
        params: What a launch passes.
        registers: Bits of each register.
        variables: Every variable that code names, of the module and of functions.
        body: Instructions and labels.
        depths: For each element of ``body``, in how many calls it lies.
    """

    name: str
    params: tuple[Variable, ...]
    registers: Mapping[str, int]
    variables: tuple[Variable, ...]
    body: tuple[Instruction | Label, ...]
    depths: tuple[int, ...]


def flatten(module: Module, entry: str) -> Flat:
    """Return kernel ``entry`` with its calls replaced by what they call.

    Raises:
        EmulationError: there is no such kernel.
        UnknownInstructionError: a function has no body, or is called through a pointer.
    """
    kernel = next((f for f in module.functions if f.name == entry), None)
    if kernel is None:
        raise EmulationError(f"the PTX has no function {entry}")
    inliner = _Inliner(module)
    inliner.function(kernel, {}, 0, None)
    return Flat(
        entry, kernel.params, inliner.registers, (*module.variables, *inliner.variables),
        tuple(inliner.body), tuple(inliner.depths),
    )  # fmt: skip


class _Inliner:
    def __init__(self, module: Module) -> None:
        self.functions = {function.name: function for function in module.functions}
        self.registers: dict[str, int] = {}
        self.variables: list[Variable] = []
        self.body: list[Instruction | Label] = []
        self.depths: list[int] = []
        self.calls = self.places = 0
        self.taken = _taken(module)
        self.open: list[str] = []

    def function(
        self, function: Function, bound: Mapping[str, str], depth: int, end: str | None
    ) -> None:
        """Append a function; ``bound`` names its parameters, ``end`` is where it returns to."""
        self.open.append(function.name)
        suffix = f"#{self.calls}" if depth else ""
        names = dict(bound)
        for prefix, count, kind in function.registers:
            for name in [prefix] if count < 0 else [f"{prefix}{n}" for n in range(count)]:
                names[name] = name + suffix
                self.registers[name + suffix] = WIDTHS[kind]
        for variable in function.variables:
            names[variable.name] = variable.name + suffix
            self.variables.append(dataclasses.replace(variable, name=variable.name + suffix))
        for item in function.body:
            if isinstance(item, Label):
                names[item.name] = item.name + suffix
        for item in function.body:
            if isinstance(item, Label):
                self._append(Label(names[item.name]), depth)
            elif item.name == "call":
                self._call(item, names, depth)
            elif item.name == "ret" and end is not None:
                guard = _renamed(item.guard, names) if item.guard else None
                assert guard is None or isinstance(guard, Register)
                jump = dataclasses.replace(
                    item, name="bra", modifiers=(), guard=guard, operands=(Symbol(end),)
                )
                self._append(jump, depth)
            else:
                self._append(_instruction(item, names), depth)
        self.open.pop()

    def _append(self, item: Instruction | Label, depth: int) -> None:
        self.body.append(item)
        self.depths.append(depth)

    def _call(self, call: Instruction, names: Mapping[str, str], depth: int) -> None:
        operands = list(call.operands)
        results: tuple[Operand, ...] = ()
        if isinstance(operands[0], Vector):
            results = operands.pop(0).parts  # type: ignore[union-attr]
        target = operands.pop(0)
        arguments: tuple[Operand, ...] = ()
        if operands and isinstance(operands[0], Vector):
            arguments = operands[0].parts
        if call.guard is not None:
            raise UnknownInstructionError(f"a predicated call at PTX line {call.line}")
        if isinstance(target, Register):
            self._indirect(call, target, results, arguments, names, depth)
            return
        if isinstance(target, Symbol) and target.name in SYSTEM_CALLS:
            self._system_call(call, target.name, (*results, *arguments), names, depth)
            return
        callee = self.functions.get(target.name) if isinstance(target, Symbol) else None
        if callee is None:
            name = target.name if isinstance(target, Symbol) else str(target)
            raise UnknownInstructionError(
                f"call of {name}, which has no body, at PTX line {call.line}"
            )
        self._enter(call, callee, results, arguments, names, depth)

    def _enter(
        self,
        call: Instruction,
        callee: Function,
        results: tuple[Operand, ...],
        arguments: tuple[Operand, ...],
        names: Mapping[str, str],
        depth: int,
    ) -> None:
        if callee.name in self.open:
            way = " -> ".join([*self.open[self.open.index(callee.name) :], callee.name])
            self._trap(call, f"recursion, which is not emulated: {way}", depth)
            return
        self.calls += 1
        end = f"$end#{self.calls}"
        formal = (*callee.results, *callee.params)
        bound = {}
        for variable, actual in zip(formal, (*results, *arguments), strict=True):
            assert isinstance(actual, Symbol)
            bound[variable.name] = names[actual.name]
        self.function(callee, bound, depth + 1, end)
        self._append(Label(end), depth)

    def _indirect(
        self,
        call: Instruction,
        target: Register,
        results: tuple[Operand, ...],
        arguments: tuple[Operand, ...],
        names: Mapping[str, str],
        depth: int,
    ) -> None:
        """Compare the address with those of all functions that may be meant."""
        shape = (len(results), len(arguments))
        self.places += 1
        end = f"$called@{self.places}"
        for name in self.taken:
            callee = self.functions[name]
            if (len(callee.results), len(callee.params)) != shape:
                continue
            self.places += 1
            chosen, other = f"%chosen@{self.places}", f"$other@{self.places}"
            self.registers[chosen] = 1
            operands = (Register(chosen), _renamed(target, names), Symbol(name))
            self._new(call, "setp.eq.u64", operands, None, depth)
            self._new(call, "bra", (Symbol(other),), Register(chosen, negated=True), depth)
            self._enter(call, callee, results, arguments, names, depth)
            self._new(call, "bra", (Symbol(end),), None, depth)
            self._append(Label(other), depth)
        takes = f"{len(arguments)} arguments and has {len(results)} results"
        self._trap(call, f"the pointer leads to no function that takes {takes}", depth)
        self._append(Label(end), depth)

    def _trap(self, call: Instruction, reason: str, depth: int) -> None:
        self._append(Instruction("trap", (reason,), None, (), call.line, call.source), depth)

    def _new(
        self,
        call: Instruction,
        opcode: str,
        operands: tuple[Operand, ...],
        guard: Register | None,
        depth: int,
    ) -> None:
        name, *modifiers = opcode.split(".")
        made = Instruction(name, tuple(modifiers), guard, operands, call.line, call.source)
        self._append(made, depth)

    def _system_call(
        self,
        call: Instruction,
        name: str,
        operands: tuple[Operand, ...],
        names: Mapping[str, str],
        depth: int,
    ) -> None:
        """Keep a call of what the driver provides: its name is the modifier."""
        if len(operands) != SYSTEM_CALLS[name]:
            raise UnknownInstructionError(f"a call of {name} at PTX line {call.line}")
        kept = dataclasses.replace(call, modifiers=(name,), operands=operands)
        self._append(_instruction(kept, names), depth)


def _taken(module: Module) -> tuple[str, ...]:
    """Return the functions whose addresses the code or the variables hold."""
    found = {symbol.name for v in module.variables for _, symbol in v.addresses}
    for function in module.functions:
        for item in function.body:
            if isinstance(item, Instruction) and item.name in ("mov", "st"):
                found |= {o.name for o in item.operands if isinstance(o, Symbol)}
    return tuple(sorted(found & {function.name for function in module.functions}))


def _instruction(item: Instruction, names: Mapping[str, str]) -> Instruction:
    # Written out: dataclasses.replace takes several times as long, and there are many.
    guard = _renamed(item.guard, names) if item.guard else None
    assert guard is None or isinstance(guard, Register)
    operands = tuple([_renamed(operand, names) for operand in item.operands])
    return Instruction(item.name, item.modifiers, guard, operands, item.line, item.source)


def _renamed(operand: Operand, names: Mapping[str, str]) -> Operand:
    if isinstance(operand, Register):
        name = names.get(operand.name)
        return operand if name is None else Register(name, operand.negated)
    if isinstance(operand, Symbol):
        name = names.get(operand.name)
        return operand if name is None else Symbol(name, operand.offset)
    if isinstance(operand, Address):
        base = _renamed(operand.base, names)
        assert not isinstance(base, Address | Vector | Pair)
        return Address(base, operand.offset)
    if isinstance(operand, Vector):
        return Vector(tuple(_renamed(part, names) for part in operand.parts))
    if isinstance(operand, Pair):
        first, second = _renamed(operand.first, names), _renamed(operand.second, names)
        assert isinstance(first, Register)
        assert isinstance(second, Register)
        return Pair(first, second)
    return operand

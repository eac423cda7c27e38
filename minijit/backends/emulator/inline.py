"""Puts device functions into the kernel that calls them: one list of instructions is left.

A call passes its arguments in variables, so callee and caller share those; registers, labels and
local variables of every call get names of their own.
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

__all__ = ["Flat", "flatten"]

_DEEPEST = 64


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
        EmulationError: there is no such kernel, or functions call themselves.
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
        self.calls = 0

    def function(
        self, function: Function, bound: Mapping[str, str], depth: int, end: str | None
    ) -> None:
        """Append a function; ``bound`` names its parameters, ``end`` is where it returns to."""
        if depth > _DEEPEST:
            raise EmulationError(f"{function.name} calls itself; recursion is not emulated")
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
        callee = self.functions.get(target.name) if isinstance(target, Symbol) else None
        if callee is None:
            name = target.name if isinstance(target, Symbol | Register) else str(target)
            raise UnknownInstructionError(
                f"call of {name}, which has no body, at PTX line {call.line}"
            )
        if call.guard is not None:
            raise UnknownInstructionError(f"a predicated call at PTX line {call.line}")
        self.calls += 1
        end = f"$end#{self.calls}"
        formal = (*callee.results, *callee.params)
        bound = {}
        for variable, actual in zip(formal, (*results, *arguments), strict=True):
            assert isinstance(actual, Symbol)
            bound[variable.name] = names[actual.name]
        self.function(callee, bound, depth + 1, end)
        self._append(Label(end), depth)


def _instruction(item: Instruction, names: Mapping[str, str]) -> Instruction:
    guard = _renamed(item.guard, names) if item.guard else None
    assert guard is None or isinstance(guard, Register)
    operands = tuple(_renamed(operand, names) for operand in item.operands)
    return dataclasses.replace(item, guard=guard, operands=operands)


def _renamed(operand: Operand, names: Mapping[str, str]) -> Operand:
    if isinstance(operand, Register | Symbol):
        return dataclasses.replace(operand, name=names.get(operand.name, operand.name))
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

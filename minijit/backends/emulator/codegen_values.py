"""Operands as code: registers with the type they are held in, constants, conversions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from minijit.backends.emulator.blocks import CARRY, Block
from minijit.backends.emulator.errors import UnknownInstructionError
from minijit.backends.emulator.layout import Layout
from minijit.backends.emulator.operation import NUMPY, RAW, unknown
from minijit.backends.emulator.ptx import WIDTHS, Immediate, Instruction, Operand, Register, Symbol

__all__ = ["ValueWriter"]


class ValueWriter:
    """Collects the lines of one function, and the objects that they name."""

    def __init__(
        self, block: Block, registers: Mapping[str, int], layout: Layout, params: frozenset[str]
    ) -> None:
        self.block, self.registers, self.layout, self.params = block, registers, layout, params
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"where": np.where}
        self.constants: dict[tuple[int, str], str] = {}
        self.variables: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self.current: Instruction | None = None

    def line(self, code: str) -> None:
        """Add a line."""
        self.lines.append(f"    {code}")

    def variable(self, name: str) -> str:
        """Return the variable of a register."""
        return self.variables.setdefault(name, f"v{len(self.variables)}")

    def bits(self, name: str) -> int:
        """Return the width of a register; special ones have 32 bits, clocks 64."""
        if name in self.registers:
            return self.registers[name]
        if name == CARRY.name:
            return 1
        if "64" in name or name == "%globaltimer":
            return 64
        return 32

    def raw(self, name: str) -> str:
        """Return the type of the bits of a register."""
        bits = self.bits(name)
        return "pred" if bits == 1 else f"b{bits}"

    def keep(self, value: Any, hint: str) -> str:
        """Return a name for an object that the function uses."""
        name = f"{hint}{len(self.names)}"
        self.names[name] = value
        return name

    def kind(self, kind: str) -> str:
        """Return a name for the NumPy type of a PTX type."""
        self.names[f"t_{kind}"] = np.dtype(NUMPY[kind])
        return f"t_{kind}"

    def value(self, operand: Operand, kind: str) -> str:
        """Return code of an operand as an array of PTX type ``kind``."""
        if isinstance(operand, Immediate):
            return self.constant(operand, kind)
        if isinstance(operand, Symbol):
            return self.constant(Immediate(self.address_of(operand)), kind)
        if not isinstance(operand, Register):
            raise self.unknown()
        code = self.variable(operand.name)
        have = self.types.get(operand.name, self.raw(operand.name))
        code = self.converted(code, have, kind)
        return f"~{code}" if operand.negated else code

    def converted(self, code: str, have: str, want: str) -> str:
        """Return ``code`` of type ``have`` as one of type ``want``, if narrower its low bits."""
        if NUMPY[have] is NUMPY[want]:
            return code
        if WIDTHS[have] == WIDTHS[want]:
            return f"{code}.view({self.kind(want)})"
        if WIDTHS[have] < WIDTHS[want] or "pred" in (have, want):
            raise self.unknown()
        raw = f"b{WIDTHS[have]}"
        if NUMPY[have] is not NUMPY[raw]:
            code = f"{code}.view({self.kind(raw)})"
        narrow = f"b{WIDTHS[want]}"
        code = f"{code}.astype({self.kind(narrow)})"
        return code if NUMPY[narrow] is NUMPY[want] else f"{code}.view({self.kind(want)})"

    def unknown(self) -> UnknownInstructionError:
        """Return the error for the current instruction."""
        assert self.current is not None
        return unknown(self.current)

    def address_of(self, symbol: Symbol) -> int:
        """Return the address of a variable in its space."""
        if symbol.name not in self.layout.addresses:
            raise self.unknown()
        return self.layout.addresses[symbol.name] + symbol.offset

    def constant(self, number: Immediate, kind: str) -> str:
        """Return a name for a number as an array of length 1."""
        bits = number.value
        if number.float_bits == 64 and kind == "f32":
            double = np.array([bits], np.uint64).view(np.float64)
            bits = int(double.astype(np.float32).view(np.uint32)[0])
        elif kind[0] == "f" and not number.float_bits and kind != "f16":
            value = np.array([float(bits)], NUMPY[kind])
            bits = int(value.view(RAW[WIDTHS[kind]])[0])
        key = (bits, kind)
        if key not in self.constants:
            width = WIDTHS[kind]
            array = np.array([bits & ((1 << width) - 1)], np.uint64).astype(RAW[width])
            array = array.view(NUMPY[kind])
            array.flags.writeable = False
            self.constants[key] = self.keep(array, "c")
        return self.constants[key]

    def assign(self, register: Register, code: str, kind: str) -> None:
        """Write ``register = code`` where ``code`` has type ``kind``, under the guard if any."""
        if register.name == "_":
            return
        assert self.current is not None
        width, have = self.bits(register.name), WIDTHS[kind]
        if have != width:
            if have > width or kind == "pred":
                raise self.unknown()
            # A wider register is filled with the sign of signed numbers.
            raw, wide = (
                kind if kind[0] == "s" else f"b{have}",
                f"{'s' if kind[0] == 's' else 'b'}{width}",
            )
            code = f"{self.converted(code, kind, raw)}.astype({self.kind(wide)})"
            kind = wide
        name = self.variable(register.name)
        guard = self.current.guard
        if guard is not None:
            raw = self.raw(register.name)
            old = self.value(Register(register.name), raw)
            new = self.converted(f"({code})", kind, raw)
            code, kind = f"where({self.value(guard, 'pred')}, {new}, {old})", raw
        self.line(f"{name} = {code}")
        self.types[register.name] = kind

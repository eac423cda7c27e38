"""What a PTX module says, as frozen records; the names follow NVIDIA's PTX ISA manual."""

from __future__ import annotations

import dataclasses

__all__ = [
    "WIDTHS",
    "Address",
    "Function",
    "Immediate",
    "Instruction",
    "Label",
    "Module",
    "Operand",
    "Pair",
    "Register",
    "Symbol",
    "Variable",
    "Vector",
]

WIDTHS = {"pred": 1, "b8": 8, "b16": 16, "b32": 32, "b64": 64, "b128": 128}
WIDTHS |= {f"{kind}{bits}": bits for kind in "suf" for bits in (8, 16, 32, 64)}
WIDTHS |= {"f16x2": 32, "bf16": 16, "bf16x2": 32, "tf32": 32, "u16x2": 32, "s16x2": 32}
WIDTHS |= {"e4m3x2": 16, "e5m2x2": 16}
"""Bits of each type."""


@dataclasses.dataclass(frozen=True, slots=True)
class Register:
    """A register of the program (``%r1``), a special one (``%tid.x``), or the sink ``_``."""

    name: str
    negated: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Immediate:
    """A number; ``bits`` of a float literal are kept with their width, 32 or 64."""

    value: int
    float_bits: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, the name of a function, or a label."""

    name: str
    offset: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """``[base+offset]``."""

    base: Register | Symbol | Immediate
    offset: int


@dataclasses.dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b}``, or the parenthesised list of a call."""

    parts: tuple[Operand, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """``d|p``: two results."""

    first: Register
    second: Register


Operand = Register | Immediate | Symbol | Address | Vector | Pair


@dataclasses.dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        name: The part before the first dot.
        modifiers: The other parts, types included.
        guard: The predicate that switches it on, negated or not.
        operands: As written: results first.
        line: Line of the PTX text, from 1.
        source: File and line of the Python source, where the text says so.
    """

    name: str
    modifiers: tuple[str, ...]
    guard: Register | None
    operands: tuple[Operand, ...]
    line: int
    source: tuple[str, int] | None = None

    @property
    def opcode(self) -> str:
        """The whole name with its modifiers."""
        return ".".join((self.name, *self.modifiers))

    @property
    def type(self) -> str:
        """The last modifier that is a type."""
        return next((m for m in reversed(self.modifiers) if m in WIDTHS), "")


@dataclasses.dataclass(frozen=True, slots=True)
class Label:
    """A place to which branches go."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable.

    Attributes:
        space: ``param``, ``shared``, ``local``, ``const`` or ``global``.
        size: Bytes; 0 where the launch says how many.
        initial: Contents, empty if there are none.
        addresses: Offsets in ``initial`` at which the address of a symbol stands.
    """

    space: str
    name: str
    align: int
    size: int
    initial: bytes = b""
    addresses: tuple[tuple[int, Symbol], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A kernel (``entry``) or a device function."""

    name: str
    entry: bool
    results: tuple[Variable, ...]
    params: tuple[Variable, ...]
    registers: tuple[tuple[str, int, str], ...]
    """Prefix, count (-1: one register of just that name), and type."""
    variables: tuple[Variable, ...]
    body: tuple[Instruction | Label, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Module:
    """A PTX text."""

    text: str
    target: int
    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]

    def function(self, name: str) -> Function:
        """Return the function of that name; ``KeyError`` if there is none."""
        for function in self.functions:
            if function.name == name:
                return function
        raise KeyError(name)

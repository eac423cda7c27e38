"""What an instruction computes: a function over typed arrays, with the types of its operands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from minijit.backends.emulator.errors import UnknownInstructionError
from minijit.backends.emulator.ptx import Instruction

__all__ = [
    "FACTORIES",
    "NUMPY",
    "RAW",
    "Array",
    "Operation",
    "factory",
    "flags_and_types",
    "float_type",
    "operation",
    "unknown",
]

Array = npt.NDArray[Any]

RAW: dict[int, Any] = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
"""How a register of so many bits is kept."""

NUMPY: dict[str, Any] = {"pred": np.bool_, "f16": np.float16, "f32": np.float32, "f64": np.float64}
NUMPY |= {f"b{n}": RAW[n] for n in (8, 16, 32, 64)} | {f"u{n}": RAW[n] for n in (8, 16, 32, 64)}
NUMPY |= {"s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64}
NUMPY |= {"f16x2": np.uint32, "bf16": np.uint16, "bf16x2": np.uint32, "tf32": np.uint32}
NUMPY |= {"e4m3x2": np.uint16, "e5m2x2": np.uint16}
"""As what an operand of a type is computed; bfloat16 and pairs are raw bits."""


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """What one instruction computes.

    Attributes:
        compute: Takes arrays of the types ``sources`` and returns one of type ``results[0]``, or a
            tuple with an array for each result. Arrays are of one length, or of length 1.
        sources: PTX types of the operands.
        results: PTX types of the results.
    """

    compute: Callable[..., Any]
    sources: tuple[str, ...]
    results: tuple[str, ...]


Factory = Callable[[Instruction], Operation]
FACTORIES: dict[str, Factory] = {}
"""By the name of an instruction: what makes its operation."""


def factory(*names: str) -> Callable[[Factory], Factory]:
    """Register what makes the operations of instructions ``names``."""

    def register(function: Factory) -> Factory:
        for name in names:
            FACTORIES[name] = function
        return function

    return register


def unknown(instruction: Instruction) -> UnknownInstructionError:
    """Return the error for an instruction that there is no operation for."""
    return UnknownInstructionError(f"unknown instruction {instruction.opcode}")


def flags_and_types(
    instruction: Instruction, allowed: Iterable[str] = ()
) -> tuple[frozenset[str], tuple[str, ...]]:
    """Split the modifiers into flags and types.

    Raises:
        UnknownInstructionError: a modifier is neither a type nor in ``allowed``.
    """
    types = tuple(m for m in instruction.modifiers if m in NUMPY)
    flags = frozenset(m for m in instruction.modifiers if m not in NUMPY)
    if not flags <= set(allowed) or not types:
        raise unknown(instruction)
    return flags, types


def float_type(kind: str) -> bool:
    """Whether ``kind`` is computed as a NumPy float."""
    return kind in ("f16", "f32", "f64")


def operation(instruction: Instruction) -> Operation:
    """Return what ``instruction`` computes.

    Raises:
        UnknownInstructionError: the emulator does not know.
    """
    # An add that sets the carry is made as one that takes it in as well.
    carries = "cc" in instruction.modifiers and not instruction.name.endswith("c")
    make = FACTORIES.get(f"{instruction.name}c" if carries else instruction.name)
    if make is None:
        raise unknown(instruction)
    return make(instruction)

"""Arithmetic in bfloat16, and in pairs of 16-bit floats that share a register."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minijit.backends.emulator.operation import FACTORIES, Array, Operation, unknown
from minijit.backends.emulator.ptx import Instruction

__all__ = ["from_bfloat", "packed_operation", "to_bfloat"]

_NAN = np.uint16(0x7FFF)


def from_bfloat(bits: Array) -> Array:
    """The float32 of bfloat16 bits."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bfloat(value: Array, mode: str = "rn") -> Array:
    """The bits of bfloat16 nearest to float32, ties to even; or rounded towards zero."""
    bits = np.ascontiguousarray(value).view(np.uint32)
    if mode == "rn":
        bits = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return np.where(np.isnan(value), _NAN, (bits >> np.uint32(16)).astype(np.uint16))


def packed_operation(instruction: Instruction) -> Operation:
    """Return the operation of an arithmetic instruction on ``f16x2``, ``bf16`` or ``bf16x2``."""
    kind = instruction.type
    scalar = _single(instruction, "f16" if kind == "f16x2" else "f32")
    compute = scalar.compute
    if kind == "bf16":
        return Operation(_bfloat(compute), ("bf16",) * len(scalar.sources), ("bf16",))
    half = _float16_bits(compute) if kind == "f16x2" else _bfloat(compute)
    return Operation(_pairs(half), (kind,) * len(scalar.sources), (kind,))


def _single(instruction: Instruction, kind: str) -> Operation:
    modifiers = tuple(kind if m == instruction.type else m for m in instruction.modifiers)
    # The sum in a fused bfloat16 operation would be rounded twice: it is left out.
    fused = kind == "f32" and instruction.name in ("fma", "mad")
    if "sat" in modifiers or instruction.name == "div" or fused:
        raise unknown(instruction)
    plain = Instruction(instruction.name, modifiers, None, instruction.operands, instruction.line)
    return FACTORIES[instruction.name](plain)


def _bfloat(compute: Callable[..., Array]) -> Callable[..., Array]:
    # For sums and products of 8-bit significands, rounding to float32 first changes nothing.
    return lambda *args: to_bfloat(compute(*(from_bfloat(x) for x in args)))


def _float16_bits(compute: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *args: compute(*(x.view(np.float16) for x in args)).view(np.uint16)


def _pairs(compute: Callable[..., Array]) -> Callable[..., Array]:
    def both(*args: Array) -> Array:
        low, high = (
            compute(*((x >> np.uint32(shift)).astype(np.uint16) for x in args)).astype(np.uint32)
            for shift in (0, 16)
        )
        return low | high << np.uint32(16)

    return both

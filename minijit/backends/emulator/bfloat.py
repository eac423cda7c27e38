"""Arithmetic in bfloat16, and in pairs of 16-bit floats that share a register."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minijit.backends.emulator.operation import FACTORIES, Array, Operation, unknown
from minijit.backends.emulator.ptx import Instruction
from minijit.backends.emulator.rounding import narrow, two_sum

__all__ = [
    "from_bfloat",
    "packed_operation",
    "positive_bfloat",
    "round_bfloat",
    "to_bfloat",
]

_NAN = np.uint16(0x7FFF)


def from_bfloat(bits: Array) -> Array:
    """The float32 of bfloat16 bits."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bfloat(value: Array, mode: str = "rn") -> Array:
    """The bits of bfloat16 to which float32 is rounded."""
    bits = np.ascontiguousarray(value).view(np.uint32)
    if mode == "rn":
        bits = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    elif mode != "rz":
        # Away from zero where that is the direction; infinities have no lower bits.
        away = np.signbit(value) == (mode == "rm")
        bits = bits + np.where(away, np.uint32(0xFFFF), np.uint32(0))
    return np.where(np.isnan(value), _NAN, (bits >> np.uint32(16)).astype(np.uint16))


def round_bfloat(value: Array, lost: Array, mode: str = "rn") -> Array:
    """The bits of ``value + lost`` (float64, ``lost`` below half a step) rounded once."""
    single = narrow(value, lost, "rz")
    inexact = np.isfinite(value) & ((single != value) | (lost != 0))
    # Float32 with an odd last bit for what is inexact has bits enough to be rounded again.
    odd = (single.view(np.uint32) | inexact.astype(np.uint32)).view(np.float32)
    return to_bfloat(odd, mode)


def positive_bfloat(bits: Array) -> Array:
    """What ``relu`` leaves of bfloat16: zero instead of negative numbers."""
    negative = (bits >> np.uint16(15) != 0) & ~np.isnan(from_bfloat(bits))
    return np.where(negative, np.uint16(0), bits)


def packed_operation(instruction: Instruction) -> Operation:
    """Return the operation of an arithmetic instruction on ``f16x2``, ``bf16`` or ``bf16x2``."""
    kind = instruction.type
    if kind == "f16x2":
        scalar = _single(instruction, "f16")
        compute, count = _float16_bits(scalar.compute), len(scalar.sources)
    elif instruction.name in ("fma", "mad"):
        compute, count = _fused(instruction), 3
    else:
        scalar = _single(instruction, "f32")
        compute, count = _bfloat(scalar.compute), len(scalar.sources)
    return Operation(compute if kind == "bf16" else _pairs(compute), (kind,) * count, (kind,))


def _single(instruction: Instruction, kind: str) -> Operation:
    modifiers = tuple(kind if m == instruction.type else m for m in instruction.modifiers)
    if instruction.name == "div" or (kind == "f32" and "sat" in modifiers):
        raise unknown(instruction)
    plain = Instruction(instruction.name, modifiers, None, instruction.operands, instruction.line)
    return FACTORIES[instruction.name](plain)


def _bfloat(compute: Callable[..., Array]) -> Callable[..., Array]:
    # For sums and products of 8-bit significands, rounding to float32 first changes nothing.
    return lambda *args: to_bfloat(compute(*(from_bfloat(x) for x in args)))


def _fused(instruction: Instruction) -> Callable[..., Array]:
    if not set(instruction.modifiers) <= {"rn", "relu", "bf16", "bf16x2"}:
        raise unknown(instruction)
    relu = "relu" in instruction.modifiers

    def compute(a: Array, b: Array, c: Array) -> Array:
        x, y, z = (from_bfloat(bits).astype(np.float64) for bits in (a, b, c))
        total, lost = two_sum(x * y, z)
        result = round_bfloat(total, lost)
        return positive_bfloat(result) if relu else result

    return compute


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

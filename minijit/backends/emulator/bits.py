"""Bits: logic, shifts, fields, counts and permutations of bytes."""

from __future__ import annotations

import numpy as np

from minijit.backends.emulator.operation import (
    NUMPY,
    Array,
    Operation,
    factory,
    flags_and_types,
    unknown,
)
from minijit.backends.emulator.ptx import WIDTHS, Immediate, Instruction

__all__ = ["leading_zeros"]

_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@factory("and", "or", "xor")
def _logic(instruction: Instruction) -> Operation:
    _, (kind,) = flags_and_types(instruction)
    return Operation(_LOGIC[instruction.name], (kind, kind), (kind,))


@factory("not")
def _not(instruction: Instruction) -> Operation:
    _, (kind,) = flags_and_types(instruction)
    return Operation(np.invert, (kind,), (kind,))


@factory("cnot")
def _cnot(instruction: Instruction) -> Operation:
    _, (kind,) = flags_and_types(instruction)
    return Operation(lambda a: (a == 0).astype(a.dtype), (kind,), (kind,))


@factory("shl", "shr")
def _shift(instruction: Instruction) -> Operation:
    _, (kind,) = flags_and_types(instruction)
    width, left = WIDTHS[kind], instruction.name == "shl"

    def compute(a: Array, by: Array) -> Array:
        # NumPy defines shifts by the width or more as PTX does: 0, or the sign.
        amount = np.minimum(by, np.uint32(width)).astype(a.dtype)
        return np.asarray(np.left_shift(a, amount) if left else np.right_shift(a, amount))

    return Operation(compute, (kind, "u32"), (kind,))


@factory("shf")
def _funnel(instruction: Instruction) -> Operation:
    flags, (kind,) = flags_and_types(instruction, ("l", "r", "wrap", "clamp"))
    if kind not in ("b32", "u32", "s32") or len(flags) != 2:
        raise unknown(instruction)

    def compute(low: Array, high: Array, by: Array) -> Array:
        amount = by & np.uint32(31) if "wrap" in flags else np.minimum(by, np.uint32(32))
        amount = amount.astype(np.uint64)
        both = high.astype(np.uint64) << np.uint64(32) | low
        if "l" in flags:
            return (both << amount >> np.uint64(32)).astype(np.uint32)
        return (both >> amount).astype(np.uint32)

    return Operation(compute, ("b32", "b32", "u32"), ("b32",))


@factory("bfe")
def _extract(instruction: Instruction) -> Operation:
    _, (kind,) = flags_and_types(instruction)
    width = WIDTHS[kind]
    word = NUMPY[kind]

    def compute(a: Array, position: Array, length: Array) -> Array:
        start = np.minimum(position & np.uint32(255), np.uint32(width))
        count = np.minimum(length & np.uint32(255), np.uint32(width))
        # Bits beyond the number are zero, or its sign.
        shifted = np.right_shift(a, start.astype(word))
        spare = (np.uint32(width) - count).astype(word)
        field = np.right_shift(np.left_shift(shifted, spare), spare)
        if word().dtype.kind == "i":
            beyond = start.astype(np.int64) + count >= width
            sign = np.right_shift(a, word(width - 1))
            field = np.where(beyond & (start >= width), sign, field)
        return np.asarray(np.where(count == 0, word(0), field))

    return Operation(compute, (kind, "u32", "u32"), (kind,))


@factory("bfi")
def _insert(instruction: Instruction) -> Operation:
    _, (kind,) = flags_and_types(instruction)
    width, word = WIDTHS[kind], NUMPY[kind]

    def compute(a: Array, b: Array, position: Array, length: Array) -> Array:
        start = np.minimum(position & np.uint32(255), np.uint32(width)).astype(word)
        count = np.minimum(length & np.uint32(255), np.uint32(width)).astype(word)
        ones = ~np.left_shift(~np.zeros_like(count), count)
        mask = np.left_shift(ones, start)
        return np.asarray((b & ~mask) | (np.left_shift(a, start) & mask))

    return Operation(compute, (kind, kind, "u32", "u32"), (kind,))


@factory("brev")
def _reverse(instruction: Instruction) -> Operation:
    _, (kind,) = flags_and_types(instruction)

    def compute(a: Array) -> Array:
        data = np.ascontiguousarray(a)[:, None].view(np.uint8)
        bits = np.unpackbits(data, axis=1, bitorder="little")[:, ::-1]
        return np.packbits(bits, axis=1, bitorder="little").view(a.dtype)[:, 0]

    return Operation(compute, (kind,), (kind,))


def leading_zeros(a: Array) -> Array:
    """The number of zeros before the first one of an unsigned array, as uint32."""
    width = 8 * a.itemsize
    value, count = a.copy(), np.zeros(a.shape, np.uint32)
    step = width // 2
    while step:
        small = value >> a.dtype.type(width - step) == 0
        count[small] += np.uint32(step)
        value[small] <<= a.dtype.type(step)
        step //= 2
    return np.where(a == 0, np.uint32(width), count)


@factory("clz")
def _clz(instruction: Instruction) -> Operation:
    _, (kind,) = flags_and_types(instruction)
    return Operation(leading_zeros, (kind,), ("u32",))


@factory("popc")
def _popc(instruction: Instruction) -> Operation:
    _, (kind,) = flags_and_types(instruction)
    return Operation(lambda a: np.bitwise_count(a).astype(np.uint32), (kind,), ("u32",))


@factory("bfind")
def _find(instruction: Instruction) -> Operation:
    flags, (kind,) = flags_and_types(instruction, ("shiftamt",))
    top = np.uint32(WIDTHS[kind] - 1)

    def compute(a: Array) -> Array:
        word = np.where(a < 0, ~a, a) if a.dtype.kind == "i" else a
        zeros = leading_zeros(word.view(f"u{a.itemsize}"))
        place = zeros if flags else top - zeros
        return np.where(zeros > top, np.uint32(0xFFFFFFFF), place)

    return Operation(compute, (kind,), ("u32",))


@factory("prmt")
def _permute(instruction: Instruction) -> Operation:
    flags, (kind,) = flags_and_types(instruction)
    if flags or kind != "b32":
        raise unknown(instruction)

    def compute(a: Array, b: Array, selector: Array) -> Array:
        both = b.astype(np.uint64) << np.uint64(32) | a
        result = np.zeros(1, np.uint32)
        for place in range(4):
            choice = selector >> np.uint32(4 * place) & np.uint32(15)
            shift = (choice & np.uint32(7)).astype(np.uint64) * np.uint64(8)
            byte = (both >> shift).astype(np.uint32) & np.uint32(255)
            sign = np.where(byte & np.uint32(128), np.uint32(255), np.uint32(0))
            byte = np.where(choice & np.uint32(8), sign, byte)
            result = result | byte << np.uint32(8 * place)
        return result

    return Operation(compute, ("b32", "b32", "b32"), ("b32",))


@factory("lop3")
def _lop3(instruction: Instruction) -> Operation:
    _, (kind,) = flags_and_types(instruction)
    table = instruction.operands[-1]
    if kind != "b32" or not isinstance(table, Immediate):
        raise unknown(instruction)
    code = table.value

    def compute(a: Array, b: Array, c: Array, _: Array) -> Array:
        result = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), np.uint32)
        for term in range(8):
            if code >> term & 1:
                x, y, z = (v if term & bit else ~v for v, bit in ((a, 4), (b, 2), (c, 1)))
                result |= x & y & z
        return result

    return Operation(compute, ("b32", "b32", "b32", "b32"), ("b32",))

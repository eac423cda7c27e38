"""Integer arithmetic: add to remainder, products, minima, counts of bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minijit.backends.emulator.operation import (
    NUMPY,
    Array,
    Operation,
    factory,
    flags_and_types,
    unknown,
)
from minijit.backends.emulator.ptx import WIDTHS, Instruction

__all__ = ["divide", "high_product", "integer_operation", "remainder"]

_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def _unsigned(x: Array) -> Array:
    """The magnitude of a signed array, exact for the lowest number too."""
    return np.asarray(np.abs(x).view(f"u{x.itemsize}"))


def divide(a: Array, b: Array) -> Array:
    """Quotient towards zero; all bits are set where ``b`` is zero, as the hardware leaves it."""
    zero = b == 0
    safe = np.where(zero, np.ones_like(b), b)
    if a.dtype.kind == "u":
        result = a // safe
    else:
        size = _unsigned(a) // _unsigned(safe)
        result = np.where((a < 0) != (safe < 0), np.negative(size), size).view(a.dtype)
    return np.where(zero, ~np.zeros_like(b), result)


def remainder(a: Array, b: Array) -> Array:
    """Remainder with the sign of ``a``; ``a`` where ``b`` is zero."""
    safe = np.where(b == 0, np.ones_like(b), b)
    if a.dtype.kind == "u":
        result = a % safe
    else:
        size = _unsigned(a) % _unsigned(safe)
        result = np.where(a < 0, np.negative(size), size).view(a.dtype)
    return np.where(b == 0, a, result)


def high_product(a: Array, b: Array) -> Array:
    """The upper half of the product of two numbers of the same type."""
    if a.itemsize < 8:
        wide = np.dtype(f"{a.dtype.kind}{2 * a.itemsize}")
        product = a.astype(wide) * b.astype(wide)
        upper: Array = (product >> wide.type(8 * a.itemsize)).astype(a.dtype)
        return upper
    x, y = a.view(np.uint64), b.view(np.uint64)
    x0, x1, y0, y1 = x & _LOW, x >> _HALF, y & _LOW, y >> _HALF
    middle = x1 * y0 + (x0 * y0 >> _HALF)
    lower = x0 * y1 + (middle & _LOW)
    high: Array = x1 * y1 + (middle >> _HALF) + (lower >> _HALF)
    if a.dtype.kind == "i":
        zero = np.uint64(0)
        high = high - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)
    return np.asarray(high.view(a.dtype))


_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
    "div": divide,
    "rem": remainder,
}


def _saturating(name: str, a: Array, b: Array) -> Array:
    wide = _BINARY[name](a.astype(np.int64), b.astype(np.int64))
    return np.clip(wide, -(2**31), 2**31 - 1).astype(np.int32)


def integer_operation(instruction: Instruction) -> Operation:
    """Return the operation of ``add sub min max div rem abs neg`` on integers."""
    flags, (kind, *more) = flags_and_types(instruction, ("sat",))
    name = instruction.name
    if more or kind[0] not in "us":
        raise unknown(instruction)
    if flags and (kind != "s32" or name not in ("add", "sub")):
        raise unknown(instruction)
    if name in ("abs", "neg"):
        if kind[0] != "s":
            raise unknown(instruction)
        return Operation(np.abs if name == "abs" else np.negative, (kind,), (kind,))
    if flags:
        return Operation(lambda a, b: _saturating(name, a, b), (kind, kind), (kind,))
    return Operation(_BINARY[name], (kind, kind), (kind,))


@factory("rem")
def _rem(instruction: Instruction) -> Operation:
    return integer_operation(instruction)


def product(instruction: Instruction) -> Operation:
    """Return the operation of ``mul`` and ``mad`` on integers."""
    flags, (kind, *more) = flags_and_types(instruction, ("lo", "hi", "wide"))
    if more or len(flags) != 1 or kind[0] not in "us":
        raise unknown(instruction)
    (part,) = flags
    result = _WIDER.get(kind, "") if part == "wide" else kind
    if not result:
        raise unknown(instruction)
    wide = NUMPY[result]

    def multiply(a: Array, b: Array) -> Array:
        if part == "hi":
            return high_product(a, b)
        if part == "wide":
            a, b = a.astype(wide), b.astype(wide)
        return a * b

    if instruction.name == "mul":
        return Operation(multiply, (kind, kind), (result,))
    return Operation(lambda a, b, c: multiply(a, b) + c, (kind, kind, result), (result,))


def _high24(a: Array, b: Array) -> Array:
    return np.asarray((a.astype(np.int64) * b.astype(np.int64) >> 16).astype(a.dtype))


@factory("mul24", "mad24")
def _mul24(instruction: Instruction) -> Operation:
    flags, (kind, *_) = flags_and_types(instruction, ("lo", "hi"))
    if len(flags) != 1 or kind not in ("u32", "s32"):
        raise unknown(instruction)
    shift = NUMPY[kind](8)

    def multiply(a: Array, b: Array) -> Array:
        a, b = a << shift >> shift, b << shift >> shift
        return a * b if "lo" in flags else _high24(a, b)

    if instruction.name == "mul24":
        return Operation(multiply, (kind, kind), (kind,))
    return Operation(lambda a, b, c: multiply(a, b) + c, (kind,) * 3, (kind,))


@factory("sad")
def _sad(instruction: Instruction) -> Operation:
    _, (kind,) = flags_and_types(instruction)
    unsigned = f"u{WIDTHS[kind]}"

    def compute(a: Array, b: Array, c: Array) -> Array:
        return c + np.where(a > b, a - b, b - a).view(c.dtype)

    return Operation(compute, (kind, kind, unsigned), (unsigned,))


@factory("dp4a", "dp2a")
def _dot(instruction: Instruction) -> Operation:
    flags, (left, right) = flags_and_types(instruction, ("lo", "hi"))
    count = 4 if instruction.name == "dp4a" else 2
    first = 2 if "hi" in flags else 0
    result = "s32" if "s32" in (left, right) else "u32"

    def compute(a: Array, b: Array, c: Array) -> Array:
        width = 32 // count
        xs = a[:, None].view(f"{left[0].replace('s', 'i')}{width // 8}").astype(np.int64)
        ys = b[:, None].view(f"{right[0].replace('s', 'i')}1").astype(np.int64)
        total = (xs * ys[:, first : first + count]).sum(axis=1)
        return np.asarray((c.astype(np.int64) + total).astype(np.uint32).view(c.dtype))

    return Operation(compute, (left, right, result), (result,))

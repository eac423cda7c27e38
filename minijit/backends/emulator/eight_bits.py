"""Conversions to and from pairs of 8-bit floats, e4m3 and e5m2 (OCP 8-bit floating point, 1.0)."""

from __future__ import annotations

import numpy as np

from minijit.backends.emulator.operation import Array, Operation, unknown
from minijit.backends.emulator.ptx import Instruction

__all__ = ["EIGHT_BITS", "eight_bit_operation"]

EIGHT_BITS = ("e4m3x2", "e5m2x2")
# Bits of the fraction, the exponent's bias, and the code of the largest number.
_FORMATS = {"e4m3x2": (3, 7, 0x7E), "e5m2x2": (2, 15, 0x7B)}
_NAN = 0x7F


def _values(kind: str) -> Array:
    """Return what the codes from 0 to 127 stand for."""
    fraction, bias, largest = _FORMATS[kind]
    codes = np.arange(128)
    exponent, rest = codes >> fraction, codes & ((1 << fraction) - 1)
    normal = (1 + rest / 2**fraction) * 2.0 ** (exponent - bias)
    values = np.where(exponent == 0, rest * 2.0 ** (1 - bias - fraction), normal)
    values[codes > largest] = np.nan
    if kind == "e5m2x2":
        values[largest + 1] = np.inf
    return values


def _encoded(value: Array, kind: str) -> Array:
    """The nearest codes, ties to even; what is too large becomes the largest number."""
    largest = _FORMATS[kind][2]
    table = _values(kind)[: largest + 1]
    size = np.minimum(np.abs(value.astype(np.float64)), table[-1])
    above = np.clip(np.searchsorted(table, size), 1, largest)
    middle = (table[above] + table[above - 1]) / 2
    # Codes of neighbours differ in the last bit: the even one of them is the even number.
    up = (size > middle) | ((size == middle) & (above % 2 == 0))
    code = np.where(up, above, above - 1)
    code = np.where(np.isnan(value), _NAN, code | np.signbit(value).astype(np.int64) << 7)
    return code.astype(np.uint16)


def eight_bit_operation(
    instruction: Instruction, to: str, of: str, flags: frozenset[str]
) -> Operation:
    """Return the conversion between pairs; the first of two float32 goes to the upper half."""
    relu = "relu" in flags
    if to in EIGHT_BITS and flags - {"relu"} == {"rn", "satfinite"}:

        def encode(high: Array, low: Array) -> Array:
            if relu:
                high, low = (np.where(x <= 0, x.dtype.type(0), x) for x in (high, low))
            return _encoded(high, to) << np.uint16(8) | _encoded(low, to)

        if of == "f32":
            return Operation(encode, ("f32", "f32"), (to,))
        if of == "f16x2":
            return Operation(lambda pair: encode(*_halves(pair)[::-1]), (of,), (to,))
    elif of in EIGHT_BITS and to == "f16x2" and flags - {"relu"} == {"rn"}:
        table = np.concatenate((_values(of), -_values(of))).astype(np.float16)
        bits = table.view(np.uint16).copy()
        bits[np.isnan(table)] = 0x7FFF
        if relu:
            bits[table <= 0] = 0
        wide = bits.astype(np.uint32)

        def decode(pair: Array) -> Array:
            high, low = wide[pair >> np.uint16(8)], wide[pair & np.uint16(255)]
            return np.asarray(high << np.uint32(16) | low)

        return Operation(decode, (of,), (to,))
    raise unknown(instruction)


def _halves(pair: Array) -> tuple[Array, Array]:
    """Return the lower and the upper float16."""
    low, high = (pair >> np.uint32(shift) for shift in (0, 16))
    return low.astype(np.uint16).view(np.float16), high.astype(np.uint16).view(np.float16)

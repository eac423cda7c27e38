"""Operations on the bits of integers and bools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.ops.define import elementwise, plain, typed

__all__ = [
    "bitwise_and",
    "bitwise_count",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "left_shift",
    "right_shift",
]

Code = Callable[..., Any]

bitwise_and = elementwise(
    "bitwise_and",
    ufunc=np.bitwise_and,
    scalar=plain(lambda x, y: x & y, "&"),
    doc="Bits set in both operands; of bools, and.",
)
bitwise_or = elementwise(
    "bitwise_or",
    ufunc=np.bitwise_or,
    scalar=plain(lambda x, y: x | y, "|"),
    doc="Bits set in an operand; of bools, or.",
)
bitwise_xor = elementwise(
    "bitwise_xor",
    ufunc=np.bitwise_xor,
    scalar=plain(lambda x, y: x ^ y, "^"),
    doc="Bits set in exactly one operand; of bools, exclusive or.",
)


def _invert(dtype: np.dtype[Any]) -> Code:
    return (lambda x: not x) if dtype.kind == "b" else (lambda x: ~x)


invert = elementwise(
    "invert",
    ufunc=np.invert,
    scalar=typed(_invert),
    doc="All bits flipped; of bools, not.",
)


def _left_shift(dtype: np.dtype[Any]) -> Code:
    bits = 8 * dtype.itemsize
    zero, width, mask = dtype.type(0), dtype.type(bits), dtype.type(bits - 1)
    # Masking the count keeps the shift defined where its result is not used.
    return lambda x, n: (x << (n & mask)) if (n >= zero) & (n < width) else zero


def _right_shift(dtype: np.dtype[Any]) -> Code:
    bits = 8 * dtype.itemsize
    zero, width, mask = dtype.type(0), dtype.type(bits), dtype.type(bits - 1)
    if dtype.kind == "u":
        return lambda x, n: (x >> (n & mask)) if n < width else zero
    # A count out of range leaves nothing but the sign.
    return lambda x, n: x >> ((n & mask) if (n >= zero) & (n < width) else mask)


left_shift = elementwise(
    "left_shift",
    ufunc=np.left_shift,
    scalar=typed(_left_shift),
    samples=((-4.0, 4.0), (0.0, 8.0)),
    doc="x * 2**n; a count beyond the width gives zero.",
)
right_shift = elementwise(
    "right_shift",
    ufunc=np.right_shift,
    scalar=typed(_right_shift),
    samples=((-100.0, 100.0), (0.0, 8.0)),
    doc="floor(x / 2**n); a count beyond the width leaves 0, or -1 of negative numbers.",
)


def _bitwise_count(dtype: np.dtype[Any]) -> Code:
    # The absolute value is taken in 64 bits, where Numba's negation of a narrow integer wraps.
    zero, signed, long = np.int64(0), dtype.kind == "i", np.uint64
    wide = np.int64 if signed else np.uint64
    one, two, four, top = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
    pairs, quads = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
    octets, ones = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)

    def count(x: Any) -> Any:
        value = wide(x)
        bits = long(-value if signed and value < zero else value)
        bits = bits - ((bits >> one) & pairs)
        bits = (bits & quads) + ((bits >> two) & quads)
        return (((bits + (bits >> four)) & octets) * ones) >> top

    return count


bitwise_count = elementwise(
    "bitwise_count",
    ufunc=np.bitwise_count,
    scalar=typed(_bitwise_count),
    flops=12,
    doc="Number of bits set in the absolute value.",
)

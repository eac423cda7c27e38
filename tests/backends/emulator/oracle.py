"""What PTX instructions compute, in Python integers and exact fractions: one value at a time.

Written from the PTX ISA manual, without a look at NumPy or at the emulator.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

__all__ = ["INTEGER", "Float", "as_bits", "as_value", "bits_of", "float_operation", "to_float"]

FORMATS = {"f16": ("e", 11, -14, 16), "f32": ("f", 24, -126, 32), "f64": ("d", 53, -1022, 64)}
FORMATS["bf16"] = ("", 8, -126, 16)
CANONICAL = {"f16": 0x7FFF, "f32": 0x7FFFFFFF}


def bits_of(kind: str) -> int:
    return {"pred": 1}.get(kind) or int(kind[1:])


def as_value(bits: int, kind: str) -> Any:
    """Decode register bits: an int, or a Python float, which holds all three formats exactly."""
    width = bits_of(kind)
    if kind[0] == "f":
        code = FORMATS[kind][0]
        return struct.unpack(f"<{code}", bits.to_bytes(width // 8, "little"))[0]
    if kind[0] == "s" and bits >> (width - 1):
        return bits - (1 << width)
    return bits


def as_bits(value: Any, kind: str) -> int:
    width = bits_of(kind)
    if kind[0] == "f":
        if math.isnan(value):
            return CANONICAL.get(kind, -1)
        return int.from_bytes(struct.pack(f"<{FORMATS[kind][0]}", value), "little")
    return int(value) & ((1 << width) - 1)


Float = float


def to_float(exact: Fraction, kind: str, mode: str = "rn", negative_zero: bool = False) -> float:
    """The number of a format next to an exact one: nearest, towards zero, up or down."""
    _, digits, smallest, _ = FORMATS[kind]
    if exact == 0:
        return -0.0 if negative_zero else 0.0
    size = abs(exact)
    power = math.floor(math.log2(size.numerator) - math.log2(size.denominator))
    while Fraction(2) ** (power + 1) <= size:
        power += 1
    while Fraction(2) ** power > size:
        power -= 1
    unit = Fraction(2) ** (max(power, smallest) - digits + 1)
    below = math.floor(exact / unit)
    left = exact / unit - below
    if mode == "rn":
        above = left > Fraction(1, 2) or (left == Fraction(1, 2) and below % 2)
    elif mode == "rz":
        above = left > 0 and exact < 0
    else:
        above = left > 0 and mode == "rp"
    result = (below + bool(above)) * unit
    limit = (2 - Fraction(2) ** (1 - digits)) * Fraction(2) ** (1 - smallest)
    if abs(result) > limit:
        outwards = {"rn": True, "rz": False, "rp": exact > 0, "rm": exact < 0}[mode]
        return math.copysign(math.inf if outwards else float(limit), 1 if exact > 0 else -1)
    if result == 0:
        return -0.0 if exact < 0 else 0.0
    return float(result)


def _zero_of_sum(mode: str, *terms: float) -> bool:
    """Whether a sum of exactly zero is negative."""
    signs = {math.copysign(1, t) for t in terms}
    return signs == {-1.0} or (len(signs) == 2 and mode == "rm")


def _add(a: float, b: float, kind: str, mode: str) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a + b
    return to_float(Fraction(a) + Fraction(b), kind, mode, _zero_of_sum(mode, a, b))


def _multiply(a: float, b: float, kind: str, mode: str) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b
    negative = math.copysign(1, a) != math.copysign(1, b)
    return to_float(Fraction(a) * Fraction(b), kind, mode, negative)


def _fma(a: float, b: float, c: float, kind: str, mode: str) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    product = math.copysign(1.0, a) * math.copysign(1.0, b)
    return to_float(
        Fraction(a) * Fraction(b) + Fraction(c), kind, mode, _zero_of_sum(mode, product, c)
    )


def _divide(a: float, b: float, kind: str, mode: str) -> float:
    negative = math.copysign(1, a) != math.copysign(1, b)
    if math.isnan(a) or math.isnan(b) or (math.isinf(a) and math.isinf(b)) or a == b == 0:
        return math.nan
    if math.isinf(a) or b == 0:
        return -math.inf if negative else math.inf
    if math.isinf(b):
        return -0.0 if negative else 0.0
    return to_float(Fraction(a) / Fraction(b), kind, mode, negative)


def _root(a: float, kind: str, mode: str) -> float:
    if math.isnan(a) or a < 0:
        return math.nan
    if a == 0 or math.isinf(a):
        return a
    # A root to 200 bits, and a mark if it goes on: enough for every format and mode.
    exact = Fraction(a)
    scaled = exact * 4 ** (1400)
    whole = math.isqrt(math.floor(scaled))
    return to_float(
        (Fraction(whole) + (Fraction(1, 3) if Fraction(whole) ** 2 != scaled else 0)) / 2**1400,
        kind,
        mode,
    )


def _extremum(a: float, b: float, larger: bool, strict: bool) -> float:
    if math.isnan(a) or math.isnan(b):
        if strict or (math.isnan(a) and math.isnan(b)):
            return math.nan
        return b if math.isnan(a) else a
    if a == b:
        return max(a, b, key=lambda x: math.copysign(1, x) * (1 if larger else -1))
    return max(a, b) if larger else min(a, b)


def float_operation(name: str, kind: str, mode: str, strict: bool = False) -> Callable[..., float]:
    """The function of a float instruction."""
    return {
        "add": lambda a, b: _add(a, b, kind, mode),
        "sub": lambda a, b: _add(a, -b, kind, mode),
        "mul": lambda a, b: _multiply(a, b, kind, mode),
        "div": lambda a, b: _divide(a, b, kind, mode),
        "fma": lambda a, b, c: _fma(a, b, c, kind, mode),
        "rcp": lambda a: _divide(1.0, a, kind, mode),
        "sqrt": lambda a: _root(a, kind, mode),
        "max": lambda a, b: _extremum(a, b, True, strict),
        "min": lambda a, b: _extremum(a, b, False, strict),
        "abs": abs,
    }[name]


def _towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _reverse(a: int, width: int) -> int:
    return int(f"{a:0{width}b}"[::-1], 2)


def _extract(a: int, start: int, count: int, width: int, signed: bool) -> int:
    """Bit field extract, as the manual's loop has it."""
    bits = a & ((1 << width) - 1)
    start, count = start & 255, count & 255
    msb = width - 1
    sign = bits >> min(start + count - 1, msb) & 1 if signed and count else 0
    result = 0
    for place in range(width):
        inside = place < count and start + place <= msb
        result |= (bits >> (start + place) & 1 if inside else sign) << place
    return result


def _insert(a: int, b: int, start: int, count: int, width: int) -> int:
    result = b
    start, count = start & 255, count & 255
    for place in range(count):
        if start + place < width:
            bit = 1 << (start + place)
            result = (result & ~bit) | ((a >> place & 1) << (start + place))
    return result


def _permute(a: int, b: int, selector: int) -> int:
    data = (b << 32 | a).to_bytes(8, "little")
    result = 0
    for place in range(4):
        choice = selector >> 4 * place & 15
        byte = data[choice & 7]
        if choice & 8:
            byte = 255 if byte & 128 else 0
        result |= byte << 8 * place
    return result


def _find(a: int, width: int, amount: bool) -> int:
    bits = ~a if a < 0 else a
    place = bits.bit_length() - 1
    if place < 0:
        return -1
    return width - 1 - place if amount else place


INTEGER: dict[str, Callable[..., Any]] = {
    "add": lambda w, a, b: a + b,
    "sub": lambda w, a, b: a - b,
    "mul.lo": lambda w, a, b: a * b,
    "mul.hi": lambda w, a, b: a * b >> w,
    "mul.wide": lambda w, a, b: a * b,
    "mad.lo": lambda w, a, b, c: a * b + c,
    "mad.hi": lambda w, a, b, c: (a * b >> w) + c,
    "mad.wide": lambda w, a, b, c: a * b + c,
    "div": lambda w, a, b: _towards_zero(a, b) if b else -1,
    "rem": lambda w, a, b: a - _towards_zero(a, b) * b if b else a,
    "min": lambda w, a, b: min(a, b),
    "max": lambda w, a, b: max(a, b),
    "abs": lambda w, a: abs(a),
    "neg": lambda w, a: -a,
    "sad": lambda w, a, b, c: c + abs(a - b),
    "and": lambda w, a, b: a & b,
    "or": lambda w, a, b: a | b,
    "xor": lambda w, a, b: a ^ b,
    "not": lambda w, a: ~a,
    "cnot": lambda w, a: a == 0,
    "shl": lambda w, a, b: a << min(b, w),
    "shr": lambda w, a, b: a >> min(b, w),
    "popc": lambda w, a: a.bit_count(),
    "clz": lambda w, a: w - a.bit_length(),
    "brev": lambda w, a: _reverse(a, w),
    "bfind": lambda w, a: _find(a, w, False),
    "bfind.shiftamt": lambda w, a: _find(a, w, True),
    "bfe.u": lambda w, a, b, c: _extract(a, b, c, w, False),
    "bfe.s": lambda w, a, b, c: _extract(a, b, c, w, True),
    "bfi": lambda w, a, b, c, d: _insert(a, b, c, d, w),
    "prmt": lambda w, a, b, c: _permute(a, b, c),
    "shf.l.clamp": lambda w, a, b, c: ((b << 32 | a) << min(c, 32)) >> 32,
    "shf.l.wrap": lambda w, a, b, c: ((b << 32 | a) << (c & 31)) >> 32,
    "shf.r.clamp": lambda w, a, b, c: (b << 32 | a) >> min(c, 32),
    "shf.r.wrap": lambda w, a, b, c: (b << 32 | a) >> (c & 31),
    "mul24.lo": lambda w, a, b: a * b,
    "mul24.hi": lambda w, a, b: a * b >> 16,
}

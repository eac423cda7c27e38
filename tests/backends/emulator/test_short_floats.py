"""bfloat16 and the 8-bit floats against exact fractions."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import pytest

from tests.backends.emulator import oracle
from tests.backends.emulator.instruction_runs import compute, floats, integers

MODES = ["rn", "rz", "rm", "rp"]
NAN = 0x7FFF


def value(bits: int) -> float:
    """The number that bfloat16 bits stand for."""
    return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])


def rounded(exact: Any, mode: str = "rn", negative_zero: bool = False) -> int:
    """The bits of bfloat16 next to an exact number; infinities and NaN stay."""
    if isinstance(exact, float) and math.isnan(exact):
        return NAN
    if isinstance(exact, float) and math.isinf(exact):
        return 0x7F80 if exact > 0 else 0xFF80
    result = oracle.to_float(Fraction(exact), "bf16", mode, negative_zero)
    return int.from_bytes(struct.pack("<f", result), "little") >> 16


def bfloats(count: int, seed: str) -> list[int]:
    return [bits >> 16 for bits in floats("f32", count, seed)]


@pytest.mark.parametrize("relu", ["", ".relu"])
def test_fused_multiply_add_rounds_once(relu: str) -> None:
    columns = [bfloats(3000, f"fma{n}") for n in range(3)]
    want = []
    for row in zip(*columns, strict=True):
        a, b, c = map(value, row)
        if not all(map(math.isfinite, (a, b, c))):
            bits = rounded(a * b + c)
        else:
            product = math.copysign(1, a) * math.copysign(1, b)
            minus = product < 0 and math.copysign(1, c) < 0
            bits = rounded(Fraction(a) * Fraction(b) + Fraction(c), "rn", minus)
        want.append(0 if relu and bits >> 15 and bits & 0x7FFF <= 0x7F80 else bits)
    assert compute(f"fma.rn{relu}.bf16", columns)[0] == want
    halves = [[x | y << 16 for x, y in zip(c, c[::-1], strict=True)] for c in columns]
    both = [x | y << 16 for x, y in zip(want, want[::-1], strict=True)]
    assert compute(f"fma.rn{relu}.bf16x2", halves)[0] == both


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["f32", "f64", "f16"])
def test_from_floats(mode: str, kind: str) -> None:
    column = floats(kind, 2000, f"{kind}{mode}")
    numbers = [oracle.as_value(bits, kind) for bits in column]
    want = [rounded(x, mode, math.copysign(1, x) < 0) for x in numbers]
    assert compute(f"cvt.{mode}.bf16.{kind}", [column])[0] == want


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["s8", "u16", "s16", "u32", "s32", "u64", "s64"])
def test_from_integers(mode: str, kind: str) -> None:
    column = integers(kind, 1000, f"{kind}{mode}")
    want = [rounded(oracle.as_value(bits, kind), mode) for bits in column]
    assert compute(f"cvt.{mode}.bf16.{kind}", [column])[0] == want


def test_to_other_types() -> None:
    column = bfloats(1000, "wider")
    numbers = [value(bits) for bits in column]
    assert compute("cvt.f32.bf16", [column])[0] == [bits << 16 for bits in column]
    finite = [bits for bits in column if abs(value(bits)) < 2.0**31]
    want = [math.floor(value(bits)) % 2**32 for bits in finite]
    assert compute("cvt.rmi.s32.bf16", [finite])[0] == want
    kept = [bits for bits, x in zip(column, numbers, strict=True) if math.isfinite(x)]
    for name, whole in (
        ("rzi", math.trunc),
        ("rmi", math.floor),
        ("rpi", math.ceil),
        ("rni", round),
    ):
        want = [rounded(whole(x), "rn", math.copysign(1, x) < 0) for x in map(value, kept)]
        assert compute(f"cvt.{name}.bf16.bf16", [kept])[0] == want


def test_relu_of_conversions() -> None:
    column = floats("f32", 500, "relu")
    numbers = [oracle.as_value(bits, "f32") for bits in column]
    positive = [x if x > 0 or math.isnan(x) else 0.0 for x in numbers]
    want = [rounded(x) for x in positive]
    assert compute("cvt.rn.relu.bf16.f32", [column])[0] == want
    pair = compute("cvt.rn.relu.bf16x2.f32", [column, column])[0]
    assert pair == [bits << 16 | bits for bits in want]


def decoded(code: int, kind: str) -> float:
    """The number of an 8-bit code, as the OCP specification has it."""
    fraction, bias = (3, 7) if kind == "e4m3x2" else (2, 15)
    sign = -1.0 if code >> 7 else 1.0
    exponent, rest = code >> fraction & (1 << (7 - fraction)) - 1, code & (1 << fraction) - 1
    if kind == "e4m3x2" and code & 0x7F == 0x7F:
        return math.nan
    if kind == "e5m2x2" and exponent == 31:
        return math.nan if rest else sign * math.inf
    if exponent == 0:
        return sign * math.ldexp(rest, 1 - bias - fraction)
    return sign * math.ldexp((1 << fraction) + rest, exponent - bias - fraction)


def encoded(number: float, kind: str) -> int:
    """The code of the nearest finite number, ties to the even code; 0x7f for NaN."""
    if math.isnan(number):
        return 0x7F
    sign = 0x80 if math.copysign(1, number) < 0 else 0
    codes = [c for c in range(0x80) if math.isfinite(decoded(c, kind))]
    size = min(abs(number), decoded(codes[-1], kind))
    return sign | min(
        codes, key=lambda c: (abs(Fraction(decoded(c, kind)) - Fraction(size)), c & 1)
    )


@pytest.mark.parametrize("kind", ["e4m3x2", "e5m2x2"])
def test_eight_bits(kind: str) -> None:
    column = floats("f16", 300, kind)
    numbers = [oracle.as_value(bits, "f16") for bits in column]
    single = [oracle.as_bits(x, "f32") for x in numbers]
    want = [encoded(x, kind) for x in numbers]
    pairs = [a << 8 | b for a, b in zip(want, want[::-1], strict=True)]
    assert compute(f"cvt.rn.satfinite.{kind}.f32", [single, single[::-1]])[0] == pairs
    packed = [a << 16 | b for a, b in zip(column, column[::-1], strict=True)]
    assert compute(f"cvt.rn.satfinite.{kind}.f16x2", [packed])[0] == pairs
    positive = [encoded(x if x > 0 or math.isnan(x) else 0.0, kind) for x in numbers]
    want = [a << 8 | b for a, b in zip(positive, positive[::-1], strict=True)]
    assert compute(f"cvt.rn.satfinite.relu.{kind}.f32", [single, single[::-1]])[0] == want
    codes = list(range(256))
    halves = [oracle.as_bits(decoded(c, kind), "f16") for c in codes]
    want = [h << 16 | n for h, n in zip(halves, halves[::-1], strict=True)]
    both = [c << 8 | n for c, n in zip(codes, codes[::-1], strict=True)]
    assert compute(f"cvt.rn.f16x2.{kind}", [both])[0] == want

"""Conversions between all number types: ``cvt``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from minijit.backends.emulator.bfloat import (
    from_bfloat,
    positive_bfloat,
    round_bfloat,
    to_bfloat,
)
from minijit.backends.emulator.eight_bits import EIGHT_BITS, eight_bit_operation
from minijit.backends.emulator.exact import round_fraction
from minijit.backends.emulator.floating import canonical, flush, saturate
from minijit.backends.emulator.operation import (
    NUMPY,
    Array,
    Operation,
    factory,
    flags_and_types,
    float_type,
    unknown,
)
from minijit.backends.emulator.ptx import WIDTHS, Instruction
from minijit.backends.emulator.rounding import narrow, two_sum

__all__: list[str] = []

_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_MODES = ("rn", "rz", "rm", "rp")
_DIGITS = {"f16": (11, -24), "f32": (24, -149), "f64": (53, -1074)}


@factory("cvt")
def _convert(instruction: Instruction) -> Operation:
    allowed = (*_WHOLE, *_MODES, "ftz", "sat", "relu", "satfinite")
    flags, types = flags_and_types(instruction, allowed)
    if len(types) != 2:
        raise unknown(instruction)
    to, of = types
    if to in EIGHT_BITS or of in EIGHT_BITS:
        return eight_bit_operation(instruction, to, of, flags)
    if "satfinite" in flags or ("relu" in flags and to not in ("f16x2", "bf16", "bf16x2")):
        raise unknown(instruction)
    if to in ("f16x2", "bf16x2"):
        return _pack(instruction, to, of, flags)
    if to == "bf16" or of == "bf16":
        return _bfloat(instruction, to, of, flags)
    if float_type(to) and float_type(of):
        return Operation(_between_floats(to, of, flags), (of,), (to,))
    if float_type(to):
        return Operation(_from_integer(to, of, flags), (of,), (to,))
    if float_type(of):
        return Operation(_to_integer(instruction, to, of, flags), (of,), (to,))
    return Operation(_between_integers(to, of, "sat" in flags), (of,), (to,))


def _between_integers(to: str, of: str, saturates: bool) -> Callable[[Array], Array]:
    kind = NUMPY[to]
    if not saturates:
        return lambda a: a.astype(kind)
    limits, own = np.iinfo(kind), np.iinfo(NUMPY[of])
    low, high = max(limits.min, own.min), min(limits.max, own.max)
    return lambda a: np.clip(a, a.dtype.type(low), a.dtype.type(high)).astype(kind)


def _to_integer(
    instruction: Instruction, to: str, of: str, flags: frozenset[str]
) -> Callable[[Array], Array]:
    names = flags & set(_WHOLE)
    if len(names) != 1:
        raise unknown(instruction)
    (name,) = names
    whole, kind = _WHOLE[name], NUMPY[to]
    limits = np.iinfo(kind)
    # NaN is 0, or the top bit where 64 bits are read or written (PTX ISA, cvt).
    nan = 1 << (WIDTHS[to] - 1) if of == "f64" or WIDTHS[to] == 64 else 0
    at_nan = np.array([nan], np.uint64).astype(f"u{WIDTHS[to] // 8}").view(kind)[0]

    def compute(a: Array) -> Array:
        if "ftz" in flags and a.dtype == np.float32:
            a = flush(a)
        value = whole(a.astype(np.float64))
        low, high = value <= float(limits.min), value >= float(limits.max)
        inside = ~(low | high | np.isnan(value))
        if inside.all():
            return value.astype(kind)
        result = np.where(inside, value, 0).astype(kind)
        result[low], result[high] = limits.min, limits.max
        result[np.isnan(value)] = at_nan
        return result

    return compute


def _from_integer(to: str, of: str, flags: frozenset[str]) -> Callable[[Array], Array]:
    kind = NUMPY[to]
    mode = next((m for m in _MODES if m in flags), "rn")
    digits, lowest = _DIGITS[to]

    def exactly(a: Array) -> Array:
        values = [round_fraction(Fraction(int(x)), mode, digits, lowest) for x in a]
        return np.array(values, np.float64).astype(kind)

    def compute(a: Array) -> Array:
        if WIDTHS[of] > 32 and (mode != "rn" or to == "f16"):
            result = exactly(a)
        elif WIDTHS[of] > 32:
            result = a.astype(kind)
        else:
            wide = a.astype(np.float64)
            result = wide if to == "f64" else narrow(wide, np.zeros_like(wide), mode, kind)
        return saturate(result) if "sat" in flags else result

    return compute


def _between_floats(to: str, of: str, flags: frozenset[str]) -> Callable[[Array], Array]:
    kind = NUMPY[to]
    mode = next((m for m in _MODES if m in flags), "rn")
    whole = next((_WHOLE[m] for m in _WHOLE if m in flags), None)
    narrower = WIDTHS[to] < WIDTHS[of]

    def compute(a: Array) -> Array:
        if "ftz" in flags and a.dtype == np.float32:
            a = flush(a)
        if whole is not None:
            a = whole(a)
        if narrower and mode != "rn":
            wide = a.astype(np.float64)
            result = narrow(wide, np.zeros_like(wide), mode, kind)
        else:
            result = a.astype(kind)
        if "ftz" in flags and result.dtype == np.float32:
            result = flush(result)
        return saturate(result) if "sat" in flags else canonical(result)

    return compute


def _bfloat(instruction: Instruction, to: str, of: str, flags: frozenset[str]) -> Operation:
    if of == "bf16":
        if to == "bf16" and len(flags) == 1 and flags <= set(_WHOLE):
            (name,) = flags
            return Operation(lambda a: to_bfloat(_WHOLE[name](from_bfloat(a))), (of,), (to,))
        if "relu" in flags or to == "bf16":
            raise unknown(instruction)
        single = _convert(_between(instruction, to, "f32", flags)).compute if to != "f32" else None
        compute = from_bfloat if single is None else lambda a: single(from_bfloat(a))
        return Operation(compute, (of,), (to,))
    modes = flags - {"relu"}
    if len(modes) != 1 or not modes <= set(_MODES):
        raise unknown(instruction)
    (mode,) = modes
    relu = "relu" in flags

    def rounded(a: Array) -> Array:
        result = to_bfloat(a, mode) if of == "f32" else round_bfloat(*_halves(a), mode)
        return positive_bfloat(result) if relu else result

    return Operation(rounded, (of,), (to,))


def _between(instruction: Instruction, to: str, of: str, flags: frozenset[str]) -> Instruction:
    """Return the conversion with the same flags between other types."""
    modifiers = (*sorted(flags), to, of)
    return dataclasses.replace(instruction, modifiers=modifiers)


def _halves(a: Array) -> tuple[Array, Array]:
    """Return numbers of any type as float64 and what that lost."""
    if a.dtype.itemsize < 8 or a.dtype.kind == "f":
        wide = a.astype(np.float64)
        return wide, np.zeros_like(wide)
    low = a & a.dtype.type(0x7FF)
    return two_sum((a - low).astype(np.float64), low.astype(np.float64))


def _pack(instruction: Instruction, to: str, of: str, flags: frozenset[str]) -> Operation:
    if of != "f32" or not flags <= {"rn", "rz", "relu"}:
        raise unknown(instruction)
    relu = "relu" in flags
    if to == "bf16x2":
        mode = "rz" if "rz" in flags else "rn"

        def half(a: Array) -> Array:
            bits = to_bfloat(a, mode)
            return positive_bfloat(bits) if relu else bits
    else:
        convert = _between_floats("f16", "f32", flags)

        def half(a: Array) -> Array:
            value = convert(a)
            value = np.where(value <= 0, np.float16(0), value) if relu else value
            return value.view(np.uint16)

    def compute(high: Array, low: Array) -> Array:
        return half(high).astype(np.uint32) << np.uint32(16) | half(low)

    return Operation(compute, ("f32", "f32"), (to,))

"""Floating point arithmetic in float16, float32 and float64, and the instructions it shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minijit.backends.emulator import rounding
from minijit.backends.emulator.bfloat import from_bfloat, packed_operation
from minijit.backends.emulator.integer import integer_operation, product
from minijit.backends.emulator.operation import (
    NUMPY,
    Array,
    Operation,
    factory,
    flags_and_types,
    float_type,
    unknown,
)
from minijit.backends.emulator.ptx import Instruction

__all__ = ["MODES", "canonical", "finish", "flush"]

MODES = ("rn", "rz", "rm", "rp")
_FLAGS = (*MODES, "ftz", "sat", "noftz")
_SMALLEST_NORMAL = np.float32(2.0**-126)
_MORE_FLAGS = {"min": ("NaN",), "max": ("NaN",), "div": ("approx", "full"), "fma": ("relu",)}
# Results that are NaN have these bits; float64 keeps the bits of an operand.
_NANS = {4: 0x7FFFFFFF, 2: 0x7FFF}


def flush(x: Array) -> Array:
    """Subnormal float32 numbers as zeros of their sign."""
    tiny = np.abs(x) < _SMALLEST_NORMAL
    return np.where(tiny, np.copysign(np.float32(0), x), x) if tiny.any() else x


def canonical(x: Array) -> Array:
    """NaN with the bits that the hardware gives it; ``x`` itself stays."""
    nan = np.isnan(x)
    if nan.any():
        bits = _NANS.get(x.dtype.itemsize)
        if bits is not None:
            x = np.array(x)
            x.view(f"u{x.itemsize}")[nan] = bits
    return x


def saturate(x: Array) -> Array:
    """Clamp to [0, 1]; NaN becomes 0."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    return np.asarray(np.where(x > zero, np.minimum(x, one), zero))


def finish(compute: Callable[..., Array], flags: frozenset[str]) -> Callable[..., Array]:
    """Add what the modifiers ``ftz``, ``relu`` and ``sat`` say around ``compute``."""
    if not flags & {"ftz", "sat", "relu"}:
        return lambda *args: canonical(compute(*args))

    def run(*args: Array) -> Array:
        if "ftz" in flags:
            args = tuple(flush(x) if x.dtype == np.float32 else x for x in args)
        result = compute(*args)
        if "ftz" in flags and result.dtype == np.float32:
            result = flush(result)
        if "relu" in flags:
            result = np.where(result <= 0, result.dtype.type(0), result)
        return saturate(result) if "sat" in flags else canonical(result)

    return run


def mode_of(flags: frozenset[str]) -> str:
    """The rounding mode among the modifiers."""
    return next((mode for mode in MODES if mode in flags), "rn")


def _in_float32(compute: Callable[..., Array]) -> Callable[..., Array]:
    """Float16 through float32: for one operation, rounding twice is rounding once."""
    return lambda *args: compute(*(x.astype(np.float32) for x in args)).astype(np.float16)


def _extremum(instruction: Instruction, flags: frozenset[str]) -> Callable[..., Array]:
    larger = instruction.name == "max"
    choose = np.maximum if larger else np.minimum

    def compute(*values: Array) -> Array:
        result = values[0]
        for value in values[1:]:
            chosen = choose(result, value)
            if "NaN" not in flags:
                chosen = np.where(np.isnan(result), value, chosen)
                chosen = np.where(np.isnan(value), result, chosen)
            # NumPy does not order the zeros; the hardware has -0 < +0.
            zeros = (chosen == 0) & (result == 0) & (value == 0)
            if zeros.any():
                signs = np.signbit(result), np.signbit(value)
                minus = signs[0] & signs[1] if larger else signs[0] | signs[1]
                zero = chosen.dtype.type(0)
                chosen = np.where(zeros, np.where(minus, -zero, zero), chosen)
            result = chosen
        return result

    return compute


@factory("add", "sub", "mul", "div", "min", "max", "abs", "neg", "fma", "mad")
def _arithmetic(instruction: Instruction) -> Operation:
    name = instruction.name
    kind = instruction.type
    if "f32" in instruction.modifiers and kind in ("f16", "bf16"):
        return _mixed(instruction, kind)
    if kind in ("f16x2", "bf16", "bf16x2"):
        return packed_operation(instruction)
    if not float_type(kind):
        if name in ("mul", "mad"):
            return product(instruction)
        if name == "fma":
            raise unknown(instruction)
        return integer_operation(instruction)
    more = _MORE_FLAGS.get(name, ())
    flags, types = flags_and_types(instruction, (*_FLAGS, *more))
    if len(types) != 1 or ("relu" in flags and kind != "f16"):
        raise unknown(instruction)
    if name == "neg" and "ftz" not in flags:
        # A sign is flipped in NaN too.
        return Operation(np.negative, (kind,), (kind,))
    count = {"abs": 1, "neg": 1, "fma": 3, "mad": 3}.get(name, len(instruction.operands) - 1)
    compute = float_compute(instruction, flags, kind)
    return Operation(finish(compute, flags), (kind,) * count, (kind,))


def _mixed(instruction: Instruction, kind: str) -> Operation:
    """``add``, ``sub`` or ``fma`` of 16-bit operands and a float32 one (compute capability 10)."""
    flags, _ = flags_and_types(instruction, (*MODES, "sat"))
    if instruction.name not in ("add", "sub", "fma"):
        raise unknown(instruction)
    plain = float_compute(instruction, flags, "f32")
    widen = from_bfloat if kind == "bf16" else lambda a: a.astype(np.float32)
    count = 2 if instruction.name == "fma" else 1

    def compute(*args: Array) -> Array:
        return plain(*map(widen, args[:count]), *args[count:])

    return Operation(finish(compute, flags), (*(kind,) * count, "f32"), ("f32",))


def float_compute(
    instruction: Instruction, flags: frozenset[str], kind: str
) -> Callable[..., Array]:
    """Return the function of a float instruction without what modifiers add."""
    name, mode = instruction.name, mode_of(flags)
    if name in ("min", "max"):
        return _extremum(instruction, flags)
    if name == "abs":
        return np.abs
    if name == "neg":
        return np.negative
    if name in ("fma", "mad"):
        if kind == "f16":
            return lambda a, b, c: half_fma(a, b, c, mode)
        fma = rounding.fma32 if kind == "f32" else rounding.fma64
        return lambda a, b, c: fma(a, b, c, mode)
    simple: dict[str, Any] = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
    }
    if mode == "rn":
        return _in_float32(simple[name]) if kind == "f16" else simple[name]
    if kind == "f16":
        raise unknown(instruction)
    directed: dict[str, Callable[..., Array]] = {
        "add": lambda a, b: rounding.add(a, b, mode),
        "sub": lambda a, b: rounding.add(a, -b, mode),
        "mul": lambda a, b: rounding.multiply(a, b, mode),
        "div": lambda a, b: rounding.divide(a, b, mode),
    }
    return directed[name]


def half_fma(a: Array, b: Array, c: Array, mode: str) -> Array:
    """``a * b + c`` of float16, rounded once."""
    total, lost = rounding.two_sum(a.astype(np.float64) * b, c.astype(np.float64))
    return rounding.narrow(total, lost, mode, np.float16)


@factory("sqrt", "rcp")
def _root(instruction: Instruction) -> Operation:
    flags, types = flags_and_types(instruction, (*_FLAGS, "approx"))
    if len(types) != 1 or types[0] not in ("f32", "f64"):
        raise unknown(instruction)
    kind, mode = types[0], mode_of(flags)
    one = NUMPY[kind](1)
    if instruction.name == "sqrt":
        compute: Callable[..., Array] = lambda a: rounding.root(a, mode)  # noqa: E731
    elif kind == "f64" and "approx" in flags:
        # The hardware computes the upper half of the bits.
        def compute(a: Array) -> Array:
            result = np.asarray(one / flush64(a))
            return (flush64(result).view(np.uint64) & ~np.uint64(0xFFFFFFFF)).view(np.float64)

        return Operation(compute, (kind,), (kind,))
    else:
        compute = lambda a: rounding.divide(np.full(a.shape, one), a, mode)  # noqa: E731
    return Operation(finish(compute, flags), (kind,), (kind,))


def flush64(x: Array) -> Array:
    """Subnormal float64 numbers as zeros of their sign."""
    return np.where(np.abs(x) < 2.0**-1022, np.copysign(0.0, x), x)


@factory("copysign")
def _copysign(instruction: Instruction) -> Operation:
    _, (kind,) = flags_and_types(instruction)
    # The first operand has the sign, the second the number.
    return Operation(lambda a, b: np.copysign(b, a), (kind, kind), (kind,))


@factory("testp")
def _test(instruction: Instruction) -> Operation:
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).tiny),
        "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny),
    }
    flags, (kind,) = flags_and_types(instruction, tests)
    (test,) = flags
    return Operation(tests[test], (kind,), ("pred",))

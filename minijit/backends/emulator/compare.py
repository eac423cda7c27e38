"""Comparisons and selections."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minijit.backends.emulator.bfloat import from_bfloat
from minijit.backends.emulator.floating import flush
from minijit.backends.emulator.operation import (
    NUMPY,
    RAW,
    Array,
    Operation,
    factory,
    flags_and_types,
    unknown,
)
from minijit.backends.emulator.ptx import WIDTHS, Instruction

__all__: list[str] = []

Comparison = Callable[[Array, Array], Array]


def _either_nan(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


_ORDERED: dict[str, Comparison] = {
    "eq": np.equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_INTEGER: dict[str, Comparison] = {**_ORDERED, "ne": np.not_equal}
_INTEGER |= {"lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
_FLOAT: dict[str, Comparison] = {
    **_ORDERED,
    "ne": lambda a, b: (a < b) | (a > b),
    "neu": np.not_equal,
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "nan": _either_nan,
    "num": lambda a, b: ~_either_nan(a, b),
}
_HALVES = {"f16x2": "f16", "bf16x2": "bf16"}
_ONES = 0xFFFFFFFF
_TRUE = {"u32": _ONES, "s32": _ONES, "b32": _ONES, "u16": 0xFFFF, "s16": 0xFFFF}
_TRUE |= {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}
_TRUE |= {"f16x2": 0x3C003C00, "bf16x2": 0x3F803F80}
"""What ``set`` writes where a comparison holds."""
_JOINS: dict[str, Comparison] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip


def _comparison(instruction: Instruction, kind: str, flags: frozenset[str]) -> Comparison:
    table = _FLOAT if kind[0] == "f" or kind == "bf16" else _INTEGER
    names = [m for m in instruction.modifiers if m in table]
    if len(names) != 1:
        raise unknown(instruction)
    compare = table[names[0]]
    if kind == "bf16":
        return lambda a, b: compare(from_bfloat(a), from_bfloat(b))
    if "ftz" in flags and kind == "f32":
        return lambda a, b: compare(flush(a), flush(b))
    return compare


@factory("setp")
def _setp(instruction: Instruction) -> Operation:
    allowed = (*_FLOAT, *_INTEGER, *_JOINS, "ftz")
    flags, types = flags_and_types(instruction, allowed)
    if len(types) != 1 or types[0] in ("f16x2", "bf16x2"):
        raise unknown(instruction)
    kind = types[0]
    compare = _comparison(instruction, kind, flags)
    join = next((_JOINS[flag] for flag in _JOINS if flag in flags), None)
    if join is None:
        compute: Callable[..., tuple[Array, Array]] = lambda a, b: _both(compare(a, b))  # noqa: E731
        return Operation(compute, (kind, kind), ("pred", "pred"))

    def joined(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
        result = compare(a, b)
        return join(result, c), join(~result, c)

    return Operation(joined, (kind, kind, "pred"), ("pred", "pred"))


def _both(result: Array) -> tuple[Array, Array]:
    return result, ~result


@factory("set")
def _set(instruction: Instruction) -> Operation:
    flags, types = flags_and_types(instruction, (*_FLOAT, *_INTEGER, *_JOINS, "ftz"))
    if len(types) != 2 or types[0] not in _TRUE:
        raise unknown(instruction)
    result, kind = types
    packed = kind in _HALVES
    if packed and result not in ("u32", "s32", "b32", kind):
        raise unknown(instruction)
    compare = _comparison(instruction, _HALVES.get(kind, kind), flags)
    join = next((_JOINS[flag] for flag in _JOINS if flag in flags), None)
    true, false = (np.array([n]).astype(RAW[WIDTHS[result]])[0] for n in (_TRUE[result], 0))

    def compute(a: Array, b: Array, *c: Array) -> Array:
        found = compare(a, b)
        if join is not None:
            found = join(found, *c)
        return np.asarray(np.where(found, true, false)).view(NUMPY[result])

    def both(a: Array, b: Array, *c: Array) -> Array:
        low, high = (
            compute(*(half(x, shift, kind) for x in (a, b)), *c) & np.array(mask, true.dtype)
            for shift, mask in ((0, 0xFFFF), (16, 0xFFFF0000))
        )
        return np.asarray(low | high)

    sources = (kind, kind) if join is None else (kind, kind, "pred")
    return Operation(both if packed else compute, sources, (result,))


def half(pair: Array, shift: int, kind: str) -> Array:
    """One of the two 16-bit floats of a register."""
    bits = (pair >> np.uint32(shift)).astype(np.uint16)
    return bits.view(np.float16) if kind == "f16x2" else bits


@factory("selp")
def _selp(instruction: Instruction) -> Operation:
    _, (kind,) = flags_and_types(instruction)
    # Bits are moved, whatever the type: NaN stays as it is.
    raw = f"b{WIDTHS[kind]}"
    return Operation(lambda a, b, p: np.where(p, a, b), (raw, raw, "pred"), (raw,))


@factory("slct")
def _slct(instruction: Instruction) -> Operation:
    _, (kind, by) = flags_and_types(instruction, ("ftz",))
    raw = f"b{WIDTHS[kind]}"
    if by not in ("s32", "f32"):
        raise unknown(instruction)
    return Operation(lambda a, b, c: np.where(c >= 0, a, b), (raw, raw, by), (raw,))

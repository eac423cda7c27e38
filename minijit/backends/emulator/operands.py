"""The operands of one PTX statement: registers, numbers, addresses, lists."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping

from minijit.backends.emulator.ptx import (
    Address,
    Immediate,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)
from minijit.backends.emulator.tokens import split_list

__all__ = ["NAME", "operand"]

NAME = r"[%$\w.@]+"
_NUMBER = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?")
_FLOAT_BITS = re.compile(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})")
_DECIMAL = re.compile(r"[-+]?\d+\.\d*([eE][-+]?\d+)?")
_ADDRESS = re.compile(rf"\[\s*({NAME})\s*(?:([-+])\s*([-+]?\w+))?\s*\]")
_SYMBOL = re.compile(rf"({NAME})\s*(?:\+\s*(\d+))?")


def operand(text: str, names: Mapping[str, str]) -> Operand:
    """Read one operand; ``names`` renames what an inner scope declares.

    Raises:
        ValueError: it is none.
    """
    text = text.strip()
    if text[:1] in ("{", "("):
        return Vector(tuple(operand(part, names) for part in split_list(text[1:-1])))
    if text.startswith("["):
        return _address(text, names)
    if "|" in text:
        first, second = (operand(part, names) for part in text.split("|"))
        assert isinstance(first, Register)
        assert isinstance(second, Register)
        return Pair(first, second)
    if found := _FLOAT_BITS.fullmatch(text):
        return Immediate(int(found[1] or found[2], 16), 32 if found[1] else 64)
    if _NUMBER.fullmatch(text):
        return Immediate(_integer(text.rstrip("U")))
    if _DECIMAL.fullmatch(text):
        return Immediate(int.from_bytes(struct.pack("<d", float(text)), "little"), 64)
    if text == "WARP_SZ":
        return Immediate(32)
    negated = text.startswith("!")
    text = text.lstrip("!")
    text = names.get(text, text)
    if text == "_" or text.startswith("%"):
        return Register(text, negated)
    if found := _SYMBOL.fullmatch(text):
        return Symbol(names.get(found[1], found[1]), int(found[2] or 0))
    raise ValueError(f"cannot read the operand {text!r}")


def _address(text: str, names: Mapping[str, str]) -> Address:
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise ValueError(f"cannot read the address {text!r}")
    offset = int(found[3] or "0", 0) * (-1 if found[2] == "-" else 1)
    base = operand(found[1], names)
    assert isinstance(base, Register | Symbol | Immediate)
    return Address(base, offset)


def _integer(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xXbB"
    return sign * int(digits, 8 if octal else 0)

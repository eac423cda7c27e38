"""Runs single instructions on columns of bits, and draws bits that are awkward for them."""

from __future__ import annotations

import math
import zlib

import numpy as np

from minijit.backends.emulator.instructions import operation
from minijit.backends.emulator.operands import operand
from minijit.backends.emulator.operation import NUMPY
from minijit.backends.emulator.ptx import Instruction
from tests.backends.emulator import oracle


def instruction(opcode: str, operands: str = "") -> Instruction:
    name, *modifiers = opcode.split(".")
    parts = tuple(operand(part, {}) for part in operands.split()) or (operand("%d", {}),) * 9
    return Instruction(name, tuple(modifiers), None, parts, 1)


def compute(opcode: str, columns: list[list[int]], operands: str = "") -> list[list[int]]:
    """Run an instruction on columns of register bits; returns columns of result bits."""
    what = operation(instruction(opcode, operands))
    arrays = []
    for column, kind in zip(columns, what.sources, strict=True):
        bits = np.array(column, np.uint64)
        raw = np.bool_ if kind == "pred" else np.dtype(f"u{oracle.bits_of(_plain(kind)) // 8}")
        arrays.append(bits.astype(raw).view(NUMPY[kind]))
    with np.errstate(all="ignore"):
        found = what.compute(*arrays)
    results = found if isinstance(found, tuple) else (found,)
    out = []
    for result, kind in zip(results, what.results, strict=True):
        assert result.dtype == NUMPY[kind], (opcode, result.dtype)
        raw = result if kind == "pred" else result.view(f"u{result.itemsize}")
        out.append([int(x) for x in raw])
    return out


def _plain(kind: str) -> str:
    short = {"f16x2": "b32", "bf16": "b16", "bf16x2": "b32", "e4m3x2": "b16", "e5m2x2": "b16"}
    return short.get(kind, kind)


def rng(seed: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(seed.encode()))


def integers(kind: str, count: int, seed: str) -> list[int]:
    width = oracle.bits_of(kind)
    top = 1 << width
    corners = [0, 1, 2, 3, 7, 8, 15, 31, 32, 33, 63, 64, 255, 256, 0xAAAA, top // 2 - 1, top // 2]
    corners += [top // 2 + 1, top - 2, top - 1]
    random = rng(seed)
    picks = [int(x) for x in random.integers(0, 2**63, count)]
    short = [int(x) >> int(s) for x, s in zip(picks, random.integers(0, width, count), strict=True)]
    values = [corners[int(i)] for i in random.integers(0, len(corners), count)]
    kept = [v if n % 3 == 0 else p * 3 if n % 3 == 1 else s
            for n, (v, p, s) in enumerate(zip(values, picks, short, strict=True))]  # fmt: skip
    return [value % top for value in kept]


def floats(kind: str, count: int, seed: str) -> list[int]:
    """Bits: corners, numbers near each other, anything."""
    _, digits, smallest, width = oracle.FORMATS[kind]
    random = rng(seed)
    limit = (2 - 2.0 ** (1 - digits)) * 2.0 ** (1 - smallest)
    tiny, least = 2.0**smallest, 2.0 ** (smallest - digits + 1)
    corners = [0.0, 1.0, 1.5, 2.0, 3.0, 0.5, 2.5, limit, tiny, least, tiny - least, tiny + least]
    corners += [1 + 2.0 ** (1 - digits), 1 - 2.0**-digits, 2.0 ** (digits - 1), math.inf, math.nan]
    corners += [2.0**digits - 1, 2.0**-digits, 1 + 2.0 ** (2 - digits), 100.0, 1 / 4]
    corners += [-c for c in corners]
    found = []
    for n in range(count):
        if n % 3 == 0:
            found.append(oracle.as_bits(corners[int(random.integers(len(corners)))], kind)
                         % (1 << width))  # fmt: skip
        elif n % 3 == 1:
            found.append(int(random.integers(0, 1 << 63)) * 2 % (1 << width))
        else:
            # Few bits, so that sums and products are exact or halfway.
            value = int(random.integers(-31, 32)) * 2.0 ** int(random.integers(-digits, digits))
            if kind == "f16":
                value = max(min(value, 60000.0), -60000.0)
                value = float(np.float16(value))
            found.append(oracle.as_bits(value, kind))
    return [f % (1 << width) for f in found]


def check(opcode: str, columns: list[list[int]], want: list[int], kind: str) -> None:
    got = compute(opcode, columns)[0]
    bad = [
        (tuple(hex(c[n]) for c in columns), hex(g), hex(w))
        for n, (g, w) in enumerate(zip(got, want, strict=True))
        if g != w and not (w < 0 and math.isnan(oracle.as_value(g, kind)))
    ]
    assert not bad, f"{opcode}: {len(bad)} of {len(want)}: {bad[:4]}"

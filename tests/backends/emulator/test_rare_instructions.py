"""Instructions that compilers rarely write, against Python numbers."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest

from tests.backends.emulator import oracle
from tests.backends.emulator.emulated_kernels import launch
from tests.backends.emulator.instruction_runs import compute, floats, integers

TRUE = {"u32": 2**32 - 1, "s32": 2**32 - 1, "f32": 0x3F800000}


@pytest.mark.parametrize("result", TRUE)
@pytest.mark.parametrize("kind", ["s32", "u32", "f32"])
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_set(result: str, kind: str, name: str) -> None:
    draw = floats if kind == "f32" else integers
    columns = [draw(kind, 300, f"{name}{kind}{n}") for n in range(2)]
    columns[1][::3] = columns[0][::3]
    compare = getattr(operator, name)
    rows = [[oracle.as_value(bits, kind) for bits in row] for row in zip(*columns, strict=True)]
    nan = [any(isinstance(x, float) and math.isnan(x) for x in row) for row in rows]
    holds = [compare(*row) and not bad for row, bad in zip(rows, nan, strict=True)]
    want = [TRUE[result] if yes else 0 for yes in holds]
    assert compute(f"set.{name}.{result}.{kind}", columns)[0] == want
    other = [n % 2 for n in range(300)]
    joined = [TRUE[result] if yes and n else 0 for yes, n in zip(holds, other, strict=True)]
    assert compute(f"set.{name}.and.{result}.{kind}", [*columns, other])[0] == joined


def test_set_of_short_floats() -> None:
    one, two, nan = 0x3F80, 0x4000, 0x7FC0
    columns = [[one, two, nan], [two, two, one]]
    assert compute("set.lt.bf16.bf16", columns)[0] == [0x3F80, 0, 0]
    assert compute("set.nan.u32.bf16", columns)[0] == [0, 0, 2**32 - 1]
    pairs = [[one | two << 16], [two | two << 16]]
    assert compute("set.eq.bf16x2.bf16x2", pairs)[0] == [0x3F800000]
    halves = [[0x3C00 | 0x4000 << 16], [0x3C00 | 0x4200 << 16]]
    assert compute("set.lt.f16x2.f16x2", halves)[0] == [0x3C000000]
    assert compute("set.ge.u32.f16x2", halves)[0] == [0x0000FFFF]


@pytest.mark.parametrize("kind", ["b32", "u64", "f32"])
@pytest.mark.parametrize("by", ["s32", "f32"])
def test_slct(kind: str, by: str) -> None:
    width = oracle.bits_of(kind)
    columns = [integers(f"u{width}", 200, f"slct{n}") for n in range(2)]
    draw = floats if by == "f32" else integers
    columns.append(draw(by, 200, "slct"))
    # NaN is not at least 0, and -0 is.
    want = [a if oracle.as_value(c, by) >= 0 else b for a, b, c in zip(*columns, strict=True)]
    assert compute(f"slct.{kind}.{by}", columns)[0] == want


def low24(bits: int, signed: bool) -> int:
    bits &= 0xFFFFFF
    return bits - (1 << 24) if signed and bits >> 23 else bits


@pytest.mark.parametrize("kind", ["u32", "s32"])
@pytest.mark.parametrize("part", ["lo", "hi"])
def test_products_of_24_bits(kind: str, part: str) -> None:
    columns = [integers(kind, 300, f"mad24{n}") for n in range(3)]
    want = []
    for a, b, c in zip(*columns, strict=True):
        product = low24(a, kind == "s32") * low24(b, kind == "s32")
        want.append(((product if part == "lo" else product >> 16) + c) % 2**32)
    assert compute(f"mad24.{part}.{kind}", columns)[0] == want
    products = [(w - c) % 2**32 for w, c in zip(want, columns[2], strict=True)]
    assert compute(f"mul24.{part}.{kind}", columns[:2])[0] == products


def pieces(bits: int, count: int, width: int, signed: bool) -> list[int]:
    found = [bits >> width * n & (1 << width) - 1 for n in range(count)]
    return [x - (1 << width) if signed and x >> (width - 1) else x for x in found]


@pytest.mark.parametrize("left", ["u32", "s32"])
@pytest.mark.parametrize("right", ["u32", "s32"])
@pytest.mark.parametrize("part", ["lo", "hi"])
def test_dot_product_of_two(left: str, right: str, part: str) -> None:
    columns = [integers("u32", 300, f"dp2a{n}") for n in range(3)]
    want = []
    for a, b, c in zip(*columns, strict=True):
        xs, ys = pieces(a, 2, 16, left == "s32"), pieces(b, 4, 8, right == "s32")
        ys = ys[2:] if part == "hi" else ys[:2]
        want.append((c + sum(x * y for x, y in zip(xs, ys, strict=True))) % 2**32)
    assert compute(f"dp2a.{part}.{left}.{right}", columns)[0] == want


ADDING = """.version 8.0
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 p) {
    .reg .b16 %h<3>; .reg .b32 %r<3>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, ONE;
    cvt.u16.u32 %h1, %r1;
    atom.global.add.noftz.TYPE REG2, [%rd1], REG1;
    ret;
}
"""


@pytest.mark.parametrize(
    ("kind", "one", "total"),
    [
        ("bf16", 0x3F80, 0x4200),
        ("bf16x2", 0x3F803F80, 0x42004200),
        ("f16x2", 0x3C003C00, 0x50005000),
    ],
)
def test_atomic_sums_of_short_floats(kind: str, one: int, total: int) -> None:
    register = "%h" if kind == "bf16" else "%r"
    text = ADDING.replace("TYPE", kind).replace("REG", register).replace("ONE", str(one))
    out = np.zeros(1, np.uint16 if kind == "bf16" else np.uint32)
    launch(text, [out])
    assert int(out[0]) == total


def test_relu_of_a_fused_half() -> None:
    columns = [floats("f16", 1000, f"relu{n}") for n in range(3)]
    plain = compute("fma.rn.f16", columns)[0]
    numbers = [oracle.as_value(bits, "f16") for bits in plain]
    want = [0 if x <= 0 else bits for bits, x in zip(plain, numbers, strict=True)]
    assert compute("fma.rn.relu.f16", columns)[0] == want

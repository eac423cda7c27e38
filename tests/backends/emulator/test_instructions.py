"""Every instruction against an oracle of Python integers and fractions, at its awkward values."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from minijit.backends.emulator.instructions import FACTORIES, operation
from minijit.backends.emulator.ptx import Instruction
from tests.backends.emulator import oracle
from tests.backends.emulator.instruction_runs import (
    check,
    compute,
    floats,
    instruction,
    integers,
    rng,
)

MODES = ("rn", "rz", "rp", "rm")
INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")


def integer_cases() -> list[tuple[str, str, str, tuple[str, ...], str]]:
    """Opcode, oracle, type that sets the width, operand types, result type."""
    cases = []
    for kind in INTEGERS:
        names = ["add", "sub", "div", "rem", "min", "max"]
        cases += [(f"{name}.{kind}", name, kind, (kind,) * 2, kind) for name in names]
        cases += [(f"mul.{p}.{kind}", f"mul.{p}", kind, (kind,) * 2, kind) for p in ("lo", "hi")]
        cases += [(f"mad.{p}.{kind}", f"mad.{p}", kind, (kind,) * 3, kind) for p in ("lo", "hi")]
        if kind[1:] != "64":
            wide = f"{kind[0]}{2 * int(kind[1:])}"
            cases.append((f"mul.wide.{kind}", "mul.wide", kind, (kind,) * 2, wide))
            cases.append((f"mad.wide.{kind}", "mad.wide", kind, (kind, kind, wide), wide))
        cases.append((f"sad.{kind}", "sad", kind, (kind, kind, f"u{kind[1:]}"), f"u{kind[1:]}"))
        cases.append((f"shr.{kind}", "shr", kind, (kind, "u32"), kind))
        if kind[0] == "s":
            cases += [(f"{n}.{kind}", n, kind, (kind,), kind) for n in ("abs", "neg")]
    for width in ("16", "32", "64"):
        kind = f"b{width}"
        cases += [(f"{n}.{kind}", n, kind, (kind,) * 2, kind) for n in ("and", "or", "xor")]
        cases += [(f"{n}.{kind}", n, kind, (kind,), kind) for n in ("not", "cnot")]
        cases.append((f"shl.{kind}", "shl", kind, (kind, "u32"), kind))
    for width in ("32", "64"):
        kind = f"b{width}"
        cases += [(f"{n}.{kind}", n, kind, (kind,), "u32") for n in ("popc", "clz")]
        cases.append((f"brev.{kind}", "brev", kind, (kind,), kind))
        cases.append((f"bfi.{kind}", "bfi", kind, (kind, kind, "u32", "u32"), kind))
        for sign in "us":
            kind = f"{sign}{width}"
            cases.append((f"bfe.{kind}", f"bfe.{sign}", kind, (kind, "u32", "u32"), kind))
            finds = ("bfind", "bfind.shiftamt")
            cases += [(f"{name}.{kind}", name, kind, (kind,), "u32") for name in finds]
    cases.append(("prmt.b32", "prmt", "b32", ("b32",) * 3, "b32"))
    for how in itertools.product("lr", ("clamp", "wrap")):
        name = f"shf.{how[0]}.{how[1]}"
        cases.append((f"{name}.b32", name, "b32", ("b32", "b32", "u32"), "b32"))
    return cases


@pytest.mark.parametrize("case", integer_cases(), ids=lambda case: case[0])
def test_integer_instruction(case: tuple[str, str, str, tuple[str, ...], str]) -> None:
    opcode, name, kind, sources, result = case
    count = 400
    columns = [integers(s, count, f"{opcode}{n}") for n, s in enumerate(sources)]
    if name.startswith("sh"):
        columns[-1] = [x % 80 for x in columns[-1]]
    if name.startswith("bf") and len(sources) > 2:
        columns[-1], columns[-2] = [x % 80 for x in columns[-1]], [x % 80 for x in columns[-2]]
    function, width = oracle.INTEGER[name], oracle.bits_of(kind)
    want = [
        oracle.as_bits(
            function(width, *map(oracle.as_value, row, sources)), result
        )
        for row in zip(*columns, strict=True)
    ]  # fmt: skip
    check(opcode, columns, want, result)


def float_cases() -> list[tuple[str, str, str, str, bool]]:
    cases = []
    names = ("add", "sub", "mul", "div", "fma", "rcp", "sqrt")
    for kind, mode in itertools.product(("f32", "f64"), MODES):
        cases += [(f"{name}.{mode}.{kind}", name, kind, mode, False) for name in names]
    for kind in ("f16", "f32", "f64"):
        for name in ("min", "max"):
            cases.append((f"{name}.{kind}", name, kind, "rn", False))
            cases.append((f"{name}.NaN.{kind}", name, kind, "rn", True))
        cases.append((f"abs.{kind}", "abs", kind, "rn", False))
    cases += [(f"{n}.rn.f16", n, "f16", "rn", False) for n in ("add", "sub", "mul", "fma")]
    return cases


ARITY = {"fma": 3, "rcp": 1, "sqrt": 1, "abs": 1}


@pytest.mark.parametrize("case", float_cases(), ids=lambda case: case[0])
def test_float_instruction(case: tuple[str, str, str, str, bool]) -> None:
    opcode, name, kind, mode, strict = case
    columns = [floats(kind, 600, f"{opcode}{n}") for n in range(ARITY.get(name, 2))]
    function = oracle.float_operation(name, kind, mode, strict)
    want = []
    for row in zip(*columns, strict=True):
        value = function(*(oracle.as_value(bits, kind) for bits in row))
        want.append(oracle.as_bits(value, kind))
    what = instruction(opcode, " ".join(["%d"] * (len(columns) + 1)))
    assert len(operation(what).sources) == len(columns)
    got_check(what, columns, want, kind)


def got_check(what: Instruction, columns: list[list[int]], want: list[int], kind: str) -> None:
    operands = " ".join(["%d"] * (len(columns) + 1))
    got = compute(what.opcode, columns, operands)[0]
    bad = [
        (tuple(oracle.as_value(c[n], kind) for c in columns), oracle.as_value(g, kind), hex(w))
        for n, (g, w) in enumerate(zip(got, want, strict=True))
        if g != w and not (w < 0 and math.isnan(oracle.as_value(g, kind)))
    ]
    assert not bad, f"{what.opcode}: {len(bad)} of {len(want)}: {bad[:4]}"


def whole(value: float, how: str) -> float:
    return {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[how](value)


def convert(value: Any, to: str, of: str, mode: str, sat: bool) -> Any:
    """The value of ``cvt``; an int or a float."""
    if to[0] == "f":
        if of[0] == "f":
            if not math.isfinite(value):
                result = value
            elif mode.endswith("i"):
                result = math.copysign(float(whole(value, mode)), value)
            else:
                negative = math.copysign(1, value) < 0
                result = oracle.to_float(oracle.Fraction(value), to, mode, negative)
        else:
            result = oracle.to_float(oracle.Fraction(value), to, mode)
        if sat:
            return 0.0 if math.isnan(result) else min(max(result, 0.0), 1.0) + 0.0
        return result
    width = oracle.bits_of(to)
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if to[0] == "s" else (0, (1 << width) - 1)
    if of[0] != "f":
        return min(max(value, low), high) if sat else value
    if math.isnan(value):
        return 1 << width - 1 if of == "f64" or width == 64 else 0
    if math.isinf(value):
        return high if value > 0 else low
    return min(max(whole(value, mode), low), high)


def conversions() -> list[tuple[str, str, str, str, bool]]:
    cases = []
    every = [f"{s}{w}" for s in "us" for w in (8, 16, 32, 64)]
    for to, of in itertools.product(every, every):
        cases.append((f"cvt.{to}.{of}", to, of, "", False))
        cases.append((f"cvt.sat.{to}.{of}", to, of, "", True))
    for to, of in itertools.product(every, ("f16", "f32", "f64")):
        cases += [(f"cvt.{m}.{to}.{of}", to, of, m, False) for m in ("rni", "rzi", "rmi", "rpi")]
        cases += [(f"cvt.{m}.{of}.{to}", of, to, m, False) for m in MODES]
    for to, of in itertools.product(("f16", "f32", "f64"), repeat=2):
        if to == of:
            cases += [
                (f"cvt.{m}.{to}.{of}", to, of, m, False) for m in ("rni", "rzi", "rmi", "rpi")
            ]
            cases.append((f"cvt.sat.{to}.{of}", to, of, "rn", True))
        elif oracle.bits_of(to) < oracle.bits_of(of):
            cases += [(f"cvt.{m}.{to}.{of}", to, of, m, False) for m in MODES]
        else:
            cases.append((f"cvt.{to}.{of}", to, of, "rn", False))
    return cases


@pytest.mark.parametrize("case", conversions(), ids=lambda case: case[0])
def test_conversion(case: tuple[str, str, str, str, bool]) -> None:
    opcode, to, of, mode, sat = case
    make = floats if of[0] == "f" else integers
    column = make(of, 150, opcode)
    if of[0] == "f" and to[0] != "f":
        limits = [0.5, 1.5, 2.5, -0.5, -1.5, 127.5, 255.5, -128.5, 32767.5, -0.25]
        column += [oracle.as_bits(x, of) for x in limits]
    want = [oracle.as_bits(convert(oracle.as_value(x, of), to, of, mode, sat), to) for x in column]
    check(opcode, [column], want, to)


COMPARE = {
    "eq": lambda a, b: a == b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64", "s16", "f32", "f64", "f16"])
def test_comparisons(kind: str) -> None:
    make = floats if kind[0] == "f" else integers
    columns = [make(kind, 500, f"{kind}{n}") for n in range(2)]
    rows = [[oracle.as_value(x, kind) for x in row] for row in zip(*columns, strict=True)]
    for name, test in COMPARE.items():
        want = [int(test(a, b)) for a, b in rows]
        got = compute(f"setp.{name}.{kind}", columns)
        assert got == [want, [1 - w for w in want]]
        if kind[0] == "f":
            unordered = [int(w or a != a or b != b) for w, (a, b) in zip(want, rows, strict=True)]
            assert compute(f"setp.{name}u.{kind}", columns)[0] == unordered
    if kind[0] == "f":
        number = [int(a == a and b == b) for a, b in rows]
        assert compute(f"setp.num.{kind}", columns)[0] == number
        assert compute(f"setp.nan.{kind}", columns)[0] == [1 - n for n in number]
        want = [int(n and a != b) for n, (a, b) in zip(number, rows, strict=True)]
        assert compute(f"setp.ne.{kind}", columns)[0] == want
        want = [int(not n or a != b) for n, (a, b) in zip(number, rows, strict=True)]
        assert compute(f"setp.neu.{kind}", columns)[0] == want
    else:
        assert compute(f"setp.ne.{kind}", columns)[0] == [int(a != b) for a, b in rows]
    choice = [n % 2 for n in range(500)]
    raw = f"b{oracle.bits_of(kind)}"
    joined = compute(f"setp.lt.and.{kind}", [*columns, choice])
    less = [int(a < b) for a, b in rows]
    assert joined[0] == [x & c for x, c in zip(less, choice, strict=True)]
    assert joined[1] == [(1 - x) & c for x, c in zip(less, choice, strict=True)]
    picked = compute(f"selp.{raw}", [*columns, choice])[0]
    assert picked == [a if c else b for a, b, c in zip(*columns, choice, strict=True)]


# Documented errors: relative ones (2**-x) in ulp, absolute ones as they are.
APPROXIMATE = {
    "ex2.approx.ftz.f32": (lambda x: 2.0**x, -20, 20, 2.0**-22.5, True),
    "lg2.approx.f32": (math.log2, 0.01, 100, 2.0**-21, False),
    "sin.approx.f32": (math.sin, -3.14, 3.14, 2.0**-20.5, False),
    "cos.approx.f32": (math.cos, -3.14, 3.14, 2.0**-20.5, False),
    "tanh.approx.f32": (math.tanh, -5, 5, 2.0**-10.987, True),
    "rsqrt.approx.f32": (lambda x: 1 / math.sqrt(x), 0.001, 1000, 2.0**-22.9, True),
    "rcp.approx.ftz.f32": (lambda x: 1 / x, 0.001, 1000, 2.0**-23, True),
    "sqrt.approx.f32": (math.sqrt, 0.001, 1000, 2.0**-23, True),
    "rcp.approx.ftz.f64": (lambda x: 1 / x, 0.001, 1000, 2.0**-20, True),
    "rsqrt.approx.f64": (lambda x: 1 / math.sqrt(x), 0.001, 1000, 2.0**-22.9, True),
}


@pytest.mark.parametrize("opcode", APPROXIMATE)
def test_approximation_is_within_its_documented_error(opcode: str) -> None:
    function, low, high, bound, relative = APPROXIMATE[opcode]
    kind = opcode[-3:]
    values = rng(opcode).uniform(low, high, 500)
    column = [oracle.as_bits(float(np.float32(v)), kind) for v in values]
    for bits, got in zip(column, compute(opcode, [column], "%d %a")[0], strict=True):
        want = function(oracle.as_value(bits, kind))
        error = abs(oracle.as_value(got, kind) - want)
        assert error <= bound * (abs(want) if relative else 1)


def test_flushing_and_saturation() -> None:
    tiny, one, nan = 0x00000001, 0x3F800000, 0x7FC00000
    pair = [tiny, 0x80000001]
    assert compute("add.rn.ftz.f32", [pair, pair], "%d %a %b") == [[0, 0x80000000]]
    assert compute("mul.rn.ftz.f32", [[0x00800000], [0x3F000000]], "%d %a %b") == [[0]]
    assert compute("add.rn.sat.f32", [[one, nan, 0xBF800000], [one, one, 0]], "%d %a %b") == [
        [one, 0, 0]
    ]
    assert compute("setp.eq.ftz.f32", [[tiny], [0]])[0] == [1]
    assert compute("fma.rm.f32", [[one], [one], [0xBF800000]], "%d %a %b %c") == [[0x80000000]]


def test_bfloat16() -> None:
    values = [0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0x7FC00000, 0x7F7FFFFF, 0x80000000]
    want = [0x3F80, 0x3F80, 0x3F82, 0x3F81, 0x7FFF, 0x7F80, 0x8000]
    assert compute("cvt.rn.bf16.f32", [values]) == [want]
    assert compute("cvt.f32.bf16", [[0x3F80, 0xC020]]) == [[0x3F800000, 0xC0200000]]
    assert compute("add.rn.bf16", [[0x3F80], [0x4000]], "%d %a %b") == [[0x4040]]
    assert compute("mul.rn.f16x2", [[0x40003C00], [0x42004400]], "%d %a %b") == [[0x46004400]]


@pytest.mark.parametrize("table", [0x80, 0xFE, 0x96, 0xE8, 0xCA, 0x0F])
def test_logic_of_three(table: int) -> None:
    columns = [integers("b32", 50, f"lop{n}") for n in range(3)]
    what = operation(instruction("lop3.b32", f"%d %a %b %c {table}"))
    arrays = [np.array(c, np.uint32) for c in columns]
    got = what.compute(*arrays, arrays[0])
    for n, row in enumerate(zip(*columns, strict=True)):
        want = 0
        for bit in range(32):
            a, b, c = (x >> bit & 1 for x in row)
            want |= (table >> (a << 2 | b << 1 | c) & 1) << bit
        assert int(got[n]) == want


@pytest.mark.parametrize("name", ["finite", "infinite", "number", "notanumber", "normal",
                                  "subnormal"])  # fmt: skip
def test_float_classes(name: str) -> None:
    column = floats("f32", 300, name)
    values = [oracle.as_value(x, "f32") for x in column]
    tests = {
        "finite": math.isfinite, "infinite": math.isinf, "notanumber": math.isnan,
        "number": lambda x: not math.isnan(x),
        "normal": lambda x: math.isfinite(x) and abs(x) >= 2.0**-126,
        "subnormal": lambda x: 0 < abs(x) < 2.0**-126,
    }  # fmt: skip
    assert compute(f"testp.{name}.f32", [column])[0] == [int(tests[name](x)) for x in values]


def test_copysign_takes_the_sign_of_the_first() -> None:
    assert compute("copysign.f32", [[0xBF800000], [0x40000000]]) == [[0xC0000000]]


def test_dot_product_of_bytes() -> None:
    columns = [[0x80FF0102], [0x01020304], [10]]
    want = 10 + 2 * 4 + 1 * 3 + -1 * 2 + -128 * 1
    assert compute("dp4a.s32.s32", columns) == [[want % 2**32]]
    assert compute("dp4a.u32.u32", columns) == [[10 + 2 * 4 + 3 + 255 * 2 + 128]]


@pytest.mark.parametrize("width", [32, 64])
def test_carries_make_long_numbers(width: int) -> None:
    top, kind = 1 << width, f"u{width}"
    columns = [integers(kind, 300, f"carry{n}") for n in range(3)]
    carry = [n % 2 for n in range(300)]
    a, b, c = columns
    rows = list(zip(a, b, c, carry, strict=True))

    def both(totals: list[int]) -> list[list[int]]:
        return [[t % top for t in totals], [int(not 0 <= t < top) for t in totals]]

    assert compute(f"add.cc.{kind}", [a, b]) == both([x + y for x, y, _, _ in rows])
    assert compute(f"sub.cc.{kind}", [a, b]) == both([x - y for x, y, _, _ in rows])
    assert compute(f"addc.cc.{kind}", [a, b, carry]) == both([x + y + k for x, y, _, k in rows])
    assert compute(f"subc.cc.{kind}", [a, b, carry]) == both([x - y - k for x, y, _, k in rows])
    want = both([x * y % top + z for x, y, z, _ in rows])
    assert compute(f"mad.lo.cc.{kind}", columns) == want
    want = both([(x * y >> width) + z + k for x, y, z, k in rows])
    assert compute(f"madc.hi.cc.{kind}", [*columns, carry]) == want


# In test_short_floats.py and test_rare_instructions.py.
TESTED_ELSEWHERE = {"slct", "set", "mad24", "dp2a"}


def test_every_instruction_has_a_test() -> None:
    names = {case[0].split(".")[0] for case in (*integer_cases(), *float_cases(), *conversions())}
    names |= {opcode.split(".")[0] for opcode in APPROXIMATE}
    names |= {
        "addc",
        "subc",
        "madc",
        "setp",
        "selp",
        "lop3",
        "testp",
        "copysign",
        "dp4a",
    } | TESTED_ELSEWHERE
    names.add("mul24")
    assert set(FACTORIES) == names

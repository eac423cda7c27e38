"""PTX text to records and blocks: all forms that NVVM and inline assembly write."""

from __future__ import annotations

import pytest

from minijit.backends.emulator.blocks import EXIT, build_blocks
from minijit.backends.emulator.errors import (
    EmulationError,
    PtxSyntaxError,
    UnknownInstructionError,
)
from minijit.backends.emulator.inline import flatten
from minijit.backends.emulator.parser import parse
from minijit.backends.emulator.ptx import (
    Address,
    Immediate,
    Instruction,
    Label,
    Pair,
    Register,
    Symbol,
    Vector,
)

HEAD = ".version 9.5\n.target sm_90\n.address_size 64\n"
TEXT = (
    HEAD
    + """
// a comment; with { marks }
.visible .const .align 4 .b8 table[8] = {1, 2, 0xff};
.global .align 8 .u64 pointers[2] = {table, generic(table)+4};
.extern .shared .align 16 .b8 dynamic[];
.func  (.param .b32 func_retval0) twice(
\t.param .b32 twice_param_0
)
{
\t.reg .b32 %r<3>;
\tld.param.b32 %r1, [twice_param_0];
\tadd.s32 %r2, %r1, %r1;
\tst.param.b32 [func_retval0], %r2;
\tret;
}
.visible .entry main(
\t.param .u64 .ptr .align 1 main_param_0,
\t.param .align 8 .b8 main_param_1[24]
)
.maxntid 128, 1, 1
.pragma "nounroll";
{
\t.reg .pred %p<3>;
\t.reg .b32 %r<9>;
\t.reg .b64 %rd<4>;
\t.file 1 "kernel.py"
\t.loc\t1 7 3
\tmov.u32 %r1, %tid.x;
$L__loop:
\t.loc\t1 8 1
\t@!%p1 bra $L__end;
\t{ .reg .b32 t; mov.b32 t, 5; add.s32 %r2, %r1, t; }
\t{ // callseq 0
\t.param .b32 param0;
\tst.param.b32 [param0], %r2;
\t.param .b32 retval0;
\tcall.uni (retval0),
\ttwice,
\t(
\tparam0
\t);
\tld.param.b32 %r3, [retval0];
\t}
\tld.global.v4.f32 {%r4, %r5, %r6, %r7}, [%rd1+-16];
\tshfl.sync.bfly.b32 %r8|%p2, %r3, 0x10, 31, -1;
\tfma.rn.f32 %r3, %r4, 0f3F800000, 0d4000000000000000;
\tsetp.ne.s32 %p1, %r3, -7;
\tbra.uni $L__loop;
$L__end:
\tst.shared.b32 [dynamic+4], %r2;
\tret;
}
"""
)


def body(text: str = TEXT) -> list[Instruction]:
    return [i for i in parse(text).function("main").body if isinstance(i, Instruction)]


def test_module() -> None:
    module = parse(TEXT)
    assert module.target == 90
    table, pointers, dynamic = module.variables
    assert (table.space, table.size, table.initial) == ("const", 8, b"\1\2\xff\0\0\0\0\0")
    assert pointers.addresses == ((0, Symbol("table")), (8, Symbol("table", 4)))
    assert (dynamic.space, dynamic.align, dynamic.size) == ("shared", 16, 0)
    twice, main = module.functions
    assert (twice.entry, main.entry) == (False, True)
    assert [(p.name, p.size, p.align) for p in main.params] == [
        ("main_param_0", 8, 8),
        ("main_param_1", 24, 8),
    ]
    assert ("%r", 9, "b32") in main.registers


def test_operands() -> None:
    by_name = {item.opcode: item for item in body()}
    load = by_name["ld.global.v4.f32"]
    assert load.operands == (
        Vector(tuple(Register(f"%r{n}") for n in (4, 5, 6, 7))),
        Address(Register("%rd1"), -16),
    )
    shuffle = by_name["shfl.sync.bfly.b32"]
    assert shuffle.operands[0] == Pair(Register("%r8"), Register("%p2"))
    assert shuffle.operands[2:] == (Immediate(16), Immediate(31), Immediate(-1))
    fma = by_name["fma.rn.f32"]
    assert fma.operands[2:] == (Immediate(0x3F800000, 32), Immediate(0x4000000000000000, 64))
    assert by_name["st.shared.b32"].operands[0] == Address(Symbol("dynamic"), 4)


def test_lines_of_text_and_source() -> None:
    first, branch = body()[:2]
    lines = TEXT.splitlines()
    assert lines[first.line - 1].strip() == "mov.u32 %r1, %tid.x;"
    assert lines[branch.line - 1].strip() == "@!%p1 bra $L__end;"
    assert (first.source, branch.source) == (("kernel.py", 7), ("kernel.py", 8))
    assert branch.guard == Register("%p1", negated=True)


def test_names_of_inner_braces_are_their_own() -> None:
    inner = next(item for item in body() if item.opcode == "mov.b32").operands[0]
    assert isinstance(inner, Register)
    assert inner.name not in ("t", "%t")
    assert parse(TEXT).function("main").body[1] == Label("$L__loop")


def test_calls_are_replaced() -> None:
    flat = flatten(parse(TEXT), "main")
    items = [item for item in flat.body if isinstance(item, Instruction)]
    assert "call" not in {item.name for item in items}
    assert [item.opcode for item in items if item.operands and item.name == "add"] == [
        "add.s32",
        "add.s32",
    ]
    assert max(flat.depths) == 1
    stored = next(i for i in items if i.opcode == "st.param.b32")
    loaded = next(i for i in items if i.opcode == "ld.param.b32")
    # The caller's variable is the parameter.
    assert stored.operands[0] == loaded.operands[1]


def test_blocks_and_their_order() -> None:
    blocks = build_blocks(flatten(parse(TEXT), "main"))
    loop = next(b for b in blocks if b.branch is not None)
    end = blocks[loop.taken]
    assert end.taken == EXIT
    # Who leaves the loop waits for those inside.
    assert all(b.rank <= end.rank for b in blocks if b.length)
    meeting = next(b for b in blocks if b.meeting)
    assert [item.name for item in meeting.instructions] == ["shfl"]
    assert "%r1" in loop.live_in
    assert "%r2" in end.live_in


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (".magic 3;", PtxSyntaxError),
        (".visible .entry main()\n{\nbra nowhere;\n}", PtxSyntaxError),
        (".visible .entry main()\n{\nmov.u32 %r1, [[3]];\n}", PtxSyntaxError),
        (".visible .entry main()\n{\ncall.uni printf, ();\n}", UnknownInstructionError),
        (".visible .entry other()\n{\nret;\n}", EmulationError),
    ],
)
def test_what_cannot_be_read_is_an_error(line: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        build_blocks(flatten(parse(HEAD + line), "main"))

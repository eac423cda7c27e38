"""Calls that leave a PTX text: other texts, function pointers, the driver; barriers of a grid."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from numba import cuda
from numba.cuda import float32, int32

from minijit.backends.emulator.errors import (
    BarrierError,
    EmulationError,
    MemoryAccessError,
    SharedRaceError,
    UnknownInstructionError,
)
from minijit.backends.emulator.image import Image
from minijit.backends.emulator.memory import GlobalMemory
from minijit.backends.emulator.program import Program
from tests.backends.emulator.emulated_kernels import launch, run, unwritten

I32 = np.int32
HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
CALLER = (
    HEAD
    + """
.extern .func (.param .b32 out) twice (.param .b32 x);
.extern .global .align 4 .b8 total[4];
.visible .entry kernel(.param .u64 p) {
    .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    { .param .b32 a; .param .b32 b;
      st.param.b32 [a], %r1;
      call.uni (b), twice, (a);
      ld.param.b32 %r2, [b]; }
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r2;
    red.global.add.u32 [total], %r2;
    ret;
}
"""
)
CALLEE = (
    HEAD
    + """
.visible .global .align 4 .u32 total = 5;
.visible .func (.param .b32 out) twice(.param .b32 x) {
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [x];
    add.u32 %r2, %r1, %r1;
    st.param.b32 [out], %r2;
    ret;
}
"""
)


def test_texts_are_linked_and_variables_shared() -> None:
    memory = GlobalMemory()
    image = Image.of((CALLER, CALLEE), memory)
    out = np.zeros(32, I32)
    program = Program.of_image(image, "kernel", memory)
    for _ in range(2):
        program.launch(memory, [struct.pack("<Q", memory.address(out))], (1, 1, 1), (32, 1, 1))
    assert out.tolist() == [2 * n for n in range(32)]
    address, size = image.symbol("total")
    buffer = memory.find(address)
    assert buffer is not None
    assert size == 4
    assert int(buffer.view(4)[0]) == 5 + 2 * sum(out)
    with pytest.raises(KeyError):
        image.symbol("nothing")


def test_a_function_without_a_body_is_named() -> None:
    memory = GlobalMemory()
    with pytest.raises(UnknownInstructionError, match="twice, which has no body"):
        Program.of(CALLER, "kernel", memory)


POINTERS = (
    HEAD
    + """
.func (.param .b32 out) one(.param .b32 x) {
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [x]; add.u32 %r2, %r1, 1; st.param.b32 [out], %r2; ret;
}
.func (.param .b32 out) ten(.param .b32 x) {
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [x]; mul.lo.u32 %r2, %r1, 10; st.param.b32 [out], %r2; ret;
}
.global .align 8 .u64 table[2] = {one, ten};
.visible .entry kernel(.param .u64 p, .param .u32 wrong) {
    .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r4, [wrong];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 1;
    mul.wide.u32 %rd2, %r2, 8;
    mov.u64 %rd3, table;
    add.s64 %rd3, %rd3, %rd2;
    ld.global.u64 %rd4, [%rd3];
    cvt.u64.u32 %rd5, %r4;
    add.s64 %rd4, %rd4, %rd5;
    { .param .b32 a; .param .b32 b;
      st.param.b32 [a], %r1;
      proto : .callprototype (.param .b32 _) _ (.param .b32 _);
      call (b), %rd4, (a), proto;
      ld.param.b32 %r3, [b]; }
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r3;
    ret;
}
"""
)


def test_threads_call_through_pointers() -> None:
    out = np.zeros(32, I32)
    launch(POINTERS, [out, np.uint32(0)])
    assert out.tolist() == [10 * n if n % 2 else n + 1 for n in range(32)]
    with pytest.raises(
        EmulationError, match=r"thread 0: the pointer leads to no function .* 1 arg"
    ):
        launch(POINTERS, [out, np.uint32(4)])


RECURSIVE = (
    HEAD
    + """
.func (.param .b32 out) count (.param .b32 x);
.global .align 8 .u64 table[1] = {count};
.func (.param .b32 out) again (.param .b32 x) {
    .reg .b32 %r<3>; .reg .b64 %rd<2>;
    ld.param.u32 %r1, [x];
    { .param .b32 a; .param .b32 b;
      st.param.b32 [a], %r1;
      CALL
      ld.param.b32 %r2, [b]; }
    st.param.b32 [out], %r2; ret;
}
.func (.param .b32 out) count (.param .b32 x) {
    .reg .pred %p<2>; .reg .b32 %r<4>;
    ld.param.u32 %r1, [x];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra END;
    sub.u32 %r2, %r1, 1;
    { .param .b32 a; .param .b32 b;
      st.param.b32 [a], %r2;
      call (b), again, (a);
      ld.param.b32 %r3, [b]; }
    add.u32 %r1, %r3, 1;
END:
    st.param.b32 [out], %r1; ret;
}
.visible .entry kernel(.param .u64 p, .param .u32 turns) {
    .reg .b32 %r<4>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r1, [turns];
    { .param .b32 a; .param .b32 b;
      st.param.b32 [a], %r1;
      call (b), count, (a);
      ld.param.b32 %r3, [b]; }
    st.global.u32 [%rd1], %r3;
    ret;
}
"""
)
CALLS = {
    "direct": "call (b), count, (a);",
    "by pointer": """ld.global.u64 %rd1, [table];
      proto : .callprototype (.param .b32 _) _ (.param .b32 _);
      call (b), %rd1, (a), proto;""",
}


@pytest.mark.parametrize("call", CALLS)
def test_recursion_is_a_fault_that_names_the_functions(call: str) -> None:
    text, out = RECURSIVE.replace("CALL", CALLS[call]), np.ones(1, I32)
    launch(text, [out, np.uint32(0)], block=1)
    assert out[0] == 0
    said = r"kernel, block 0, thread 0: recursion, .*: count -> again -> count\n.*: call \(b\), "
    with pytest.raises(EmulationError, match=said):
        launch(text, [out, np.uint32(1)], block=1)


def printing(x: Any) -> None:
    i = cuda.grid(1)
    if i % 16 == 3:
        print(i, x[i], "text", float32(2.5) * i, i > 5)  # noqa: T201 - in the kernel


def test_printf(capsys: pytest.CaptureFixture[str]) -> None:
    run(printing, np.arange(32, dtype=np.int64) * -(2**40))
    want = "".join(f"{n} {n * -(2**40)} text {2.5 * n:f} {n > 5}\n" for n in (3, 19))
    assert capsys.readouterr().out == want


FORMATS = ["%5d|%-4d|%+d|%%", "%x %X %o %u", "%8.3f|%e|%g", "%c%s", "%lld %hd"]
VALUES: list[tuple[tuple[str, Any], ...]] = [
    (("i", 42), ("i", -7), ("i", 3)),
    (("I", 255), ("I", 255), ("I", 8), ("I", 2**32 - 1)),
    (("d", 3.14159), ("d", 1e10), ("d", 0.5)),
    (("i", 65), ("s", "bc")),
    (("q", -(2**40)), ("i", -3)),
]
SHOWN = ["   42|-7  |+3|%", "ff FF 10 4294967295", "   3.142|1.000000e+10|0.5", "Abc",
         "-1099511627776 -3"]  # fmt: skip


@pytest.mark.parametrize(("form", "values", "shown"), [*zip(FORMATS, VALUES, SHOWN, strict=True)])
def test_formats(form: str, values: Any, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    memory = GlobalMemory()
    held = [np.frombuffer(form.encode() + b"\0", np.uint8).copy()]
    packed = b""
    for code, value in values:
        if code == "s":
            held.append(np.frombuffer(value.encode() + b"\0", np.uint8).copy())
            code, value = "Q", memory.address(held[-1])
        size = struct.calcsize(code)
        packed = packed.ljust(-(-len(packed) // size) * size, b"\0") + struct.pack(code, value)
    held.append(np.frombuffer(packed, np.uint8).copy())
    text = (
        HEAD
        + """
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);
.visible .entry kernel(.param .u64 f, .param .u64 v) {
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [f]; ld.param.u64 %rd2, [v];
    { .param .b64 a; .param .b64 b; .param .b32 r;
      st.param.b64 [a], %rd1; st.param.b64 [b], %rd2;
      call.uni (r), vprintf, (a, b); }
    ret;
}
"""
    )
    launch(text, [held[0], held[-1]], block=1, memory=memory)
    assert capsys.readouterr().out == shown


HEAP = (
    HEAD
    + """
.extern .func (.param .b64 r) malloc (.param .b64 n);
.extern .func free (.param .b64 p);
.visible .entry kernel(.param .u64 p, .param .u32 off) {
    .reg .b32 %r<4>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r2, [off];
    cvt.u64.u32 %rd5, %r2;
    mov.u32 %r1, %tid.x;
    mov.u64 %rd2, 4;
    { .param .b64 a; .param .b64 r;
      st.param.b64 [a], %rd2;
      call.uni (r), malloc, (a);
      ld.param.b64 %rd3, [r]; }
    st.u32 [%rd3], %r1;
    ld.u32 %r3, [%rd3];
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd1, %rd1, %rd4;
    st.global.u32 [%rd1], %r3;
    add.s64 %rd3, %rd3, %rd5;
    { .param .b64 a;
      st.param.b64 [a], %rd3;
      call.uni free, (a); }
    ret;
}
"""
)


def test_heap() -> None:
    out = np.zeros(32, I32)
    launch(HEAP, [out, np.uint32(0)])
    assert out.tolist() == list(range(32))
    with pytest.raises(MemoryAccessError, match="which malloc did not return"):
        launch(HEAP, [out, np.uint32(4)])


def summed(parts: Any, out: Any) -> None:
    i = cuda.grid(1)
    parts[i] = int32(i)
    cuda.cg.this_grid().sync()
    if i == 0:
        total = int32(0)
        for k in range(128):
            total += parts[k]
        out[0] = total


def test_barrier_of_the_grid() -> None:
    memory = GlobalMemory()
    out = np.zeros(1, I32)
    parts = unwritten(memory, 128, I32)
    # Blocks that run together only by chance would not do: one batch must hold the grid.
    run(summed, parts, out, grid=4, block=32, memory=memory, lanes=32)
    assert out[0] == sum(range(128))


def half_a_grid(out: Any) -> None:
    if cuda.blockIdx.x == 0:
        cuda.cg.this_grid().sync()
    out[0] = int32(1)


def test_barrier_of_the_grid_that_not_all_reach() -> None:
    with pytest.raises(BarrierError, match="never come"):
        run(half_a_grid, np.zeros(1, I32), grid=2)


def in_a_short_warp(out: Any) -> None:
    shared = cuda.shared.array(32, int32)
    i = cuda.threadIdx.x
    shared[i] = int32(i)
    cuda.syncwarp()
    out[i] = shared[9 - i]


def test_masks_may_name_threads_that_a_warp_does_not_have() -> None:
    out = np.zeros(10, I32)
    run(in_a_short_warp, out, block=10)
    assert out.tolist() == list(range(9, -1, -1))


def added(out: Any) -> None:
    shared = cuda.shared.array(1, int32)
    i = cuda.threadIdx.x
    if i == 0:
        shared[0] = 0
    cuda.syncthreads()
    old = shared[0]
    cuda.atomic.add(shared, 0, 1)
    out[i] = old


def subtracted(out: Any) -> None:
    # Numba makes a loop around a compare-and-swap of this, and it starts with a plain read.
    shared = cuda.shared.array(1, float32)
    i = cuda.threadIdx.x
    if i == 0:
        shared[0] = float32(0)
    cuda.syncthreads()
    cuda.atomic.sub(shared, 0, float32(1))
    cuda.syncthreads()
    if i == 0:
        out[0] = shared[0]


def test_only_a_comparison_may_follow_a_read_of_others() -> None:
    out = np.zeros(1, np.float32)
    run(subtracted, out, block=64)
    assert out[0] == -64
    with pytest.raises(SharedRaceError):
        run(added, np.zeros(64, I32), block=64)

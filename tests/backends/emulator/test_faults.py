"""Planted errors: each kernel does one thing wrong, and the emulator says what and where."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cuda
from numba.core import types
from numba.cuda import float32, int32, int64

from minijit.backends.emulator.errors import (
    BarrierError,
    EmulationError,
    HungKernelError,
    MemoryAccessError,
    SharedRaceError,
    UninitialisedReadError,
    UnknownInstructionError,
)
from minijit.backends.emulator.memory import GlobalMemory
from tests.backends.emulator.emulated_kernels import launch, ptx_of, run, unwritten

F32 = np.float32


def zeros(size: int, dtype: Any = F32) -> Any:
    return np.zeros(size, dtype)


def missing_barrier(out: Any) -> None:
    held = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    held[i] = float32(i)
    out[i] = held[63 - i]


def with_barrier(out: Any) -> None:
    held = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    held[i] = float32(i)
    cuda.syncthreads()
    out[i] = held[63 - i]


def barrier_too_few(out: Any) -> None:
    # A second round that overwrites what others still read.
    held = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    for turn in range(3):
        held[i] = float32(i + turn)
        cuda.syncthreads()
        out[i] = held[63 - i]


def two_writers(out: Any) -> None:
    held = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    held[i // 2] = float32(i)
    cuda.syncthreads()
    out[i] = held[i // 2]


def same_value_by_two_warps(out: Any) -> None:
    held = cuda.shared.array(1, float32)
    held[0] = float32(7)
    cuda.syncthreads()
    out[cuda.threadIdx.x] = held[0]


def unwritten_shared(out: Any) -> None:
    held = cuda.shared.array(65, float32)
    i = cuda.threadIdx.x
    held[i] = float32(i)
    cuda.syncthreads()
    out[i] = held[i + 1]


def beyond_shared(out: Any) -> None:
    held = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    held[i + 1] = float32(i)
    cuda.syncthreads()
    out[i] = held[i]


def off_by_one(out: Any) -> None:
    i = cuda.grid(1)
    if i <= 40:
        out[i] = float32(i)


def missing_tail(out: Any) -> None:
    out[cuda.grid(1)] = float32(1)


def before_the_start(out: Any) -> None:
    out[cuda.grid(1) - 1] = float32(1)


def overflowing_index(out: Any) -> None:
    i = int32(cuda.threadIdx.x) * int32(1 << 27)
    out[int32(i * int32(16)) // int32(1 << 27) + int32(i >> int32(20))] = float32(1)


def divergent_barrier(out: Any) -> None:
    i = cuda.threadIdx.x
    if i < 40:
        cuda.syncthreads()
    out[i] = float32(1)


def early_exit(out: Any) -> None:
    i = cuda.threadIdx.x
    if i == 5:
        return
    cuda.syncthreads()
    out[i] = float32(1)


def shuffle_of_the_missing(out: Any) -> None:
    i = cuda.threadIdx.x
    value = float32(i)
    if i < 16:
        value = cuda.shfl_xor_sync(0xFFFF, value, 16)
    out[i] = value


def shuffle_without_partner(out: Any) -> None:
    i = cuda.threadIdx.x
    value = float32(i)
    if i < 16:
        value = cuda.shfl_down_sync(0xFFFFFFFF, value, 1)
    out[i] = value


def endless(out: Any) -> None:
    while out[0] == float32(0):
        out[1] = float32(1)


FAULTS: dict[str, tuple[Callable[[Any], None], type[Exception], int, str, str]] = {
    "missing barrier": (missing_barrier, SharedRaceError, 64, "thread", "held[63 - i]"),
    "barrier too few": (barrier_too_few, SharedRaceError, 64, "no barrier", "held[i] ="),
    "two writers": (two_writers, SharedRaceError, 64, "different values", "held[i // 2] ="),
    "two warps": (same_value_by_two_warps, SharedRaceError, 64, "by thread", "held[0] ="),
    "unwritten shared": (unwritten_shared, UninitialisedReadError, 64, "never", "held[i + 1]"),
    "beyond shared": (beyond_shared, MemoryAccessError, 64, "byte 256 of 256", "held[i + 1] ="),
    "off by one": (off_by_one, MemoryAccessError, 64, "byte 160 of a buffer of 160", "out[i] ="),
    "missing tail": (missing_tail, MemoryAccessError, 64, "byte 160 of a buffer", "out["),
    "before the start": (before_the_start, MemoryAccessError, 32, "at byte -4", "out["),
    "overflow": (overflowing_index, MemoryAccessError, 32, "of a buffer", "out["),
    "divergent barrier": (divergent_barrier, BarrierError, 64, "by 40 of", "cuda.syncthreads"),
    "early exit": (early_exit, BarrierError, 32, "by 31 of", "cuda.syncthreads()"),
    "missing partner": (shuffle_of_the_missing, UninitialisedReadError, 32, "shuffle", "shfl"),
    "partner elsewhere": (shuffle_without_partner, BarrierError, 32, "never come", "shfl"),
    "endless loop": (endless, HungKernelError, 32, "still running", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named_with_its_line(name: str) -> None:
    function, kind, block, message, code = FAULTS[name]
    with pytest.raises(kind, match=re.escape(message)) as caught:
        run(function, zeros(40 if "byte 160" in message else 64), block=block, steps=2000)
    text = str(caught.value)
    assert function.__name__ in text
    assert re.search(r"block \d+, thread \d+", text)
    lines, first = inspect.getsourcelines(function)
    named = re.search(r"PTX line \d+ \(.*test_faults\.py:(\d+)\)", text)
    assert named is not None
    assert code in lines[int(named[1]) - first]


def test_the_same_kernel_with_its_barrier_is_fine() -> None:
    out = zeros(64)
    run(with_barrier, out, block=64)
    assert out.tolist() == list(range(63, -1, -1))


def test_threads_of_a_warp_may_write_the_same_value_at_once() -> None:
    out = zeros(32)
    run(same_value_by_two_warps, out)
    assert out.tolist() == [7] * 32


def copy(source: Any, out: Any) -> None:
    i = cuda.grid(1)
    out[i] = source[i]


def test_read_of_memory_that_nothing_wrote() -> None:
    memory = GlobalMemory()
    source = unwritten(memory, 32, F32)
    assert np.isnan(source).all()
    with pytest.raises(UninitialisedReadError, match="byte 0 of a buffer was never written"):
        run(copy, source, zeros(32), memory=memory)
    # What the host or another kernel writes may be read.
    source[:16] = 1
    with pytest.raises(UninitialisedReadError, match="thread 16: byte 64"):
        run(copy, source, zeros(32), memory=memory)
    run(copy, zeros(32), source, memory=memory)
    out = unwritten(memory, 32, F32)
    run(copy, source, out, memory=memory)
    assert not out.any()


def test_write_to_read_only_memory() -> None:
    constant = zeros(32)
    constant.flags.writeable = False
    with pytest.raises(MemoryAccessError, match="read-only"):
        run(missing_tail, constant)


def test_memory_that_is_gone() -> None:
    memory = GlobalMemory()
    address = memory.address(zeros(32))
    text = ptx_of(missing_tail, types.void(types.CPointer(float32)))
    with pytest.raises(MemoryAccessError, match="belongs to no buffer"):
        launch(text, [np.uint64(address)], memory=memory)


def far_away(out: Any) -> None:
    i = cuda.threadIdx.x
    out[(int64(i) ^ int64(5)) - (int64(1) << int64(40))] = float32(1)


def test_address_far_from_any_buffer_is_laid_to_its_thread() -> None:
    with pytest.raises(MemoryAccessError, match=r"thread 5: .* belongs to no buffer"):
        run(far_away, zeros(32))


def test_misaligned_vector() -> None:
    text = ptx_of(copy, types.void(types.CPointer(float32), types.CPointer(float32)))
    text, count = re.subn(
        r"ld\.global\.(\w+)\s+(%\w+), (\[%\w+\]);", r"ld.global.v2.\1 {\2, \2}, \3;", text
    )
    assert count == 1
    with pytest.raises(MemoryAccessError, match=r"thread 1: address .* not a multiple of 8"):
        launch(text, [zeros(64), zeros(64)])


def test_write_to_what_the_kernel_reads_as_constant() -> None:
    text = ptx_of(copy, types.void(types.CPointer(float32), types.CPointer(float32)))
    text = text.replace("ld.global.", "ld.global.nc.")
    array = zeros(64)
    with pytest.raises(MemoryAccessError, match=r"ld\.global\.nc"):
        launch(text, [array, array])


def test_unknown_instruction_names_everything() -> None:
    text = ptx_of(missing_tail, types.void(types.CPointer(float32)))
    text = text.replace("st.global.", "st.async.global.")
    with pytest.raises(UnknownInstructionError, match=r"missing_tail.*PTX line \d+ at .*\.py:\d+"):
        launch(text, [zeros(32)])


def test_register_that_nothing_wrote() -> None:
    text = ptx_of(missing_tail, types.void(types.CPointer(float32)))
    text = re.sub(r"\tmov\.u32[^\n]*%tid\.x;", "", text)
    with pytest.raises(UninitialisedReadError, match=r"register (%r\d+) was .*\n.*, \1;"):
        launch(text, [zeros(32)])


PARTLY = """.version 8.0
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 p) {
    .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd1, %rd1, %rd2;
    setp.ge.u32 %p1, %r1, 16;
    @%p1 bra AFTER;
    mov.u32 %r2, VALUE;
AFTER:
    @GUARD st.global.u32 [%rd1], %r2;
    ret;
}
"""


@pytest.mark.parametrize("value", ["7", "%r1"])
def test_register_that_some_threads_wrote(value: str) -> None:
    text = PARTLY.replace("VALUE", value)
    with pytest.raises(UninitialisedReadError, match=r"thread 16: register %r2 .*\n.*: @%p1 st"):
        launch(text.replace("GUARD", "%p1"), [zeros(32)])
    assigned = text.replace("mov.u32 %r1,", "mov.u32 %r2, 9; mov.u32 %r1,")
    out = zeros(32, np.int32)
    launch(assigned.replace("@GUARD ", ""), [out])
    want = list(range(16)) if value == "%r1" else [7] * 16
    assert out.tolist() == want + [9] * 16


LOCAL = """.version 8.0
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 p) {
    .local .align 16 .b8 own[16];
    .reg .b16 %h<2>; .reg .b32 %r<6>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd1, %rd1, %rd2;
    mov.u16 %h1, 7;
    st.local.u32 [own], %r1;
    STORE
    ld.local.v2.u32 {%r2, %r3}, [own];
    add.u32 %r4, %r2, %r3;
    st.global.u32 [%rd1], %r4;
    ret;
}
"""


@pytest.mark.parametrize(
    ("store", "byte"),
    [
        ("", 4),
        ("st.local.u16 [own+4], %h1;", 6),
        ("st.local.u16 [own+6], %h1;", 4),
        ("st.local.u8 [own+4], %h1; st.local.u16 [own+6], %h1;", 5),
    ],
)
def test_local_memory_that_was_written_in_part(store: str, byte: int) -> None:
    said = rf"thread 0: byte {byte} of local memory was never written\n.*ld\.local\.v2"
    with pytest.raises(UninitialisedReadError, match=said):
        launch(LOCAL.replace("STORE", store), [zeros(32, np.int32)])


def test_local_memory_that_was_written_in_pieces() -> None:
    out = zeros(32, np.int32)
    pieces = "st.local.u16 [own+4], %h1; st.local.u8 [own+6], %h1; st.local.u8 [own+7], 0;"
    launch(LOCAL.replace("STORE", pieces), [out])
    assert out.tolist() == [n + 0x70007 for n in range(32)]


@pytest.mark.parametrize("name", ["%cluster_ctaid.x", "%tid.w", "%envreg0"])
def test_special_register_that_is_not_emulated(name: str) -> None:
    text = PARTLY.replace("VALUE", name).replace("@GUARD ", "")
    said = rf"register {name} .*\n.*mov\.u32 %r2, {name}"
    with pytest.raises(UninitialisedReadError, match=said):
        launch(text, [zeros(32)])


@pytest.mark.parametrize(
    "opcode",
    ["redux.sync.mul.u32", "match.any.sync.f32", "activemask.sync.b32"],
)
def test_unknown_exchange(opcode: str) -> None:
    text = PARTLY.replace("VALUE;", f"3; {opcode} %r2, %r1, 0xffffffff;").replace("@GUARD ", "")
    with pytest.raises(UnknownInstructionError, match=re.escape(f"unknown instruction {opcode}")):
        launch(text, [zeros(32)])


def test_trap_is_an_error() -> None:
    text = ptx_of(missing_tail, types.void(types.CPointer(float32)))
    text = text.replace("\tret;", "\ttrap;\n\tret;")
    with pytest.raises(EmulationError, match="stops itself"):
        launch(text, [zeros(32)])


def first_block_wins(out: Any) -> None:
    if cuda.threadIdx.x == 0 and out[0] == float32(0):
        out[0] = float32(cuda.blockIdx.x + 1)


def test_random_order_shows_dependence_on_the_order_of_blocks() -> None:
    results = set()
    for seed in range(8):
        out = zeros(1)
        run(first_block_wins, out, grid=16, order=np.random.default_rng(seed), lanes=32)
        results.add(float(out[0]))
    assert len(results) > 1

"""What threads do together: divergence, shuffles, votes, atomics, locks, calls, all memories."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numba import cuda
from numba.core import types
from numba.cuda import float32, int32, int64, uint32

from minijit.backends.emulator.counters import Counters
from tests.backends.emulator.emulated_kernels import launch, ptx_of, run

F32, I32, U32 = np.float32, np.int32, np.uint32
CAPABILITIES = [(8, 0), (9, 0), (10, 0)]


def collatz(out: Any) -> None:
    i = cuda.grid(1)
    n, steps = int64(i + 1), 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    out[i] = int32(steps)


@pytest.mark.parametrize("cc", CAPABILITIES)
def test_threads_that_leave_a_loop_at_different_times(cc: tuple[int, int]) -> None:
    def steps(n: int) -> int:
        return 0 if n == 1 else 1 + steps(n // 2 if n % 2 == 0 else 3 * n + 1)

    out = np.zeros(200, I32)
    run(collatz, out, grid=2, block=100, cc=cc)
    assert out.tolist() == [steps(n + 1) for n in range(200)]


def exchanges(source: Any, out: Any) -> None:
    i = cuda.threadIdx.x
    value = source[i]
    out[i] = cuda.shfl_xor_sync(0xFFFFFFFF, value, 5)
    out[i + 64] = cuda.shfl_up_sync(0xFFFFFFFF, value, 3)
    out[i + 128] = cuda.shfl_down_sync(0xFFFFFFFF, value, 7)
    out[i + 192] = cuda.shfl_sync(0xFFFFFFFF, value, i % 11)


@pytest.mark.parametrize("cc", CAPABILITIES)
@pytest.mark.parametrize("dtype", [F32, I32, np.float64])
def test_shuffles(cc: tuple[int, int], dtype: Any) -> None:
    source, out = np.arange(64).astype(dtype) * 3, np.zeros(256, dtype)
    run(exchanges, source, out, block=64, cc=cc)
    lane, warp = np.arange(64) % 32, np.arange(64) // 32
    places = [lane ^ 5, np.where(lane < 3, lane, lane - 3), np.where(lane > 24, lane, lane + 7)]
    places.append(np.arange(64) % 11)
    for n, place in enumerate(places):
        assert out[64 * n : 64 * n + 64].tolist() == source[place + 32 * warp].tolist()


def partial_exchange(out: Any) -> None:
    i = cuda.threadIdx.x
    if i % 2 == 0:
        out[i] = cuda.shfl_xor_sync(0x55555555, int32(i), 2)
    else:
        out[i] = cuda.shfl_xor_sync(0xAAAAAAAA, int32(i), 4)


def test_shuffle_of_some_threads() -> None:
    out = np.zeros(64, I32)
    run(partial_exchange, out, block=64)
    assert out.tolist() == [i ^ (2 if i % 2 == 0 else 4) for i in range(64)]


def votes(out: Any) -> None:
    i = cuda.threadIdx.x
    out[i] = uint32(cuda.ballot_sync(0xFFFFFFFF, i % 3 == 0))
    out[i + 32] = uint32(cuda.all_sync(0xFFFFFFFF, i < 32))
    out[i + 64] = uint32(cuda.any_sync(0xFFFFFFFF, i == 40))
    out[i + 96] = uint32(cuda.match_any_sync(0xFFFFFFFF, i // 8))
    out[i + 128] = uint32(cuda.popc(uint32(i)))
    if i > 3:
        out[i + 160] = uint32(cuda.activemask())


def test_votes() -> None:
    out = np.zeros(192, U32)
    run(votes, out)
    assert set(out[:32]) == {sum(1 << i for i in range(0, 32, 3))}
    assert set(out[32:64]) == {1}
    assert set(out[64:96]) == {0}
    assert out[96:128].tolist() == [0xFF << i // 8 * 8 for i in range(32)]
    assert out[128:160].tolist() == [i.bit_count() for i in range(32)]
    assert set(out[164:]) == {0xFFFFFFF0}


def votes_of_ten(out: Any) -> None:
    i = cuda.threadIdx.x
    out[i] = uint32(cuda.ballot_sync(0xFFFFFFFF, i % 3 == 0))
    out[i + 10] = uint32(cuda.all_sync(0xFFFFFFFF, i < 10))
    out[i + 20] = uint32(cuda.match_any_sync(0xFFFFFFFF, i // 4))
    same, every = cuda.match_all_sync(0xFFFFFFFF, int32(7))
    out[i + 30] = uint32(same) if every else uint32(0)


def test_votes_of_a_short_warp() -> None:
    out = np.zeros(40, U32)
    run(votes_of_ten, out, block=10)
    assert set(out[:10]) == {0b1001001001}
    assert set(out[10:20]) == {1}
    assert out[20:30].tolist() == [0xF] * 4 + [0xF0] * 4 + [0x300] * 2
    assert set(out[30:]) == {0x3FF}


def block_votes(out: Any) -> None:
    i = cuda.threadIdx.x
    out[i] = cuda.syncthreads_count(int32(i % 5 == 0))
    out[i + 96] = cuda.syncthreads_and(int32(i < 90))
    out[i + 192] = cuda.syncthreads_or(int32(i == 77))


def test_barriers_that_count() -> None:
    out = np.zeros(288, I32)
    run(block_votes, out, block=96)
    assert set(out[:96]) == {20}
    assert not out[96:192].any()
    assert out[192:].all()


def histogram(values: Any, bins: Any, n: Any) -> None:
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.add(bins, values[i], int32(1))


def test_atomic_histogram() -> None:
    # Atomics of Numba want arrays: pointer, size and strides are parameters.
    values = np.random.default_rng(0).integers(0, 10, 1000).astype(I32)
    bins = np.zeros(10, I32)
    kind = types.Array(types.int32, 1, "C")
    text = ptx_of(histogram, types.void(types.CPointer(types.int32), kind, types.int32))
    array = [np.uint64(0), np.uint64(0), np.int64(10), np.int64(4), bins, np.int64(10), np.int64(4)]
    counters = Counters()
    launch(text, [values, *array, I32(1000)], 4, 256, counters=counters)
    assert bins.tolist() == np.bincount(values, minlength=10).tolist()
    assert counters.atomics == 1000


def ticket(bins: Any, out: Any) -> None:
    i = cuda.grid(1)
    out[i] = cuda.atomic.add(bins, 0, int32(1))
    cuda.atomic.max(bins, 1, int32(i))
    cuda.atomic.cas(bins, 2, 0, int32(i + 1))
    cuda.atomic.exch(bins, 3, int32(i))


def test_atomics_return_what_was_there() -> None:
    bins, out = np.zeros(4, I32), np.zeros(128, I32)
    kind = types.Array(types.int32, 1, "C")
    text = ptx_of(ticket, types.void(kind, types.CPointer(types.int32)))
    array = [np.uint64(0), np.uint64(0), np.int64(4), np.int64(4), bins, np.int64(4), np.int64(4)]
    launch(text, [*array, out], 2, 64)
    assert sorted(out.tolist()) == list(range(128))
    assert bins.tolist() == [128, 127, 1, 127]


def locked(lock: Any, total: Any) -> None:
    # One thread of each block takes the lock: a turn that only comes if the others wait in vain.
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        total[0] += int32(1)
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


def test_spin_lock_ends() -> None:
    lock, total = np.zeros(1, I32), np.zeros(1, I32)
    kind = types.Array(types.int32, 1, "C")
    text = ptx_of(locked, types.void(kind, types.CPointer(types.int32)))
    array = [np.uint64(0), np.uint64(0), np.int64(1), np.int64(4), lock, np.int64(1), np.int64(4)]
    launch(text, [*array, total], 8, 32)
    assert total[0] == 8


@cuda.jit(device=True, forceinline=False)
def slow_power(x, n):  # type: ignore[no-untyped-def]
    result = float32(1)
    for _ in range(n):
        result *= x
    return result


@cuda.jit(device=True)
def both(x, n):  # type: ignore[no-untyped-def]
    return slow_power(x, n) + slow_power(x, n + 1)


def calling(source: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i % 2 == 0:
        out[i] = both(source[i], i)
    else:
        out[i] = slow_power(source[i], 3)


@pytest.mark.parametrize("cc", CAPABILITIES)
def test_device_functions(cc: tuple[int, int]) -> None:
    source = np.linspace(0.5, 1.5, 32, dtype=F32)
    out = np.zeros(32, F32)
    run(calling, source, out, cc=cc)
    x, n = source.astype(np.float64), np.arange(32)
    want = np.where(n % 2 == 0, x**n + x ** (n + 1), x**3)
    np.testing.assert_allclose(out, want, rtol=1e-5)


def reversed_locally(source: Any, out: Any) -> None:
    i = cuda.grid(1)
    held = cuda.local.array(16, float32)
    for k in range(16):
        held[k] = source[16 * i + k]
    for k in range(16):
        out[16 * i + k] = held[(k + i) % 16]


def test_local_arrays_belong_to_their_thread() -> None:
    source, out = np.arange(512, dtype=F32), np.zeros(512, F32)
    run(reversed_locally, source, out)
    rows = source.reshape(32, 16)
    want = [np.roll(row, -i) for i, row in enumerate(rows)]
    assert out.reshape(32, 16).tolist() == np.array(want).tolist()


TABLE = np.arange(40, dtype=F32) ** 2


def from_constants(out: Any) -> None:
    table = cuda.const.array_like(TABLE)
    i = cuda.grid(1)
    out[i] = table[39 - i]


def test_constant_memory() -> None:
    out = np.zeros(40, F32)
    run(from_constants, out, block=40)
    assert out.tolist() == TABLE[::-1].tolist()


def coordinates(out: Any) -> None:
    i = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    b = cuda.blockIdx.x + cuda.gridDim.x * cuda.blockIdx.y
    out[b * 48 + i] += int32(1 + i + 100 * b)


def test_three_dimensions() -> None:
    from minijit.backends.emulator.memory import GlobalMemory
    from minijit.backends.emulator.program import Program

    memory = GlobalMemory()
    text = ptx_of(coordinates, types.void(types.CPointer(types.int32)))
    out = np.zeros(6 * 48, I32)
    name = next(line for line in text.splitlines() if ".entry" in line).split()[2].rstrip("(")
    address = memory.address(out).to_bytes(8, "little")
    Program.of(text, name, memory).launch(memory, [address], (2, 3, 1), (4, 3, 4))
    assert out.tolist() == [1 + i + 100 * b for b in range(6) for i in range(48)]


def mathematics(x: Any, out: Any) -> None:
    i = cuda.grid(1)
    out[i] = math.sin(x[i]) + math.exp(x[i]) * math.log(x[i] + 3) - math.atan2(x[i], 2.0)
    out[i] += math.pow(abs(x[i]), 1.7) + math.erf(x[i]) + math.sqrt(abs(x[i])) / math.tanh(x[i])
    out[i] += math.cos(x[i] * 1e6) + math.lgamma(x[i] + 4) + math.fmod(x[i], 0.3)


@pytest.mark.parametrize("cc", CAPABILITIES)
@pytest.mark.parametrize("dtype", [F32, np.float64])
def test_mathematics_of_libdevice(cc: tuple[int, int], dtype: Any) -> None:
    x = np.random.default_rng(1).uniform(-2, 2, 64).astype(dtype)
    out = np.zeros(64, dtype)
    run(mathematics, x, out, block=64, cc=cc)
    want = [
        math.sin(v) + math.exp(v) * math.log(v + 3) - math.atan2(v, 2)
        + abs(v) ** 1.7 + math.erf(v) + math.sqrt(abs(v)) / math.tanh(v)
        + math.cos(v * 1e6)
        + math.lgamma(v + 4) + math.fmod(v, 0.3)
        for v in x.tolist()
    ]  # fmt: skip
    np.testing.assert_allclose(out, want, rtol=2e-4 if dtype is F32 else 1e-12)


GUARDED = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry guarded(.param .u64 out)
{{
  .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
  .shared .align 4 .b8 line[128];
  .local .align 4 .b8 own[4];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  cvt.u64.u32 %rd2, %r2;
  add.s64 %rd3, %rd1, %rd2;
  mov.u32 %r3, line;
  add.s32 %r4, %r3, %r2;
  mov.u64 %rd4, own;
  mov.u32 %r5, 7;
  setp.gt.s32 %p1, %r1, 15;
  st.{space}.u32 [{place}], %r5;
  @%p1 st.{space}.u32 [{place}], %r1;
  ld.{space}.u32 %r6, [{place}];
  st.global.u32 [%rd3], %r6;
  ret;
}}
"""


@pytest.mark.parametrize(
    ("space", "place"), [("shared", "%r4"), ("local", "%rd4"), ("global", "%rd3")]
)
def test_a_store_of_the_upper_threads_alone(space: str, place: str) -> None:
    out = np.zeros(32, U32)
    launch(GUARDED.format(space=space, place=place), [out])
    assert out.tolist() == [7] * 16 + list(range(16, 32))

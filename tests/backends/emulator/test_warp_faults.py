"""Threads of a warp that name each other in a mask: whom a barrier orders, who may exchange."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cuda
from numba.cuda import float32, int32, uint32

from minijit.backends.emulator.errors import (
    BarrierError,
    SharedRaceError,
    UninitialisedReadError,
)
from tests.backends.emulator.emulated_kernels import run

U32 = np.uint32
Kernel = Callable[..., None]


def neighbour_after_half_a_barrier(masks: Any, out: Any) -> None:
    held = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    held[i] = float32(i)
    cuda.syncwarp(masks[i])
    out[i] = held[i ^ masks[32]]


def halves(*masks: int, partner: int) -> Any:
    """A mask for each quarter of a warp, and how far the thread is that each reads from."""
    return np.array([*np.repeat(np.array(masks, U32), 32 // len(masks)), partner], U32)


LOW, HIGH = 0x0000FFFF, 0xFFFF0000


@pytest.mark.parametrize(
    ("masks", "fine"),
    [
        (halves(0xFFFFFFFF, partner=16), True),
        (halves(LOW, HIGH, partner=8), True),
        (halves(LOW, HIGH, partner=16), False),
        (halves(0xFF, 0xFF00, 0xFF0000, 0xFF000000, partner=4), True),
        (halves(0xFF, 0xFF00, 0xFF0000, 0xFF000000, partner=8), False),
    ],
)
def test_a_barrier_orders_the_threads_of_its_mask_alone(masks: Any, fine: bool) -> None:
    out = np.zeros(32, np.float32)
    if fine:
        run(neighbour_after_half_a_barrier, masks, out)
        assert out.tolist() == [i ^ int(masks[32]) for i in range(32)]
    else:
        with pytest.raises(SharedRaceError, match="no barrier between"):
            run(neighbour_after_half_a_barrier, masks, out)


def handed_on(out: Any) -> None:
    held = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    held[i] = float32(i)
    # Thread 8 hears of thread 0, and thread 16 of both.
    if i < 16:
        cuda.syncwarp(uint32(0xFFFF))
    if i >= 8 and i < 24:
        cuda.syncwarp(uint32(0xFFFF00))
    if i == 16:
        out[0] = held[0]


def not_handed_on(out: Any) -> None:
    held = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    held[i] = float32(i)
    # The other way round: thread 8 has not yet met thread 0 when it meets thread 16.
    if i >= 8 and i < 24:
        cuda.syncwarp(uint32(0xFFFF00))
    if i < 16:
        cuda.syncwarp(uint32(0xFFFF))
    if i == 16:
        out[0] = held[0]


def written_after_the_barrier(out: Any) -> None:
    held = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    if i < 16:
        cuda.syncwarp(uint32(0xFFFF))
    held[i] = float32(i)
    if i >= 8 and i < 24:
        cuda.syncwarp(uint32(0xFFFF00))
    if i == 16:
        out[0] = held[0]


def test_barriers_one_after_the_other_hand_order_on() -> None:
    out = np.ones(1, np.float32)
    run(handed_on, out)
    assert out[0] == 0


@pytest.mark.parametrize("kernel", [not_handed_on, written_after_the_barrier])
def test_order_is_handed_on_in_order_only(kernel: Kernel) -> None:
    with pytest.raises(SharedRaceError, match=r"thread 16: byte 0 .* is used by thread 0"):
        run(kernel, np.zeros(1, np.float32))


def whole_after_half(masks: Any, out: Any) -> None:
    held = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    cuda.syncwarp(masks[i])
    held[i] = float32(i)
    cuda.syncwarp(masks[32])
    out[i] = held[31 - i]


def test_a_barrier_of_the_whole_warp_after_one_of_its_halves() -> None:
    masks, out = halves(LOW, HIGH, partner=0xFFFFFFFF), np.zeros(32, np.float32)
    run(whole_after_half, masks, out)
    assert out.tolist() == list(range(31, -1, -1))


def barrier_of_others(out: Any) -> None:
    cuda.syncwarp(uint32(0xFFFF))
    out[cuda.threadIdx.x] = float32(1)


def shuffle_of_others(out: Any) -> None:
    i = cuda.threadIdx.x
    out[i] = cuda.shfl_xor_sync(0xFFFF, float32(i), 1)


def vote_of_others(out: Any) -> None:
    i = cuda.threadIdx.x
    out[i] = float32(cuda.ballot_sync(0xFFFF, i > 3))


def match_of_others(out: Any) -> None:
    i = cuda.threadIdx.x
    out[i] = float32(cuda.match_any_sync(0xFFFF, i > 3))


@pytest.mark.parametrize(
    "kernel", [barrier_of_others, shuffle_of_others, vote_of_others, match_of_others]
)
def test_a_thread_must_be_in_the_mask_that_it_names(kernel: Kernel) -> None:
    with pytest.raises(BarrierError, match="thread 16: the mask 0xffff lacks the thread itself"):
        run(kernel, np.zeros(32, np.float32))


def different_masks(out: Any) -> None:
    i = cuda.threadIdx.x
    mask = uint32(0xFFFF) if i < 8 else uint32(0xFFFFFFFF)
    out[i] = float32(cuda.ballot_sync(mask, i > 3))


def test_threads_that_meet_must_name_the_same_threads() -> None:
    with pytest.raises(BarrierError, match=r"thread 0: .* names threads that name another mask"):
        run(different_masks, np.zeros(32, np.float32))


def shuffle_down_in_halves(out: Any) -> None:
    i = cuda.threadIdx.x
    mask = uint32(0xFFFF) if i < 16 else uint32(0xFFFF0000)
    out[i] = cuda.shfl_down_sync(mask, int32(i), 8)


def shuffle_up_in_halves(out: Any) -> None:
    i = cuda.threadIdx.x
    mask = uint32(0xFFFF) if i < 16 else uint32(0xFFFF0000)
    out[i] = cuda.shfl_up_sync(mask, int32(i), 8)


@pytest.mark.parametrize(
    ("kernel", "thread", "source"),
    [(shuffle_down_in_halves, 8, 16), (shuffle_up_in_halves, 16, 8)],
)
def test_a_shuffle_must_not_take_from_outside_of_the_mask(
    kernel: Kernel, thread: int, source: int
) -> None:
    said = f"thread {thread}: a shuffle from lane {source}, which does not take part"
    with pytest.raises(UninitialisedReadError, match=said):
        run(kernel, np.zeros(32, np.int32))


def shuffle_out_of_range(out: Any) -> None:
    i = cuda.threadIdx.x
    if i < 16:
        out[i] = cuda.shfl_up_sync(uint32(0xFFFF), int32(i), 8)
    else:
        out[i] = cuda.shfl_down_sync(uint32(0xFFFF0000), int32(i), 8)


def test_a_source_out_of_range_gives_the_thread_its_own_value() -> None:
    out = np.zeros(32, np.int32)
    run(shuffle_out_of_range, out)
    assert out.tolist() == [
        i if i < 8 or i >= 24 else i - 8 if i < 16 else i + 8 for i in range(32)
    ]

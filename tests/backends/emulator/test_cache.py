"""What launches find in the modelled caches, and above all what they do not find there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cuda
from numba.cuda import float32, int32

from minijit.backends.emulator.cache import cached_lines
from minijit.backends.emulator.counters import Counters
from tests.backends.emulator.emulated_kernels import run

F16, F32, F64 = np.float16, np.float32, np.float64
LINES_OF_128_THREADS = 64


def moved(function: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[float, ...]:
    """Sectors that the L1, the L2 and memory are asked for, over the different ones."""
    counters = Counters()
    options = {"grid": 2, "block": 128} | options
    run(function, *arguments, counters=counters, **options)
    whole = counters.distinct_sectors
    return tuple(
        n / whole for n in (counters.l1_sectors, counters.l2_sectors, counters.dram_sectors)
    )


@pytest.mark.parametrize(
    ("threads", "shared", "lines"),
    [
        (32, 0, 16),
        (128, 0, LINES_OF_128_THREADS),
        (512, 0, 256),
        (1024, 0, 512),
        # Shared memory takes its part of the L1, and so do the blocks that it leaves room for.
        (512, 48 << 10, 64),
        (128, 48 << 10, 64),
        (128, 8 << 10, 32),
        (1024, 228 << 10, 112),
    ],
)
def test_a_block_has_half_of_its_share_of_an_l1(threads: int, shared: int, lines: int) -> None:
    assert cached_lines(threads, shared) == lines


def row_sums(source: Any, out: Any, columns: Any) -> None:
    """A row for each thread, which walks along it: neighbours read a row apart."""
    row = cuda.grid(1)
    total = float32(0)
    for column in range(columns):
        total += float32(source[row * columns + column])
    out[row] = total


@pytest.mark.parametrize(("dtype", "times"), [(F16, 16), (F32, 8), (F64, 4)])
@pytest.mark.parametrize("block", [32, 128, 256])
def test_a_thread_for_each_row_fetches_its_sectors_for_each_element(
    dtype: Any, times: int, block: int
) -> None:
    columns, rows = 1024, 2 * block
    source = np.zeros(rows * columns, dtype)
    counts = moved(row_sums, source, np.zeros(rows, F32), np.int32(columns), block=block)
    # Results are little beside what is read.
    np.testing.assert_allclose(counts, times, rtol=0.01)


def row_copies(source: Any, out: Any, columns: Any) -> None:
    row = cuda.grid(1)
    for column in range(columns):
        out[row * columns + column] = source[column]


def test_parts_of_sectors_that_are_written_far_apart_are_not_joined() -> None:
    columns = 256
    out = np.zeros(256 * columns, F32)
    counts = moved(row_copies, np.zeros(columns, F32), out, np.int32(columns))
    np.testing.assert_allclose(counts, 8, rtol=0.03)


def read_twice(source: Any, out: Any, size: Any) -> None:
    """Each block goes over its part of the array, and then once more."""
    thread, first = int32(cuda.threadIdx.x), cuda.blockIdx.x * size
    total = float32(0)
    for _ in range(2):
        for place in range(thread, size, 128):
            total += source[first + place]
    out[cuda.grid(1)] = total


@pytest.mark.parametrize(
    ("kilobytes", "reads"),
    [
        (4, 1),
        (LINES_OF_128_THREADS // 8, 1),
        (LINES_OF_128_THREADS // 8 + 1, 2),
        (64, 2),
    ],
)
def test_a_second_pass_finds_what_the_cache_holds(kilobytes: int, reads: int) -> None:
    size = kilobytes << 8
    source, out = np.zeros(2 * size, F32), np.zeros(256, F32)
    l1, l2, dram = moved(read_twice, source, out, np.int32(size))
    parts = np.array([source.nbytes, out.nbytes])
    twice, expected = parts @ [2, 1] / parts.sum(), parts @ [reads, 1] / parts.sum()
    assert (l1, l2, dram) == pytest.approx((twice, expected, expected))


def shifted(source: Any, out: Any) -> None:
    i = cuda.grid(1)
    out[i + 1] = source[i + 1]


@pytest.mark.parametrize("order", [None, np.random.default_rng(3)], ids=["in order", "drawn"])
def test_seams_of_warps_and_of_blocks(order: Any) -> None:
    """128 bytes that begin within a sector are five: one is shared with each neighbour."""
    blocks = 64
    size = 128 * blocks + 1
    arrays = np.zeros(size, F32), np.zeros(size, F32)
    l1, l2, dram = moved(shifted, *arrays, grid=blocks, order=order)
    fewest = 2 * (16 * blocks + 1)
    # Of reads one sector for each block is shared with the next, of writes one for each warp.
    assert l1 * fewest == 2 * 20 * blocks
    assert l2 * fewest == 20 * blocks + 17 * blocks
    assert dram == pytest.approx(1)


def of_neighbours(source: Any, out: Any, distance: Any, delay: Any) -> None:
    """Blocks ``distance`` apart read the same, the second after ``delay`` bytes of its own."""
    i, block = cuda.threadIdx.x, cuda.blockIdx.x
    total = float32(0)
    if block >= distance:
        for place in range(i, delay // 4, 32):
            total += source[32 + block * (delay // 4) + place]
    if block % distance == 0:
        total += source[i]
    out[32 * block + i] = total


@pytest.mark.parametrize(
    ("distance", "delay", "reads"), [(1, 0, 1), (7, 0, 1), (8, 0, 2), (7, 1024, 1), (7, 4096, 2)]
)
def test_neighbours_share_what_they_read_at_about_one_point_of_their_run(
    distance: int, delay: int, reads: int
) -> None:
    source, out = np.zeros(32 + 9 * delay // 4, F32), np.zeros(32 * (distance + 1), F32)
    counters = Counters()
    arguments = source, out, np.int32(distance), np.int32(delay)
    run(of_neighbours, *arguments, grid=distance + 1, block=32, counters=counters)
    assert counters.l2_sectors == counters.l1_sectors == counters.distinct_sectors + 4
    assert counters.dram_sectors == counters.distinct_sectors + 4 * (reads - 1)


def together(source: Any, out: Any) -> None:
    """All blocks read the same."""
    out[cuda.grid(1)] = source[cuda.threadIdx.x]


def test_what_all_blocks_read_is_moved_for_every_eighth_of_them_at_least() -> None:
    counters = Counters()
    blocks = 80
    source, out = np.zeros(128, F32), np.zeros(128 * blocks, F32)
    run(together, source, out, grid=blocks, block=128, counters=counters)
    (reads,) = (traffic for (_, written), traffic in counters.traffic.items() if not written)
    assert (reads.l1, reads.l2, reads.distinct) == (16 * blocks, 16 * blocks, 16)
    assert reads.dram >= 16 * blocks // 8

"""block: reductions over the threads that share a row or a column; every thread gets the result.

The functions are made for one combination and one shape of thread groups and are cached, so all
kernels of a process share them. The order of combination depends on that shape alone: results are
the same bits in every run. Each call uses shared memory of its own and therefore one barrier.
"""

from __future__ import annotations

import math
from functools import cache
from types import FunctionType

from numba import cuda
from numba.cuda import types
from numba.np.numpy_support import from_dtype

from minijit.kernels.cuda.warp import WARP, shuffle_xor

uint32 = types.uint32
syncthreads = cuda.syncthreads


def device_function(function):
    """Compile `function` for use in kernels; NVVM inlines it."""
    return cuda.jit(device=True, forceinline=True)(function)


@cuda.jit(device=True, forceinline=True)
def add_exactly(total, lost, value):
    """The sum `total + value`, and `lost` plus what its rounding lost.

    Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen" (1974).
    """
    result = total + value
    if math.fabs(total) >= math.fabs(value):
        return result, lost + ((total - result) + value)
    return result, lost + ((value - result) + total)


@cuda.jit(device=True, forceinline=True)
def total_of(total, lost):
    """The corrected sum; an infinite or undefined one has no correction."""
    return total + lost if math.isfinite(lost) else total


def scalar_function(make, *arguments):
    """The device function of what `make` makes for `arguments`, a dtype first."""
    return device_function(make(*arguments))


def combination(make, dtypes):
    """The device function of what `make` makes for the first of `dtypes`, to which it casts."""
    return typed_combination(make(dtypes[0]), dtypes)


@cache
def typed_combination(function, dtypes):
    """`function` as a device function whose results are cast to `dtypes`, one or two of NumPy's."""
    kinds = tuple(from_dtype(dtype) for dtype in dtypes)
    code = device_function(function) if isinstance(function, FunctionType) else function
    if len(kinds) == 1:
        (kind,) = kinds

        def combine(a, b):
            return kind(code(a, b))
    else:
        kind, second = kinds

        def combine(a, i, b, j):
            x, k = code(a, i, b, j)
            return kind(x), second(k)

    return device_function(combine)


@cache
def row_reduction(combine, threads):
    """`reduce(value, thread, shared) -> result` over groups of `threads` neighbouring threads.

    `threads` is a power of two. With at most 32 the group lies in a warp and `shared` is not
    touched; else it holds one element for each warp of the block.
    """
    lanes = min(threads, WARP)
    warps = threads // WARP

    def in_warp(value, thread):
        mask = lanes // 2
        while mask > 0:
            value = combine(value, shuffle_xor(value, mask))
            mask = mask // 2
        return value

    def in_block(value, thread, shared):
        mask = WARP // 2
        while mask > 0:
            value = combine(value, shuffle_xor(value, mask))
            mask = mask // 2
        warp = uint32(thread) // uint32(WARP)
        if uint32(thread) % uint32(WARP) == uint32(0):
            shared[warp] = value
        syncthreads()
        # Each warp combines the partial results of its row by itself: no second barrier.
        first = uint32(warp // uint32(warps)) * uint32(warps)
        value = shared[uint32(first + uint32(thread) % uint32(warps))]
        mask = warps // 2
        while mask > 0:
            value = combine(value, shuffle_xor(value, mask))
            mask = mask // 2
        return value

    return device_function(in_warp if threads <= WARP else in_block)


@cache
def row_pair_reduction(combine, threads):
    """The same for pairs: `reduce(value, index, thread, values, indices) -> (value, index)`."""
    lanes = min(threads, WARP)
    warps = threads // WARP

    def in_warp(value, index, thread):
        mask = lanes // 2
        while mask > 0:
            value, index = combine(value, index, shuffle_xor(value, mask), shuffle_xor(index, mask))
            mask = mask // 2
        return value, index

    def in_block(value, index, thread, values, indices):
        mask = WARP // 2
        while mask > 0:
            value, index = combine(value, index, shuffle_xor(value, mask), shuffle_xor(index, mask))
            mask = mask // 2
        warp = uint32(thread) // uint32(WARP)
        if uint32(thread) % uint32(WARP) == uint32(0):
            values[warp] = value
            indices[warp] = index
        syncthreads()
        first = uint32(warp // uint32(warps)) * uint32(warps)
        place = uint32(first + uint32(thread) % uint32(warps))
        value, index = values[place], indices[place]
        mask = warps // 2
        while mask > 0:
            value, index = combine(value, index, shuffle_xor(value, mask), shuffle_xor(index, mask))
            mask = mask // 2
        return value, index

    return device_function(in_warp if threads <= WARP else in_block)


def column_parts(columns, threads):
    """How many partial results of a column meet in shared memory; with one, none is needed."""
    return columns * threads // max(columns, WARP)


@cache
def column_reduction(combine, columns, threads):
    """`reduce(value, thread, shared) -> result` over the `threads` threads of each of `columns`.

    Both are powers of two. Thread `k * columns + c` works on column `c`; `shared` holds
    `columns * column_parts(columns, threads)` elements and is not passed with one part.
    """
    parts = column_parts(columns, threads)
    lanes = min(columns, WARP)

    def in_warp(value, thread):
        mask = WARP // 2
        while mask >= columns:
            value = combine(value, shuffle_xor(value, mask))
            mask = mask // 2
        return value

    def in_block(value, thread, shared):
        mask = WARP // 2
        while mask >= columns:
            value = combine(value, shuffle_xor(value, mask))
            mask = mask // 2
        lane = uint32(thread) % uint32(WARP)
        if lane < uint32(lanes):
            shared[uint32(uint32(thread) // uint32(WARP) * uint32(lanes) + lane)] = value
        syncthreads()
        place = uint32(uint32(thread) % uint32(columns))
        value = shared[place]
        count = 1
        while count < parts:
            place = uint32(place + uint32(columns))
            value = combine(value, shared[place])
            count += 1
        return value

    return device_function(in_warp if parts == 1 else in_block)


@cache
def column_pair_reduction(combine, columns, threads):
    """The same for pairs: `reduce(value, index, thread, values, indices) -> (value, index)`."""
    parts = column_parts(columns, threads)
    lanes = min(columns, WARP)

    def in_warp(value, index, thread):
        mask = WARP // 2
        while mask >= columns:
            value, index = combine(value, index, shuffle_xor(value, mask), shuffle_xor(index, mask))
            mask = mask // 2
        return value, index

    def in_block(value, index, thread, values, indices):
        mask = WARP // 2
        while mask >= columns:
            value, index = combine(value, index, shuffle_xor(value, mask), shuffle_xor(index, mask))
            mask = mask // 2
        lane = uint32(thread) % uint32(WARP)
        if lane < uint32(lanes):
            place = uint32(uint32(thread) // uint32(WARP) * uint32(lanes) + lane)
            values[place] = value
            indices[place] = index
        syncthreads()
        place = uint32(uint32(thread) % uint32(columns))
        value, index = values[place], indices[place]
        count = 1
        while count < parts:
            place = uint32(place + uint32(columns))
            value, index = combine(value, index, values[place], indices[place])
            count += 1
        return value, index

    return device_function(in_warp if parts == 1 else in_block)

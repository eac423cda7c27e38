"""stream: sequences that lie in memory step after step, moved by whole sectors through a ring.

In a block of one warp each thread goes through a sequence of its own, or all through one, whose
elements lie at stride one or minus one. If each thread asked memory for its element of a step, a
request would touch a sector a thread and use one element of it. So the warp moves a window of 32
steps of one sequence at a time, from memory to a ring in shared memory, or back. A ring has two
windows for each sequence, with step ``t`` in slot ``t % 64``. Windows begin where a sector begins,
which is some steps before a multiple of 32. With an odd number of banks from one sequence to the
next (``pitch``, in elements) neither the steps of a sequence nor a step of all share a bank.
"""

from __future__ import annotations

from numba import cuda
from numba.cuda import types

from minijit.kernels.cuda.indexing import advance, thread_index
from minijit.kernels.cuda.memory import load, load_signed, store, zero
from minijit.kernels.cuda.warp import WARP, shuffle_from

WINDOW = WARP
RING = 2 * WINDOW
_AT_ONCE = 8

int32 = types.int32
uint32 = types.uint32
syncthreads = cuda.syncthreads


@cuda.jit(device=True, forceinline=True)
def _step(first, start, stride, sector):
    """The step of this thread in the window of the sequence that begins at ``start``."""
    place = uint32(start) % uint32(sector)
    early = place if stride > 0 else uint32(uint32(sector - 1) - place)
    return int32(uint32(first) + uint32(thread_index()) - early)


def _read_windows(load):
    """Read the windows of steps ``first, first + 32, ... last - 32``, each begun early.

    Each thread gives the ``start`` of its sequence, the index of its step zero; ``count`` sequences
    exist, each ``length`` long. A sector has ``sector`` elements. All threads take part.
    """

    @cuda.jit(device=True, forceinline=True)
    def read_windows(ring, pitch, pointer, start, stride, sector, count, length, first, last):
        held = cuda.local.array(_AT_ONCE, ring.dtype)
        slots = cuda.local.array(_AT_ONCE, int32)
        syncthreads()
        step = int32(first)
        while step < last:
            row = int32(0)
            while row < count:
                # Several requests are under way at a time.
                for k in range(_AT_ONCE):
                    origin = shuffle_from(start, int32(row + k))
                    t = _step(step, origin, stride, sector)
                    inside = row + k < count and uint32(t) < uint32(length)
                    held[k] = load(pointer, origin + stride * t) if inside else zero(pointer)
                    slots[k] = int32((row + k) * pitch + (t & (RING - 1))) if inside else -1
                for k in range(_AT_ONCE):
                    if slots[k] >= 0:
                        ring[uint32(slots[k])] = held[k]
                row = advance(row, _AT_ONCE)
            step = advance(step, WINDOW)
        syncthreads()

    return read_windows


read_windows, read_windows_signed = map(_read_windows, (load, load_signed))


@cuda.jit(device=True, forceinline=True)
def write_windows(ring, pitch, pointer, start, stride, sector, count, length, first, last):
    """Write the windows that ``read_windows`` would read."""
    syncthreads()
    step = int32(first)
    while step < last:
        row = int32(0)
        while row < count:
            origin = shuffle_from(start, row)
            t = _step(step, origin, stride, sector)
            if uint32(t) < uint32(length):
                slot = uint32(row * pitch + (t & (RING - 1)))
                store(pointer, origin + stride * t, ring[slot])
            row = advance(row, 1)
        step = advance(step, WINDOW)
    syncthreads()

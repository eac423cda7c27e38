"""Which neighbours a thread takes at once, so that accesses are whole 128-bit vectors."""

from __future__ import annotations

import math

from minijit.graph.index import Affine
from minijit.lowering.cuda_launch import SECTOR_BYTES, VECTOR_BYTES
from minijit.lowering.kernel_ir import Gather, Guard, Kernel, Load, Store, Value

__all__ = ["gathers_runs", "map_chunk", "uniform_guards", "whole_vectors"]

_REGISTER_BYTES = 256


def whole_vectors(index: Affine, size: int, inner: int, chunk: int) -> bool:
    """Whether ``chunk`` neighbours along dimension ``inner`` are whole 128-bit vectors.

    Every chunk then starts at a multiple of 16 bytes, provided that the buffer does.

    Args:
        index: Of the access.
        size: Bytes of an element.
        inner: A dimension; chunks start at multiples of ``chunk`` along it.
        chunk: Number of elements.
    """
    if chunk * size % VECTOR_BYTES or index.stride(inner) != 1:
        return False
    return _is_multiple(index, inner, VECTOR_BYTES // size)


def _is_multiple(index: Affine, inner: int, of: int) -> bool:
    """Whether ``index`` is a multiple of a number where its ``inner`` dimension is."""
    strides = (stride for dim, stride in index.terms if dim != inner)
    return all(number % of == 0 for number in (index.offset, *strides))


def uniform_guards(kernel: Kernel, inner: int, chunk: int) -> dict[Load, Guard]:
    """Return the guarded loads whose guard holds for all neighbours of a chunk or for none."""
    guards = {s.out: s for s in kernel.statements if isinstance(s, Guard)}
    found: dict[Load, Guard] = {}
    for load in kernel.statements:
        if isinstance(load, Load) and isinstance(load.guard, Value):
            guard = guards.get(load.guard)
            if guard is not None and all(
                _is_uniform(condition, kernel.spans, inner, chunk) for condition in guard.conditions
            ):
                found[load] = guard
    return found


def _is_uniform(
    condition: tuple[Affine, int, int], spans: tuple[int, ...], inner: int, chunk: int
) -> bool:
    index, low, high = condition
    if index.stride(inner) == 0:
        return True
    least, most = index.bounds(spans)
    asked = [bound for bound, holds in ((low, least >= low), (high, most < high)) if not holds]
    if index.stride(inner) != 1:
        return not asked
    return _is_multiple(index, inner, chunk) and all(bound % chunk == 0 for bound in asked)


def gathers_runs(kernel: Kernel, inner: int) -> bool:
    """Whether a gather takes neighbours along dimension ``inner`` from neighbouring places.

    They are read one by one: threads that are neighbours have to read them side by side.
    """
    return any(
        0 < abs(s.index.stride(inner)) * kernel.buffers[s.buffer].dtype.itemsize < SECTOR_BYTES
        for s in kernel.statements
        if isinstance(s, Gather)
    )


def map_chunk(kernel: Kernel) -> int:
    """Return how many neighbours make whole vectors of contiguous buffers; 1 for none.

    An element at a time is better than vectors if some operand cannot be read in vectors: the
    threads of a warp would read it far from each other, and ask for its sectors again and again.
    """
    inner = len(kernel.rows) - 1
    if gathers_runs(kernel, inner):
        return 1
    accesses = [s for s in kernel.statements if isinstance(s, Load | Store)]
    sizes = {s: kernel.buffers[s.buffer].dtype.itemsize for s in accesses}
    unit = [s for s in accesses if s.index.stride(inner) == 1]
    if not unit:
        return 1
    widths = [sizes[s] for s in unit]
    chunk = VECTOR_BYTES // min(widths)
    while chunk * sum(widths) > _REGISTER_BYTES and chunk * max(widths) > VECTOR_BYTES:
        chunk //= 2
    if len(kernel.rows) > 1:
        chunk = math.gcd(chunk, kernel.rows[-1])
    if chunk * max(widths) < VECTOR_BYTES:
        return 1
    uniform = uniform_guards(kernel, inner, chunk)

    def scattered(access: Load | Store) -> bool:
        near = 0 < abs(access.index.stride(inner)) * sizes[access] < SECTOR_BYTES
        if isinstance(access, Load) and access.guard is not None and access not in uniform:
            return near
        return near and not whole_vectors(access.index, sizes[access], inner, chunk)

    return 1 if any(map(scattered, accesses)) else chunk

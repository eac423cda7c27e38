"""Results of CPU kernels that no cache holds: collected in segments, stored past the caches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from minijit.lowering.cpu_emitter import CpuEmitter
from minijit.lowering.cpu_launch import ALIGNMENT
from minijit.lowering.kernel_ir import Kernel, Load, Map, Statement, Store

__all__ = ["streamed", "vector_loop"]

_STREAM_BYTES = 1 << 26
"""Least bytes of the results of a kernel: twice a usual last cache. No property of the machine, so
that a kernel has the same code on each."""
_RUN_BYTES = 1 << 10
"""Least bytes of results that follow each other."""
_FLOPS_A_BYTE = 1
"""Most flops of a loop for each byte that it moves: where computing takes longer than memory, what
copies segments would be added to it. Stores straight from the loop do not help there either: a line
whose parts come far apart, or between those of other lines, goes to memory more than once."""
_SEGMENT_BYTES = 1 << 10
"""Bytes of a result that are collected at a time: so few that computing and storing overlap."""


def streamed(
    kernel: Kernel, statements: Sequence[Statement], dim: int, length: int
) -> tuple[Store, ...]:
    """Return which stores go past the caches.

    Args:
        kernel: The kernel.
        statements: Those of an innermost loop.
        dim: Its dimension.
        length: How many of its indices follow each other there.
    """
    buffers = kernel.buffers
    results = sum(buffer.size * buffer.dtype.itemsize for buffer in kernel.outputs)
    flops = sum(s.op.flops for s in statements if isinstance(s, Map))
    accesses = [s for s in statements if isinstance(s, Load | Store)]
    moved = sum(buffers[s.buffer].dtype.itemsize for s in accesses)
    if results < _STREAM_BYTES or flops > _FLOPS_A_BYTE * moved:
        return ()
    stores = (s for s in accesses if isinstance(s, Store))
    return tuple(s for s in stores if _fills_lines(kernel, s, dim, length))


def _fills_lines(kernel: Kernel, store: Store, dim: int, length: int) -> bool:
    """Whether runs of results along ``dim`` are long, and begin where lines do.

    What is allocated does; a run that does not shares its ends, line by line, with the caches.
    """
    size = kernel.buffers[store.buffer].dtype.itemsize
    starts = [stride for other, stride in store.index.terms if other != dim]
    starts += [store.index.offset, length if length < kernel.extents[dim] else 0]
    aligned = all(start * size % ALIGNMENT == 0 for start in starts)
    return store.index.stride(dim) == 1 and length * size >= _RUN_BYTES and aligned


@contextlib.contextmanager
def vector_loop(
    emitter: CpuEmitter, dim: int, span: str, stores: Sequence[Store]
) -> Iterator[None]:
    """Open an innermost loop over ``dim``, and store its results.

    Args:
        emitter: Writes the kernel.
        dim: The dimension.
        span: What ``range`` takes.
        stores: Those in the loop that go past the caches.
    """
    writer = emitter.writer
    if not stores:
        with writer.block(f"for i{dim} in range({span}):"):
            yield
        return
    dtypes = [emitter.kernel.buffers[store.buffer].dtype for store in stores]
    length = _SEGMENT_BYTES // max(dtype.itemsize for dtype in dtypes)
    first_number = len(emitter.collected)
    segments = [
        emitter.array(f"segment{first_number + number}", dtype, length)
        for number, dtype in enumerate(dtypes)
    ]
    for store, segment in zip(stores, segments, strict=True):
        emitter.collected[store] = f"{segment}[i{dim} - low]"
    first, _, last = span.partition(", ") if "," in span else ("0", "", span)
    writer.line(f"last = {last}")
    with writer.block(f"for low in range({first}, last, {length}):"):
        writer.line(f"high = min(low + {length}, last)")
        with writer.block(f"for i{dim} in range(low, high):"):
            yield
        emitter.dims[dim] = "low"
        for store, segment in zip(stores, segments, strict=True):
            place = f"b{store.buffer}, {emitter.index(store.index)}"
            code = f"{emitter.helper('stream')}({place}, {segment}, high - low)"
            writer.line(code, emitter.kernel.buffers[store.buffer].name)
        emitter.dims[dim] = f"i{dim}"

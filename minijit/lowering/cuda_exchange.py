"""How threads that share a row exchange tuples of components: shuffles, then shared memory.

The order is that of the functions of :mod:`minijit.kernels.cuda.block`, which do the same for one
value and for a value with its position.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from minijit.lowering.combining import combine
from minijit.lowering.cuda_emitter import CudaEmitter
from minijit.lowering.cuda_geometry import WARP, Geometry
from minijit.lowering.kernel_ir import Reduce
from minijit.lowering.symbols import Symbol

__all__ = ["exchange"]


def exchange(
    emitter: CudaEmitter,
    reduce: Reduce,
    shape: Geometry,
    totals: Sequence[str],
    shared: Sequence[str],
) -> None:
    """Write the combination of the threads of each row: all of them have the totals afterwards.

    Args:
        emitter: Writes the kernel.
        reduce: The reduction.
        shape: How threads share rows.
        totals: Names of the components.
        shared: Names of arrays that hold a partial result for each warp; none where one has all.
    """
    each = _Exchange(emitter, reduce, totals, shared)
    if shape.by_column:
        each.columns(shape.rows, shape.rows * shape.group // max(shape.rows, WARP))
    else:
        each.rows(shape.group)


class _Exchange:
    def __init__(
        self, emitter: CudaEmitter, reduce: Reduce, totals: Sequence[str], shared: Sequence[str]
    ) -> None:
        self._emitter = emitter
        self._reduce = reduce
        self._totals = totals
        self._shared = shared

    def rows(self, threads: int) -> None:
        """Combine groups of neighbouring threads."""
        call = self._emitter.call
        self._shuffled(min(threads, WARP) // 2, 1)
        if threads <= WARP:
            return
        warps = threads // WARP
        warp = call("quotient", "thread", WARP)
        self._through_memory(f"{call('remainder', 'thread', WARP)} == 0", warp)
        # Each warp combines the partial results of its row by itself: no second barrier.
        first = f"{call('quotient', warp, warps)}*{warps}"
        self._read(f"{first} + {call('remainder', 'thread', warps)}")
        self._shuffled(warps // 2, 1)

    def columns(self, columns: int, parts: int) -> None:
        """Combine the threads that have one remainder by ``columns``."""
        call = self._emitter.call
        self._shuffled(WARP // 2, columns)
        if parts == 1:
            return
        lanes = min(columns, WARP)
        warp, lane = call("quotient", "thread", WARP), call("remainder", "thread", WARP)
        self._through_memory(f"{lane} < {lanes}", f"{warp}*{lanes} + {lane}")
        column = call("remainder", "thread", columns)
        self._read(column)
        with self._loop("count = 1", f"count < {parts}", "count = count + 1"):
            place = f"{column} + {columns}*count"
            self._combine([f"{array}[{place}]" for array in self._shared])

    def _shuffled(self, first: int, last: int) -> None:
        """Write exchanges between lanes at distances from ``first`` down to ``last``."""
        if first < last:
            return
        with self._loop(f"mask = {first}", f"mask >= {last}", "mask = mask // 2"):
            self._combine([self._emitter.call("shuffle_xor", t, "mask") for t in self._totals])

    def _through_memory(self, condition: str, place: str) -> None:
        with self._emitter.writer.block(f"if {condition}:"):
            for array, total in zip(self._shared, self._totals, strict=True):
                self._emitter.writer.line(f"{array}[{place}] = {total}")
        barrier = Symbol("minijit.kernels.cuda.block", "syncthreads")
        self._emitter.writer.line(f"{self._emitter.name('syncthreads', barrier)}()")

    def _read(self, place: str) -> None:
        for array, total in zip(self._shared, self._totals, strict=True):
            self._emitter.writer.line(f"{total} = {array}[{place}]")

    def _combine(self, values: Sequence[str]) -> None:
        codes = combine(self._emitter, self._reduce, self._totals, values)
        self._emitter.writer.line(f"{', '.join(self._totals)} = {', '.join(codes)}")

    @contextlib.contextmanager
    def _loop(self, start: str, condition: str, step: str) -> Iterator[None]:
        self._emitter.writer.line(start)
        with self._emitter.writer.block(f"while {condition}:"):
            yield
            self._emitter.writer.line(step)

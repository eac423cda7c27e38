"""Writes how sequences that follow the steps of a loop go through rings in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from minijit.lowering.cuda_geometry import WARP, Geometry
from minijit.lowering.cuda_launch import SECTOR_BYTES
from minijit.lowering.cuda_reduce import ReducingEmitter
from minijit.lowering.cuda_streams import Stream
from minijit.lowering.kernel_ir import Kernel, Load, Loop, Store
from minijit.lowering.source import held_dtype

__all__ = ["RingEmitter"]

_MOST_NARROW = 2**31


class RingEmitter(ReducingEmitter):
    """Writes loads and stores of streams; ``fill`` begins a step of their loop, ``empty`` ends it.

    Attributes:
        streams: By their accesses. If there are any, a block is one warp.
    """

    def __init__(self, kernel: Kernel, geometry: Geometry, streams: Sequence[Stream]) -> None:
        """Start an empty text."""
        super().__init__(kernel, geometry)
        self.streams = {stream.access: stream for stream in streams}

    def rings(self) -> None:
        """Write the rings, and which of a block's sequences are those of the thread."""
        if not self.streams:
            return
        line, first = self.writer.line, f"{self.call('block_index')}*{WARP}"
        line(f"seat = {self.call('narrow', f'row - {first}')}")
        line(f"seats = {self.call('narrow', f'min({WARP}, {self.rows} - {first})')}")
        self.helper("cuda")
        for stream in self.streams.values():
            kind = self.type(held_dtype(self.kernel.buffers[stream.access.buffer].dtype))
            line(f"{stream} = cuda.shared.array({stream.count * stream.pitch}, {kind})")

    def fill(self, node: Loop) -> None:
        """Write what fills rings; windows begin early, so it takes two for the next steps."""
        streams, counter = self._streams(node, Load), self.dims[node.dim]
        if not streams:
            return
        with self.writer.block(f"if {counter} & {WARP - 1} == 0:"):
            first = f"{counter} + {WARP} if {counter} > 0 else 0"
            for stream in streams:
                self._windows("read_windows", stream, first, f"{counter} + {2 * WARP}")

    def empty(self, node: Loop) -> None:
        """Write what empties rings; after the last step there is the rest of two windows."""
        streams, counter = self._streams(node, Store), self.dims[node.dim]
        if not streams:
            return
        last = cast("int", node.length) - 1
        whole = f"{counter} & {WARP - 1} == {WARP - 1}"
        with self.writer.block(f"if {whole} or {counter} == {last}:"):
            first = f"{counter} & {-WARP}"
            end = f"({first}) + ({WARP} if {counter} < {last} else {2 * WARP})"
            for stream in streams:
                self._windows("write_windows", stream, first, end)

    def _streams(self, node: Loop, kind: type[Load | Store]) -> list[Stream]:
        """Return the streams of one loop that read, or those that write."""
        found = self.streams.values()
        return [s for s in found if s.loop is node and isinstance(s.access, kind)]

    def _windows(self, helper: str, stream: Stream, first: str, last: str) -> None:
        """Write that the warp moves windows of each of its sequences."""
        buffer, start = self.kernel.buffers[stream.access.buffer], self.index(stream.start)
        wide = buffer.size >= _MOST_NARROW
        arguments = (
            stream,
            stream.pitch,
            f"b{stream.access.buffer}",
            f"{self.type(np.dtype(np.int64))}({start})" if wide else self.call("narrow", start),
            stream.stride,
            SECTOR_BYTES // buffer.dtype.itemsize,
            "seats" if stream.count > 1 else 1,
            stream.loop.length,
            first,
            last,
        )
        self.writer.line(self.call(helper, *arguments), buffer.name)

    def shared_place(self, access: Load | Store) -> tuple[str, np.dtype[Any]] | None:
        """Return the current step's element in the ring of a stream."""
        stream = self.streams.get(access)
        if stream is None:
            return super().shared_place(access)
        slot = f"{self.dims[stream.loop.dim]} & {2 * WARP - 1}"
        if stream.count > 1:
            slot = f"seat*{stream.pitch} + ({slot})"
        dtype = held_dtype(self.kernel.buffers[access.buffer].dtype)
        return f"{stream}[{self.slot(slot)}]", dtype

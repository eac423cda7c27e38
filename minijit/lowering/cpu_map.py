"""CPU schedule of kernels without reductions: one vector loop inside loops over the rest."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Sequence

from minijit.lowering.boxes import boxes, guarded
from minijit.lowering.cpu_boxes import write_boxes
from minijit.lowering.cpu_emitter import FEW, UNIT_NS, CpuEmitter, cell_cost, unit_stride_dim
from minijit.lowering.cpu_streams import streamed, vector_loop
from minijit.lowering.cpu_tile import Tile
from minijit.lowering.cpu_turn import turned_loads, turned_tile, turned_units
from minijit.lowering.kernel_ir import Kernel, Load, Map, Statement, Store, Value
from minijit.lowering.source import KernelSource, held_dtype
from minijit.lowering.stages import EXPENSIVE_FLOPS, operands

__all__ = ["emit_map"]

_LANES = 1024
"""Blocks of a long inner dimension are multiples of this."""
_FEWEST_LANES = 128
"""And shorter ones multiples of this: whole vectors, several at a time."""
_SQUARE = (64, 64)
"""Tile where one operand runs across the inner loop: its cache lines serve all rows of the tile."""
_NARROW = (128, 16)
"""The same when that operand jumps by a multiple of ``_SET_BYTES``: few such lines fit a cache."""
_SET_BYTES = 512
_ONCE_ROWS = 64
"""Rows of a unit that share values which only the inner dimension changes."""
_ONCE_LENGTH = 1 << 14
"""Longest inner dimension for which such values are kept."""


def emit_map(kernel: Kernel) -> KernelSource:
    """Write a kernel that has no columns."""
    return _Map(kernel).write()


class _Map:
    """One kernel being written."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.emitter = CpuEmitter(kernel)
        self.cost = cell_cost(kernel.statements)
        dims = range(len(kernel.rows))
        self.inner = unit_stride_dim(kernel, dims) if dims else None
        self.boxes = boxes(kernel)
        if self.boxes:
            self.cost = sum(
                box.share(kernel.rows) * cell_cost(box.statements) for box in self.boxes
            )
        self.once = [] if self.boxes else self._once()
        self.turned: tuple[Load, ...] = ()
        self.tile = self._tile(max(int(UNIT_NS / self.cost), 1))

    def write(self) -> KernelSource:
        """Return the finished source."""
        emitter, tile = self.emitter, self.tile
        if len(tile.order) == 1 and tile.extents[0] > FEW and not self.boxes:
            emitter.serve_sizes(tile)
        ready = self._by_depth()
        emitter.statements(ready[0])
        shared = self._shared()
        if self.once:
            with emitter.writer.block(f"for i{self.inner} in range({tile.extents[-1]}):"):
                emitter.statements(self.once)
                for value in shared:
                    emitter.array(f"once_{value.name}", held_dtype(value.dtype), tile.extents[-1])
                    emitter.write(value, f"once_{value.name}[i{self.inner}]")
        with self._units(lambda depth: emitter.statements(ready[depth])) as span:
            if self.inner is None:
                emitter.statements([s for s in self.kernel.statements if isinstance(s, Store)])
            elif self.boxes:
                done = {s.out for s in itertools.chain(*ready[:-1]) if not isinstance(s, Store)}
                write_boxes(emitter, tile, self.boxes, done, span)
            else:
                stores = streamed(self.kernel, ready[-1], self.inner, tile.blocks[-1])
                with vector_loop(emitter, self.inner, span, stores):
                    for value in shared:
                        emitter.read(value, f"once_{value.name}[i{self.inner}]")
                    emitter.statements(ready[len(tile.order)])
        trips = tile.blocks[-1] if tile.order else 1
        work = math.prod(self.kernel.rows) * self.cost
        return emitter.finish(tile.units, work, self._prose(), trips)

    def _units(self, after: Callable[[int], None]) -> contextlib.AbstractContextManager[str]:
        if self.turned:
            return turned_units(self.emitter, self.tile, self.turned, after)
        return self.emitter.units(self.tile, after)

    def _once(self) -> list[Statement]:
        """Return the statements that depend on the inner dimension alone, if one is expensive.

        They are computed before the rows of a unit rather than in each of them.
        """
        kernel = self.kernel
        if self.inner is None or len(kernel.rows) == 1 or kernel.rows[self.inner] > _ONCE_LENGTH:
            return []
        along: list[Statement] = [
            s
            for s in kernel.statements
            if not isinstance(s, Store) and self.emitter.dims_of(s) == {self.inner}
        ]
        dear = any(isinstance(s, Map) and s.op.flops > EXPENSIVE_FLOPS for s in along)
        return along if dear else []

    def _shared(self) -> list[Value]:
        """Return what ``once`` computes and the rest reads."""
        inside = {s.out for s in self.once if not isinstance(s, Store)}
        outside = [s for s in self.kernel.statements if s not in self.once]
        read = {o for s in outside for o in operands(s) if isinstance(o, Value)}
        return [s.out for s in self.once if not isinstance(s, Store) and s.out in read & inside]

    def _tile(self, points: int) -> Tile:
        kernel, inner = self.kernel, self.inner
        if inner is None:
            return Tile((), (), ())
        across, jump = self._across(inner)
        order = [dim for dim in range(len(kernel.rows)) if dim not in (inner, across)]
        if across is not None and not self.once:
            # Boxes cut their tiles further, each with loads of its own.
            self.turned = () if self.boxes else turned_loads(kernel, inner, across)
            if self.turned:
                return turned_tile(kernel, [*order, across, inner])
            rows, cols = _NARROW if jump % _SET_BYTES == 0 else _SQUARE
            order += [across, inner]
            extents = tuple(kernel.rows[dim] for dim in order)
            blocks = (*[1] * (len(order) - 2), min(rows, extents[-2]), min(cols, extents[-1]))
            return Tile(tuple(order), extents, blocks)
        order += [inner] if across is None else [across, inner]
        if self.once:
            points = max(points, _ONCE_ROWS * kernel.rows[inner])
        tile = Tile.filled(order, kernel.rows, points)
        if tile.blocks[-1] > _FEWEST_LANES and tile.counts[-1] > 1:
            grain = _LANES if tile.blocks[-1] > _LANES else _FEWEST_LANES
            block = -(-tile.blocks[-1] // grain) * grain
            tile = Tile(tile.order, tile.extents, (*tile.blocks[:-1], block))
        return tile

    def _across(self, inner: int) -> tuple[int | None, int]:
        """Return the dimension that most accesses walk with stride one while ``inner`` jumps.

        The second result is by how many bytes the first of them jumps.
        """
        jumps: dict[int, list[int]] = {}
        for statement in self.kernel.statements:
            if isinstance(statement, Load | Store) and abs(statement.index.stride(inner)) > 1:
                size = self.kernel.buffers[statement.buffer].dtype.itemsize
                for dim, stride in statement.index.terms:
                    if dim != inner and abs(stride) == 1:
                        jump = abs(statement.index.stride(inner)) * size
                        jumps.setdefault(dim, []).append(jump)
        if not jumps:
            return None, 0
        across = max(jumps, key=lambda dim: len(jumps[dim]))
        return across, jumps[across][0]

    def _by_depth(self) -> list[list[Statement]]:
        """Sort the statements by the number of loops that must be open before they can run."""
        depth_of = {dim: position + 1 for position, dim in enumerate(self.tile.order)}
        ready: list[list[Statement]] = [[] for _ in range(len(self.tile.order) + 1)]
        in_boxes = guarded(self.kernel) if self.boxes else frozenset()
        for statement in self.kernel.statements:
            if isinstance(statement, Store):
                if self.tile.order:
                    ready[-1].append(statement)
            elif statement.out in in_boxes:
                ready[-1].append(statement)
            elif statement not in self.once:
                used = self.emitter.dims_of(statement)
                ready[max((depth_of[dim] for dim in used), default=0)].append(statement)
        return ready

    def _prose(self) -> str:
        tile = self.tile
        if not tile.order:
            return "map: one point"
        sizes = _times(tile.blocks)
        text = f"map: {tile.units} units of {sizes} points, vectors along i{self.inner}"
        if self.boxes:
            text += f", {len(self.boxes)} boxes"
        if self.once:
            text += f", {len(self._shared())} values shared by rows"
        return f"{text}, {len(self.turned)} operands turned" if self.turned else text


def _times(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))

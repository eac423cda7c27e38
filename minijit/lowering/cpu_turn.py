"""Operands that run across the inner loop of a map: tiles of them are turned in a near cache."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence

from minijit.lowering.cpu_emitter import CpuEmitter
from minijit.lowering.cpu_tile import Tile
from minijit.lowering.kernel_ir import Kernel, Load

__all__ = ["Side", "turn", "turned_loads", "turned_tile", "turned_units"]

_FEWEST = 16
"""Least extents along and across: what is left beside whole squares is copied one by one."""
_WIDEST = 4
"""Bytes of an element at most: of wider ones a register holds so few that turning gains nothing."""
_SIDE = 128
"""Elements of a line of a tile: enough of the cache's side by side for a page to be opened."""
_LINE_BYTES = 64


def turned_loads(kernel: Kernel, inner: int, across: int) -> tuple[Load, ...]:
    """Return the loads that walk ``across`` with stride one while ``inner`` jumps."""
    if min(kernel.rows[inner], kernel.rows[across]) < _FEWEST:
        return ()
    return tuple(
        load
        for load in kernel.statements
        if isinstance(load, Load)
        and load.guard is None
        and kernel.buffers[load.buffer].dtype.itemsize <= _WIDEST
        and load.index.stride(across) == 1
        and abs(load.index.stride(inner)) > 1
    )


def turned_tile(kernel: Kernel, order: Sequence[int]) -> Tile:
    """Return the tile of a map; the last two dimensions of ``order`` are across and inner."""
    extents = tuple(kernel.rows[dim] for dim in order)
    blocks = (*[1] * (len(order) - 2), min(_SIDE, extents[-2]), min(_SIDE, extents[-1]))
    return Tile(tuple(order), extents, blocks)


@contextlib.contextmanager
def turned_units(
    emitter: CpuEmitter, tile: Tile, loads: Sequence[Load], after: Callable[[int], None]
) -> Iterator[str]:
    """Open the loops over the rows of units, but for the innermost, with ``loads`` in scratch.

    Args:
        emitter: Writes the kernel.
        tile: What :func:`turned_tile` returns.
        loads: What is turned.
        after: Called with the number of dimensions whose indices are known.

    Yields:
        What the innermost loop's ``range`` takes.
    """
    writer, (*outer, across, inner) = emitter.writer, tile.order
    with writer.block("for unit in range(start, stop):"):
        for position, dim in enumerate(outer):
            writer.line(f"i{dim} = {tile.digit(position)}")
            after(position + 1)
        for position, dim in enumerate((across, inner), len(outer)):
            extent, block = tile.extents[position], tile.blocks[position]
            writer.line(f"low{dim} = {block}*({tile.digit(position)})")
            end = f"low{dim} + {block}"
            writer.line(f"high{dim} = {end if extent % block == 0 else f'min({end}, {extent})'}")
        sides = [
            Side(dim, f"low{dim}", f"high{dim}", tile.blocks[position])
            for position, dim in enumerate((across, inner), len(outer))
        ]
        for number, load in enumerate(loads):
            turn(emitter, load, f"turned{number}", *sides)
        with writer.block(f"for i{across} in range(low{across}, high{across}):"):
            after(len(outer) + 1)
            yield f"low{inner}, high{inner}"


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """One side of a tile.

    Attributes:
        dim: The dimension along it.
        low: Code of the first index.
        high: Code of the one after the last.
        most: How many there are at most.
    """

    dim: int
    low: str
    high: str
    most: int


def turn(emitter: CpuEmitter, load: Load, name: str, across: Side, inner: Side) -> None:
    """Write the transposed copy of what one load reads in a tile, and read it there from now on."""
    dtype = emitter.kernel.buffers[load.buffer].dtype
    # An odd number of cache lines: lines of a tile are in different sets of the cache.
    lines = math.ceil(inner.most * dtype.itemsize / _LINE_BYTES) | 1
    pitch = lines * _LINE_BYTES // dtype.itemsize
    emitter.array(name, dtype, pitch * across.most)
    for side in (across, inner):
        emitter.dims[side.dim] = side.low
    first = emitter.index(load.index)
    for side in (across, inner):
        emitter.dims[side.dim] = f"i{side.dim}"
    counts = ", ".join(
        side.high if side.low == "0" else f"{side.high} - {side.low}" for side in (across, inner)
    )
    stride = load.index.stride(inner.dim)
    code = f"{name}, {pitch}, b{load.buffer}, {first}, {stride}, {counts}"
    emitter.writer.line(f"{emitter.helper('turn')}({code})")

    def place() -> str:
        line, element = (
            emitter.dims[side.dim] if side.low == "0" else f"{emitter.dims[side.dim]} - {side.low}"
            for side in (across, inner)
        )
        line = line if across.low == "0" else f"({line})"
        return f"{name}[{pitch}*{line} + {element}]"

    emitter.turned[load] = place

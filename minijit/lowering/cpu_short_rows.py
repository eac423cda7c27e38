"""Short rows: a hundred of them are turned in a near cache, so that vectors run along the rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from minijit.lowering.cpu_emitter import CpuEmitter
from minijit.lowering.cpu_turn import Side, turn
from minijit.lowering.kernel_ir import Gather, Kernel, Level, Load, Map, Store
from minijit.lowering.stages import EXPENSIVE_FLOPS, stage_kernel

__all__ = ["SHORT_TILE", "TURN_NS", "short_rows", "short_tiles"]

SHORT_TILE = 128
"""Rows that are turned at a time: what 32 columns of them take is half of a first cache."""
TURN_NS = 0.1
"""Work of turning one element."""
_COLUMNS = (9, 32)
"""Fewer columns LLVM unrolls, and takes several rows at a time by itself; more fill vectors."""
_FILLING = 16
"""Columns from which on a cheap pass is over before a row would be turned."""
_VECTOR = 8
"""Columns of which nothing is left beside vectors are a multiple of these."""
_WIDEST = 4
"""Bytes of an element at most: of wider ones a register holds so few that turning gains nothing."""


def short_rows(kernel: Kernel) -> tuple[Load, ...]:
    """Return the loads to turn, where vectors had better run along the last row dimension.

    Nothing of the cells may be stored: it would have to be turned back.
    """
    lane, dim = len(kernel.rows) - 1, len(kernel.rows)
    least, most = _COLUMNS
    if lane < 0 or len(kernel.cols) != 1 or kernel.ragged is not None:
        return ()
    if not least <= kernel.cols[0] <= most or kernel.rows[lane] < SHORT_TILE:
        return ()
    turned: list[Load] = []
    for statement in kernel.statements:
        match statement:
            case Store() if statement.level is Level.CELL:
                return ()
            case Gather() if statement.out.level is Level.CELL:
                return ()
            case Load() if statement.out.level is Level.CELL and lane in statement.index.dims:
                size = kernel.buffers[statement.buffer].dtype.itemsize
                if statement.guard is not None or statement.index.stride(dim) != 1:
                    return ()
                if size > _WIDEST:
                    return ()
                if abs(statement.index.stride(lane)) != 1:  # windows lie along the rows anyway
                    turned.append(statement)
    return tuple(turned) if turned and _gains(kernel, turned) else ()


def _gains(kernel: Kernel, turned: list[Load]) -> bool:
    """Whether rows one at a time take longer than to turn them."""
    (columns,) = kernel.cols
    maps = [s for s in kernel.statements if isinstance(s, Map)]
    costly = {s.out.level for s in maps if s.op.flops > EXPENSIVE_FLOPS}
    if Level.ROW in costly:
        return True
    # A vector has so many bytes that rows of them are unrolled as well.
    bytewise = any(kernel.buffers[load.buffer].dtype.itemsize == 1 for load in turned)
    if columns < _FILLING and not bytewise:
        return True
    several = Level.CELL in costly or len(stage_kernel(kernel).stages) > 1
    return several and columns % _VECTOR != 0


@contextlib.contextmanager
def short_tiles(emitter: CpuEmitter, loads: Sequence[Load], ends: str) -> Iterator[None]:
    """Open the loop over the tiles of a unit, from ``low`` to ``high``, with ``loads`` turned.

    Args:
        emitter: Writes the kernel.
        loads: What :func:`short_rows` returns.
        ends: The unit's first row, and the one after its last.
    """
    rows = emitter.kernel.rows
    (columns,) = emitter.kernel.cols
    emitter.writer.line(f"first_row, last_row = {ends}")
    with emitter.writer.block(f"for low in range(first_row, last_row, {SHORT_TILE}):"):
        emitter.writer.line(f"high = min(low + {SHORT_TILE}, last_row)")
        across = Side(len(rows), "0", str(columns), columns)
        inner = Side(len(rows) - 1, "low", "high", SHORT_TILE)
        for number, load in enumerate(loads):
            turn(emitter, load, f"turned{number}", across, inner)
        yield

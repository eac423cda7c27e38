"""How the threads of a block share the rows of a kernel with reductions.

The ladder of threads for one row follows QuACK (Dao-AILab, media/2025-07-10-membound-sol.md): short
rows share a warp, longer ones take more threads, so that no thread holds more than 32 values.
"""

from __future__ import annotations

import dataclasses
import math

from minijit.lowering.cuda_launch import (
    FEW_REGISTERS,
    MOST_REGISTERS,
    SECTOR_BYTES,
    SHARED_BYTES,
    VECTOR_BYTES,
    unrolled_lanes,
)
from minijit.lowering.cuda_lead import Lead, find_lead
from minijit.lowering.cuda_vectors import gathers_runs
from minijit.lowering.kernel_ir import Kernel, Load, Map, Reduce, Store
from minijit.lowering.source import held_dtype
from minijit.lowering.stages import (
    CHEAP_FLOPS,
    Staging,
    accesses,
    reads_along_rows,
    stage_kernel,
)

__all__ = [
    "FEW_ROWS",
    "MOST_THREADS",
    "WARP",
    "Geometry",
    "choose_geometry",
    "most_lanes",
    "power_of_two",
]

WARP = 32
FEW_ROWS = 264
_SHORT_LANES = 8
_MOST_LANES = 32
_REGISTER_BYTES = 4
_ROOMY_LANES = 16
"""With so many cells of a register a thread takes at most 64: more blocks at once."""
MOST_THREADS = 512
_PASS_THREADS = 256
_PASS_VECTORS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Geometry:
    """A mapping of rows and columns to threads.

    Attributes:
        by_column: Neighbouring threads take neighbouring rows of the kernel (which lie next to each
            other in memory) rather than neighbouring columns.
        threads: Threads in a block.
        group: Threads that share a row; a power of two.
        chunk: Neighbouring columns that a thread takes at once.
        steps: Chunks that a thread holds at a time, ``group * chunk`` columns apart.
        persistent: Whether the whole row is held at once; else it is read again in each pass.
        apart: Rows from one of a warp to its next; beyond one the block has as many warps.
        lead: By how many columns threads begin before the row, if they do.
        registers: Most that a thread may take.
        spare: Rows less that a block takes than its threads could.
    """

    by_column: bool
    threads: int
    group: int
    chunk: int
    steps: int
    persistent: bool
    apart: int = 1
    lead: Lead | None = None
    registers: int = MOST_REGISTERS
    spare: int = 0

    @property
    def rows(self) -> int:
        """Rows for which a block has threads."""
        return self.threads // self.group

    @property
    def taken(self) -> int:
        """Rows that a block takes."""
        return self.rows - self.spare

    @property
    def partials(self) -> int:
        """Results of warps that a block combines; not more than rows if no row has several."""
        if self.by_column:
            return _column_partials(self.rows, self.threads)
        return self.threads // WARP

    @property
    def lanes(self) -> int:
        """Columns that a thread holds at a time."""
        return self.chunk * self.steps

    @property
    def span(self) -> int:
        """Columns that the threads of a row hold at a time."""
        return self.lanes * self.group

    def led(self, cols: int, lead: Lead) -> Geometry:
        """Return the same where threads begin before rows: a row that is held takes a step more."""
        steps = self.steps
        if self.persistent:
            steps = -(-(cols + lead.most) // (self.group * self.chunk))
        return dataclasses.replace(self, steps=steps, lead=lead)

    def __str__(self) -> str:
        """Return the schedule in words."""
        kind = "column" if self.by_column else "row"
        held = "held in registers" if self.persistent else f"in passes of {self.span} columns"
        return (
            f"{kind}: {self.taken} rows in a block of {self.threads} threads, {self.group} threads "
            f"and {self.steps} x {self.chunk} values each for a row, {held}"
        )


def choose_geometry(
    kernel: Kernel, *, vectorize: bool, work: int | None
) -> tuple[Geometry, Staging]:
    """Return the mapping of a kernel with columns, and its passes."""
    held = stage_kernel(kernel, keep_loads=True)
    most = most_lanes(held, work)
    by_column = reads_along_rows(kernel)
    lead = find_lead(kernel) if vectorize and not by_column else None
    chunk = _chunk(kernel, lead, most) if vectorize and not by_column else 1
    rows, cols = math.prod(kernel.rows), math.prod(kernel.cols)
    sizes = [kernel.buffers[access.buffer].dtype.itemsize for access in accesses(kernel)]
    sector = SECTOR_BYTES // min(sizes, default=SECTOR_BYTES)
    if by_column:
        reduces = (s for s in kernel.statements if isinstance(s, Reduce))
        exchanged = sum(held_dtype(d).itemsize for reduce in reduces for d in reduce.accumulators)
        hold = bool(held.kept)
        geometry = _columns(rows, kernel.rows[-1], cols, most, sector, exchanged, hold=hold)
    else:
        roomy = _roomy_lanes(kernel, held)
        geometry = _rows(rows, cols, chunk, max(most, chunk), roomy, sector)
        if lead is not None:
            geometry = geometry.led(cols, lead)
    return geometry, held if geometry.persistent else stage_kernel(kernel, budget=0)


def most_lanes(held: Staging, work: int | None) -> int:
    """Return how many columns a thread may hold, a power of two."""
    words = sum(max(value.dtype.itemsize, 4) // 4 for value in held.kept)
    most = min(_MOST_LANES, 2 * _MOST_LANES // max(words, 2))
    return min(most, work or most, *(unrolled_lanes(stage.cells) for stage in held.stages))


def _chunk(kernel: Kernel, lead: Lead | None, most: int) -> int:
    """Return how many neighbouring columns make whole vectors; 1 when rows are not aligned."""
    inner = len(kernel.extents) - 1
    sizes = [
        kernel.buffers[access.buffer].dtype.itemsize
        for access in accesses(kernel)
        if access.index.stride(inner) == 1 and (isinstance(access, Store) or access.guard is None)
    ]
    if not sizes or gathers_runs(kernel, inner):
        return 1
    chunk = math.gcd(VECTOR_BYTES // min(sizes), kernel.cols[-1], 0 if lead is None else lead.step)
    while chunk > most:
        chunk //= 2
    return chunk if chunk * max(sizes) >= VECTOR_BYTES else 1


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is not below ``number``."""
    return 1 << max(number - 1, 0).bit_length()


def _roomy_lanes(kernel: Kernel, held: Staging) -> int:
    """Return how many columns a thread holds in 64 registers: of those that take one, and of wider.

    A cell takes a register by what stays of it, or by a costly operation. Of float16 as it is
    loaded two take one.
    """
    loaded = {statement.out for statement in kernel.statements if isinstance(statement, Load)}
    kept = [value.dtype if value in loaded else held_dtype(value.dtype) for value in held.kept]
    cells = [statement for stage in held.stages for statement in stage.cells]
    costly = any(isinstance(s, Map) and s.op.flops > CHEAP_FLOPS for s in cells)
    is_wide = costly or sum(dtype.itemsize for dtype in kept) >= _REGISTER_BYTES
    read = [statement.out.dtype for statement in cells if isinstance(statement, Load)]
    widest = max((dtype.itemsize for dtype in (*kept, *read)), default=0)
    lanes = _ROOMY_LANES if is_wide else _MOST_LANES
    return lanes * _REGISTER_BYTES // max(widest, _REGISTER_BYTES)


def _rows(rows: int, cols: int, chunk: int, most: int, roomy: int, sector: int) -> Geometry:
    chunks = max(-(-cols // chunk), 1)
    # One warp for a row while that keeps enough rows in flight, more when there are few rows.
    threads = WARP if rows >= FEW_ROWS else MOST_THREADS
    short = max(min(_SHORT_LANES, most) // chunk, 1)
    group = min(power_of_two(-(-chunks // short)), threads)
    # Fewer threads than share a sector would ask for it in each of their steps.
    group = max(group, min(sector // chunk, power_of_two(chunks)))
    wide = _PASS_THREADS * max(_ROOMY_LANES // roomy, 1)
    for lanes, threads in ((min(most, roomy), wide), (most, MOST_THREADS)):
        while -(-chunks // group) * chunk > lanes and group < threads:
            group *= 2
    steps = -(-chunks // group)
    persistent = steps * chunk <= most
    if not persistent:
        group = _PASS_THREADS if rows >= FEW_ROWS else MOST_THREADS
        wanted = [n for n in (4, 2, 1) if n <= _PASS_VECTORS and n * chunk <= max(most, chunk)]
        exact = [n for n in wanted if cols % (n * group * chunk) == 0]
        steps = (exact or wanted)[0]
    threads = max(group, 128 if rows * group >= 128 * FEW_ROWS else WARP)
    registers = FEW_REGISTERS if persistent and steps * chunk <= roomy else MOST_REGISTERS
    return Geometry(False, threads, group, chunk, steps, persistent, registers=registers)


def _column_partials(rows: int, threads: int) -> int:
    return rows * (threads // max(rows, WARP))


def _columns(
    rows: int, beside: int, cols: int, most: int, sector: int, exchanged: int, *, hold: bool
) -> Geometry:
    even = _even_share(beside)
    alone = beside < rows and even < power_of_two(even)
    width = min(WARP, power_of_two(even if alone else rows))
    narrowest = width if alone else min(width, sector)
    # Narrower tiles than a line of memory only where blocks would be too few to fill a device.
    while width > narrowest and cols >= 512 and -(-rows // width) < FEW_ROWS // 2:
        width //= 2
    group = min(power_of_two(-(-cols // 4)), _PASS_THREADS // width)
    if cols >= 512 and -(-rows // width) < FEW_ROWS:
        group = max(group, MOST_THREADS // width)
    if cols <= most * (MOST_THREADS // (narrowest if hold else width)):
        # More threads hold the column at once; in narrower tiles if later passes need it again.
        while -(-cols // group) > most:
            group *= 2
        width = min(width, MOST_THREADS // group)
    # Few columns leave threads over: a block takes more rows instead.
    threads = width * group
    if not alone or threads < WARP:
        threads = max(threads, min(128, power_of_two(rows) * group), WARP)
    # What a block exchanges has to fit into shared memory.
    while group > 1 and exchanged * _column_partials(threads // group, threads) > SHARED_BYTES:
        group, threads = group // 2, threads // 2
    steps = max(-(-cols // group), 1)
    persistent = steps <= most
    if not persistent:
        wanted = [n for n in (8, 4, 2, 1) if n <= most]
        exact = [n for n in wanted if cols % (n * group) == 0]
        steps = (exact or wanted)[0]
    spare = width - even if alone and threads // group == width > even else 0
    return Geometry(True, threads, group, 1, steps, persistent, spare=spare)


def _even_share(beside: int) -> int:
    """Return how many of so many neighbours in memory a block takes, so that it takes no others.

    With some of the next ones, which lie elsewhere, it would share sectors of both with blocks that
    go through others at the same time. A whole warp's if all even shares are narrow.
    """
    if beside <= WARP:
        return beside
    return next((n for n in range(WARP, WARP // 4, -1) if beside % n == 0), WARP)

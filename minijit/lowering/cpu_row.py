"""CPU schedule of reductions whose columns are the fastest in memory: a row at a time."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence

from minijit.graph.index import Affine
from minijit.lowering.cpu_emitter import UNIT_NS, CpuEmitter, cell_cost, unit_stride_dim
from minijit.lowering.cpu_positions import Search, sought
from minijit.lowering.cpu_reduce import Accumulation, accumulations_of
from minijit.lowering.cpu_streams import streamed, vector_loop
from minijit.lowering.cpu_tile import Tile
from minijit.lowering.kernel_ir import Kernel, Load, Statement, Store, Value
from minijit.lowering.source import KernelSource, held_dtype
from minijit.lowering.stages import Stage, Staging, stage_kernel

__all__ = ["emit_row"]

_SEGMENT = 2048
"""Columns of a segment of a float sum: some dozens for each lane of its vectors."""
_SEARCHED = 512
"""Columns of a segment in which the place of an extreme value is looked for: joining the lanes of a
vector after each takes a fraction of its time, and so does the search in one of a long row."""
_KEPT_BYTES = 1 << 19
"""Most bytes a row that are kept between passes: half of a common L2 cache."""
_CONVERSION_FLOPS = 3
"""What converting a float16 is worth: one of a vector starts in each cycle, of others two."""
_AHEAD = 256
"""Columns for which memory is asked at a time: few enough not to wait for it."""
_AHEAD_BYTES = (1 << 10, 1 << 16)
"""Least and most bytes of a row that is asked for: shorter ones are one stream for the hardware,
longer ones do not fit into the near caches beside the row that is worked on."""
_Jump = tuple[Load | Store, int]
"""An access, and how many elements further on memory is asked for."""


def emit_row(kernel: Kernel) -> KernelSource:
    """Write a kernel with reductions, one loop over the columns for each of its stages."""
    emitter = CpuEmitter(kernel)
    staging = stage_kernel(kernel, budget=_KEPT_BYTES, conversion=_CONVERSION_FLOPS)
    cells = math.prod(kernel.cols)
    lent = _lent(kernel, staging)
    for value in staging.kept:
        if value not in lent:
            emitter.array(f"kept_{value.name}", held_dtype(value.dtype), cells)
    cost = cells * sum(
        cell_cost(stage.cells) + cell_cost(stage.reduces) for stage in staging.stages
    )
    cost += sum(cell_cost(stage.before) for stage in staging.stages) + cell_cost(staging.after) + 1
    dims = range(len(kernel.rows))
    order = list(dims)
    tile = Tile.filled(order, kernel.rows, int(UNIT_NS / cost))
    emitter.statements(staging.launch)
    with emitter.units(tile) as span, contextlib.ExitStack() as stack:
        if tile.order:
            head = f"for i{tile.order[-1]} in range({span}):"
            stack.enter_context(emitter.writer.block(head))
        ahead = _ahead(emitter, staging, tile.order)
        search = Search(emitter, staging)
        for number, stage in enumerate(staging.stages):
            emitter.statements(stage.before)
            _pass(emitter, stage, cells, ahead.get(number, ()), lent, search)
        emitter.statements(staging.after)
    schedule = (
        f"row: {tile.units} units of {math.prod(tile.blocks)} rows, "
        f"{len(staging.stages)} passes over {cells} columns, {len(staging.kept)} values kept"
    )
    if lent:
        schedule += f", {len(lent)} of them in the place of a result"
    cols = range(len(kernel.rows), len(kernel.extents))
    trips = kernel.extents[unit_stride_dim(kernel, cols)] if cols else 1
    return emitter.finish(tile.units, cost * math.prod(kernel.rows), schedule, trips)


def _own_name(name: str) -> str:
    return name


def _lent(kernel: Kernel, staging: Staging) -> dict[Value, Store]:
    """Return which values are kept where a result of the last pass will be, and its store.

    Of a long row an array for them would take the place in the cache that the row needs itself.
    """
    if not kernel.cols or kernel.ragged is not None or not staging.kept:
        return {}
    last, cells = staging.stages[-1], math.prod(kernel.cols)
    inner = unit_stride_dim(kernel, range(len(kernel.rows), len(kernel.extents)))
    every = {dim for dim, extent in enumerate(kernel.extents) if extent > 1}
    past = _streamed(kernel, last)
    free = [
        s
        for s in last.cells
        if isinstance(s, Store)
        and s not in past
        and every <= set(s.index.dims)
        and s.index.stride(inner) == 1
    ]
    lent: dict[Value, Store] = {}
    for value in staging.kept:
        if cells * held_dtype(value.dtype).itemsize > _AHEAD_BYTES[1]:
            # In memory as in a register: no bool, no float16.
            fitting = (
                s
                for s in free
                if kernel.buffers[s.buffer].dtype == value.dtype == held_dtype(value.dtype)
            )
            store = next(fitting, None)
            if store is not None and value.dtype.kind != "b":
                free.remove(store)
                lent[value] = store
    return lent


def _ahead(emitter: CpuEmitter, staging: Staging, order: Sequence[int]) -> dict[int, list[_Jump]]:
    """Return what a pass brings into the cache for others, by the number of the pass.

    It is the one that computes longest: memory would be idle meanwhile, and all others wait for it,
    since the hardware follows a stream no further than to the end of a page.
    """
    kernel, stages = emitter.kernel, staging.stages
    if len(stages) < 2 or len(kernel.cols) != 1 or not order or kernel.ragged is not None:
        return {}
    costs = [
        0.0 if sought(stage) else cell_cost(stage.cells) + cell_cost(stage.reduces)
        for stage in stages
    ]
    dearest, row, column = costs.index(max(costs)), order[-1], len(kernel.rows)
    least, most = _AHEAD_BYTES
    found: dict[tuple[int, Affine], _Jump] = {}
    for number, stage in enumerate(stages):
        past = _streamed(kernel, stage)
        for access in stage.cells:
            if isinstance(access, Load | Store) and emitter.is_far(access) and access not in past:
                jump = access.index.stride(row)
                size = kernel.buffers[access.buffer].dtype.itemsize
                apart = least <= size * kernel.cols[0] <= most and kernel.cols[0] <= abs(jump)
                if apart and abs(access.index.stride(column)) == 1:
                    this_row = isinstance(access, Store) and number > dearest
                    found[access.buffer, access.index] = access, 0 if this_row else jump
    return {dearest: list(found.values())}


def _streamed(kernel: Kernel, stage: Stage) -> tuple[Store, ...]:
    """Return the stores of a pass that go past the caches.

    A sum would be another one in the segments of such a loop. Parts of a row that is split are
    there to be reduced.
    """
    if stage.reduces or not kernel.cols or kernel.ragged is not None:
        return ()
    dim = unit_stride_dim(kernel, range(len(kernel.rows), len(kernel.extents)))
    return streamed(kernel, stage.cells, dim, kernel.extents[dim])


def _pass(
    emitter: CpuEmitter,
    stage: Stage,
    cells: int,
    ahead: Sequence[_Jump],
    lent: Mapping[Value, Store],
    search: Search,
) -> None:
    """Write one pass over the columns of the current row, with what it asks memory for."""
    accumulations = accumulations_of(stage.reduces, cells, _SEGMENT)
    for each in accumulations:
        each.start(emitter, _own_name)
    followed = [each for each in accumulations if each.reduce.out in search.wanted]
    kernel, writer = emitter.kernel, emitter.writer
    dims = list(range(len(kernel.rows), len(kernel.extents)))
    if not dims:
        _cell(emitter, stage, stage.cells, accumulations, lent)
    else:
        inner = unit_stride_dim(kernel, dims)
        dims.remove(inner)
        segmented = any(each.segmented for each in accumulations)
        followed = followed if not dims else []
        with contextlib.ExitStack() as stack:
            for dim in dims:
                stack.enter_context(writer.block(f"for i{dim} in range({kernel.extents[dim]}):"))
            # A value read back exists only inside the inner loop, and so does what uses it.
            movable = not stage.reuses and not stage.keeps
            hoisted = [s for s in stage.cells if movable and inner not in emitter.dims_of(s)]
            rest = [s for s in stage.cells if s not in hoisted]
            emitter.statements(hoisted)
            span = emitter.columns(inner)
            length = _AHEAD if ahead else _SEGMENT if segmented else _SEARCHED
            if (segmented or ahead or followed) and kernel.extents[inner] > length:
                search.start(followed, length)
                span = emitter.segments(stack, inner, length)
            span = search.span(stage, inner) or span
            for access, jump in ahead:
                emitter.prefetch(access, jump, inner, span if "," in span else f"0, {span}")
            with vector_loop(emitter, inner, span, _streamed(kernel, stage)):
                _cell(emitter, stage, rest, accumulations, lent)
            for each in accumulations:
                if each.segmented:
                    each.flush(emitter, _own_name)
            search.end_segment(followed)
    for each in accumulations:
        each.finish(emitter, _own_name)


def _position(emitter: CpuEmitter) -> str:
    """Return the flat position of the current cell in the row."""
    kernel = emitter.kernel
    terms: list[str] = []
    stride = 1
    for dim in reversed(range(len(kernel.rows), len(kernel.extents))):
        terms.append(f"i{dim}" if stride == 1 else f"{stride}*i{dim}")
        stride *= kernel.extents[dim]
    return " + ".join(reversed(terms)) or "0"


def _cell(
    emitter: CpuEmitter,
    stage: Stage,
    statements: Sequence[Statement],
    accumulations: Sequence[Accumulation],
    lent: Mapping[Value, Store],
) -> None:
    """Write what happens at one cell."""

    def place(value: Value) -> str:
        store = lent.get(value)
        if store is None:
            return f"kept_{value.name}[{_position(emitter)}]"
        return f"b{store.buffer}[{emitter.index(store.index)}]"

    for value in stage.reuses:
        emitter.read(value, place(value))
    emitter.statements(statements)
    for value in stage.keeps:
        emitter.write(value, place(value))
    for each in accumulations:
        each.add(emitter, _own_name)

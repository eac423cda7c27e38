"""Chooses the CUDA schedule of a kernel and writes its source: map, tile, row or column."""

from __future__ import annotations

import dataclasses

from minijit.lowering.coalesce import coalesce
from minijit.lowering.cuda_launch import CudaLaunch, unrolled_lanes
from minijit.lowering.cuda_loop import emit_loop
from minijit.lowering.cuda_map import emit_map
from minijit.lowering.cuda_rows import emit_rows
from minijit.lowering.cuda_tile import TILE_WORK, crossing_dim, emit_tile
from minijit.lowering.kernel_ir import Kernel
from minijit.lowering.source import KernelSource

__all__ = ["CudaLaunch", "emit_cuda"]


def emit_cuda(
    kernel: Kernel,
    cc: tuple[int, int] = (9, 0),
    *,
    vectorize: bool = True,
    work: int | None = None,
) -> KernelSource:
    """Return CUDA source of ``kernel`` with its launch parameters.

    The function is ``def NAME(b0, b1, ..., a0, ...)`` over raw pointers and scalars.

    Args:
        kernel: Any kernel.
        cc: The compute capability that it will be compiled for.
        vectorize: Use 128-bit accesses; buffers in ``launch.aligned`` must then be aligned to them.
        work: Most elements that a thread holds at a time; None leaves the choice to the schedule.
    """
    if not kernel.has_rows:
        kernel = dataclasses.replace(kernel, rows=kernel.extents, cols=())
    kernel = coalesce(kernel)
    if kernel.has_rows and not kernel.cols:
        # Reductions over axes of extent one only: they still have one cell.
        kernel = dataclasses.replace(kernel, cols=(1,))
    if kernel.structured:
        return emit_loop(kernel, vectorize=vectorize, work=work)
    if not kernel.has_rows:
        across = crossing_dim(kernel)
        if (
            across is not None
            and min(unrolled_lanes(kernel.statements), work or TILE_WORK) >= TILE_WORK
        ):
            return emit_tile(kernel, across, vectorize=vectorize)
        return emit_map(kernel, vectorize=vectorize, work=work)
    return emit_rows(kernel, vectorize=vectorize, work=work)

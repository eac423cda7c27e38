"""From kernel IR to CPU source: picks the schedule."""

from __future__ import annotations

import dataclasses

from minijit.lowering.coalesce import coalesce
from minijit.lowering.cpu_column import emit_column
from minijit.lowering.cpu_emitter import unit_strides
from minijit.lowering.cpu_loop import emit_loop
from minijit.lowering.cpu_map import emit_map
from minijit.lowering.cpu_positions import expand_positions
from minijit.lowering.cpu_row import emit_row
from minijit.lowering.cpu_short_rows import short_rows
from minijit.lowering.kernel_ir import Kernel, Reduce
from minijit.lowering.source import KernelSource

__all__ = ["emit_cpu"]

_FEWEST_LANES = 8
"""Fewer adjacent rows than this fill no vector."""


def emit_cpu(kernel: Kernel) -> KernelSource:
    """Write a kernel for the CPU.

    The function written takes ``(start, stop, *scratch, *buffers, *arguments)`` and runs the work
    units ``[start, stop)`` of ``launch.units``.
    """
    if kernel.structured:
        return emit_loop(coalesce(kernel if kernel.has_rows else _without_columns(kernel)))
    kernel = coalesce(expand_positions(kernel))
    if not any(isinstance(statement, Reduce) for statement in kernel.statements):
        return emit_map(_without_columns(kernel))
    lane = _lane(kernel)
    if lane is not None:
        return emit_column(kernel, lane)
    turned = short_rows(kernel)
    return emit_column(kernel, len(kernel.rows) - 1, turned) if turned else emit_row(kernel)


def _without_columns(kernel: Kernel) -> Kernel:
    """Return a kernel that reduces nothing with its columns as further rows."""
    return dataclasses.replace(kernel, rows=kernel.extents, cols=())


def _lane(kernel: Kernel) -> int | None:
    """Return the row dimension that vectors should run along, or None when columns are better."""
    rows = len(kernel.rows)
    score = unit_strides(kernel)
    best = max(range(rows), key=lambda dim: score[dim], default=None)
    if best is None or kernel.rows[best] < _FEWEST_LANES:
        return None
    return best if score[best] > max(score[rows:], default=0.0) else None

"""From loaded code to a callable: one builtin function a kernel, called with a tuple."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from minijit.backends.base import Launcher
from minijit.backends.cpu.loader import Code
from minijit.backends.cpu.native import HEADER, Kind, LaunchPath, Mode
from minijit.backends.cpu.pool import pool_address

if TYPE_CHECKING:
    from minijit.lowering.cpu_launch import CpuLaunch
    from minijit.lowering.source import KernelSource

__all__ = ["interface_of", "make_launcher"]

_HOLD_NS = 20_000
"""Shorter work keeps the interpreter's lock: handing it over costs more."""
_PARALLEL_NS = 40_000
"""Longer work is spread over threads: one that is awake begins within some microseconds."""


class _Record(np.ndarray[Any, np.dtype[np.int64]]):
    """A launch record that keeps the code alive to which it points."""

    code: Code


def interface_of(source: KernelSource) -> dict[str, Any]:
    """Return what a launch needs to know, as JSON allows: operands, sizes, units, work, scratch."""
    launch: CpuLaunch = source.launch
    return {
        "buffers": len(source.kernel.buffers),
        "arguments": [argument.dtype.name for argument in source.kernel.arguments],
        "sizes": list(launch.sizes),
        "units": launch.units,
        "work": launch.work,
        "scratch": launch.scratch_bytes,
    }


def _mode(work: int, units: int) -> Mode:
    if work < _HOLD_NS:
        return Mode.HOLDING
    if work < _PARALLEL_NS or units < 2:
        return Mode.ALONE
    return Mode.PARALLEL


def _kind(dtype: np.dtype[Any]) -> Kind:
    if dtype.kind == "f":
        # float16 arguments are passed as float64, so that the kernel rounds them only once.
        return Kind.FLOAT32 if dtype == np.float32 else Kind.FLOAT64
    return Kind[dtype.name.upper()]


def make_launcher(interface: Mapping[str, Any], code: Code, path: LaunchPath) -> Launcher:
    """Return the function that runs a kernel on a tuple of its buffers and scalar arguments.

    ``interface`` is what ``interface_of`` gave, ``code`` the kernel, ``path`` what calls it.

    Arrays must be NumPy arrays of the declared sizes: nothing is checked. A scalar is anything that
    ``float()``, ``operator.index()`` or ``bool()`` takes, by the dtype declared; an integer that
    the dtype cannot hold is an OverflowError, as in NumPy.
    """
    sizes, units = interface["sizes"], interface["units"]
    kinds = [Kind.BUFFER] * interface["buffers"]
    kinds += [_kind(np.dtype(name)) for name in interface["arguments"]]
    values = [0] * len(kinds) + sizes
    kinds += [Kind.SIZE] * len(sizes)
    fields = [code.address, len(kinds), units, interface["scratch"]]
    fields += [_mode(interface["work"], units), pool_address(), id(None), id(OverflowError)]
    fields += [*kinds, *values]
    assert len(fields) == HEADER + 2 * len(kinds)
    record = np.array(fields, np.int64).view(_Record)
    record.code = code
    launcher: Launcher = path.builtin(record)
    return launcher

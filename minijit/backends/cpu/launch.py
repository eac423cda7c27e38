"""From loaded code to a callable: one builtin function a kernel, called with a tuple."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijit.backends.base import Launcher
from minijit.backends.cpu.loader import Code
from minijit.backends.cpu.native import HEADER, Kind, LaunchPath, Mode
from minijit.backends.cpu.pool import pool_address
from minijit.lowering.cpu_launch import CpuLaunch
from minijit.lowering.source import KernelSource

__all__ = ["make_launcher"]

_HOLD_NS = 20_000
"""Shorter work keeps the interpreter's lock: handing it over costs more."""
_PARALLEL_NS = 40_000
"""Longer work is spread over threads: waking one takes about 10 microseconds."""


class _Record(np.ndarray[Any, np.dtype[np.int64]]):
    """A launch record that keeps the code alive to which it points."""

    code: Code


def _mode(launch: CpuLaunch) -> Mode:
    if launch.work < _HOLD_NS:
        return Mode.HOLDING
    if launch.work < _PARALLEL_NS or launch.units < 2:
        return Mode.ALONE
    return Mode.PARALLEL


def _kind(dtype: np.dtype[Any]) -> Kind:
    if dtype.kind == "f":
        # float16 arguments are passed as float64, so that the kernel rounds them only once.
        return Kind.FLOAT32 if dtype == np.float32 else Kind.FLOAT64
    return Kind[dtype.name.upper()]


def make_launcher(source: KernelSource, code: Code, entry: str, path: LaunchPath) -> Launcher:
    """Return the function that runs a kernel on a tuple of its buffers and scalar arguments.

    ``entry`` is the kernel's symbol in ``code``, ``path`` what calls it.

    Arrays must be NumPy arrays of the declared sizes: nothing is checked. A scalar is anything that
    ``float()``, ``operator.index()`` or ``bool()`` takes, by the dtype declared; an integer that
    the dtype cannot hold is an OverflowError, as in NumPy.
    """
    kernel, launch = source.kernel, source.launch
    kinds = [Kind.BUFFER] * len(kernel.buffers) + [_kind(a.dtype) for a in kernel.arguments]
    kinds += [Kind.SIZE] * len(launch.sizes)
    values = [0] * (len(kinds) - len(launch.sizes)) + list(launch.sizes)
    fields = [code.address(entry), len(kinds), launch.units, launch.scratch_bytes]
    fields += [_mode(launch), pool_address(), id(None), id(OverflowError), *kinds, *values]
    assert len(fields) == HEADER + 2 * len(kinds)
    record = np.array(fields, np.int64).view(_Record)
    record.code = code
    launcher: Launcher = path.builtin(record)
    return launcher

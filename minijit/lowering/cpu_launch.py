"""Launch parameters of a CPU kernel: how its space is cut into units and what scratch they need."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

__all__ = ["ALIGNMENT", "CpuLaunch", "Scratch"]

ALIGNMENT = 64
"""Bytes to which scratch arrays are aligned: a cache line, and the widest vector."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scratch:
    """One private array of whoever runs units: a pointer parameter named ``name`` of the kernel."""

    name: str
    dtype: np.dtype[Any]
    length: int

    @property
    def bytes(self) -> int:
        """Its size, rounded up so that the next one is aligned too."""
        return -(-self.length * self.dtype.itemsize // ALIGNMENT) * ALIGNMENT


@dataclasses.dataclass(frozen=True, slots=True)
class CpuLaunch:
    """How a kernel runs.

    Attributes:
        units: Number of work units; results do not depend on who runs which.
        work: Estimated nanoseconds on one core for all units.
        scratch: Private arrays, in the order of the kernel's parameters.
        sizes: What the kernel is told of the size of its space, so that its code serves others too:
            its last parameters, each an int64.
        unroll: Whether the compiler may unroll loops: worth it where the innermost one is too
            short for vectors; else it would unroll loops that are to become vectors.
        interleave: How many vectors an innermost loop works on at a time; 0 lets the compiler
            choose.
        wide: Whether so many vectors go into the innermost loops so often that what is left after
            them is little.
    """

    units: int
    work: int
    scratch: tuple[Scratch, ...] = ()
    unroll: bool = False
    sizes: tuple[int, ...] = ()
    interleave: int = 0
    wide: bool = False

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch that whoever runs units needs."""
        return sum(scratch.bytes for scratch in self.scratch)

"""Numba device functions of the CPU: reductions that vectorise, C casts, float16, prefetches."""

from __future__ import annotations

from minijit.kernels.cpu.casts import FROM_FLOAT
from minijit.kernels.cpu.device import device_function
from minijit.kernels.cpu.half import half_bits, half_value, round_half
from minijit.kernels.cpu.prefetch import prefetch_read, prefetch_write
from minijit.kernels.cpu.reductions import COMBINE, add_exactly, total_of

__all__ = [
    "COMBINE",
    "FROM_FLOAT",
    "add_exactly",
    "device_function",
    "half_bits",
    "half_value",
    "prefetch_read",
    "prefetch_write",
    "round_half",
    "total_of",
]

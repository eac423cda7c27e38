"""Numba device functions of the CPU: reductions, C casts, float16, prefetches, streams, tiles."""

from __future__ import annotations

from minijit.kernels.cpu.casts import FROM_FLOAT
from minijit.kernels.cpu.device import device_function, scalar_function
from minijit.kernels.cpu.extrema import larger, smaller
from minijit.kernels.cpu.freeze import freeze
from minijit.kernels.cpu.half import half_bits, half_value, round_half
from minijit.kernels.cpu.prefetch import prefetch_read, prefetch_write
from minijit.kernels.cpu.reductions import COMBINE, add_exactly, total_of
from minijit.kernels.cpu.streaming import settle_stores, stream
from minijit.kernels.cpu.turning import turn

#: What generated kernels refer to by name.
VOCABULARY = {
    "add_exactly": add_exactly,
    "freeze": freeze,
    "half_bits": half_bits,
    "half_value": half_value,
    "larger": larger,
    "prefetch_read": prefetch_read,
    "prefetch_write": prefetch_write,
    "round_half": round_half,
    "settle_stores": settle_stores,
    "smaller": smaller,
    "stream": stream,
    "total_of": total_of,
    "turn": turn,
    **FROM_FLOAT,
    **{f"fold_{monoid}": fold for monoid, fold in COMBINE.items()},
}
helper = VOCABULARY.__getitem__

__all__ = ["VOCABULARY", "device_function", "helper", "scalar_function"]

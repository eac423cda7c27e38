"""Device functions for CUDA: 128-bit accesses, maxima that keep NaN, warp and block reductions."""

from __future__ import annotations

from numba import cuda

from minijit.kernels.cuda.block import add_exactly, total_of
from minijit.kernels.cuda.indexing import (
    advance,
    block_index,
    mirrored,
    narrow,
    quotient,
    remainder,
    thread_index,
)
from minijit.kernels.cuda.memory import (
    load,
    load_signed,
    load_tail,
    load_tail_signed,
    load_vector,
    load_vector_signed,
    store,
    store_tail,
    store_vector,
    zero,
)
from minijit.kernels.cuda.numeric import (
    CASTS,
    ceil,
    floor,
    maximum,
    minimum,
    round_half,
    round_half_signed,
    trunc,
)
from minijit.kernels.cuda.stream import read_windows, read_windows_signed, write_windows
from minijit.kernels.cuda.tile import read_rows, read_rows_signed, write_rows
from minijit.kernels.cuda.warp import shuffle_xor

#: What generated kernels refer to by name.
VOCABULARY = {
    "add_exactly": add_exactly,
    "advance": advance,
    "block_index": block_index,
    "ceil": ceil,
    "cuda": cuda,
    "floor": floor,
    "load": load,
    "load_signed": load_signed,
    "load_tail": load_tail,
    "load_tail_signed": load_tail_signed,
    "load_vector": load_vector,
    "load_vector_signed": load_vector_signed,
    "maximum": maximum,
    "minimum": minimum,
    "mirrored": mirrored,
    "narrow": narrow,
    "quotient": quotient,
    "shuffle_xor": shuffle_xor,
    "read_rows": read_rows,
    "read_rows_signed": read_rows_signed,
    "read_windows": read_windows,
    "read_windows_signed": read_windows_signed,
    "remainder": remainder,
    "round_half": round_half,
    "round_half_signed": round_half_signed,
    "store": store,
    "store_tail": store_tail,
    "store_vector": store_vector,
    "thread_index": thread_index,
    "total_of": total_of,
    "trunc": trunc,
    "write_rows": write_rows,
    "write_windows": write_windows,
    "zero": zero,
    **CASTS,
}
helper = VOCABULARY.__getitem__

__all__ = ["VOCABULARY", "helper"]

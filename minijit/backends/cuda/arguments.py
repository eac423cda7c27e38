"""Argument blocks: the values of a launch as the driver reads them, a block for each thread."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["ArgumentBlock", "BlockPerThread"]

_SLOT = 8
# Of the struct module. Kernels take float16 scalars as float32 and round them.
_CODES = {"bool": "?", "float16": "f", "float32": "f", "float64": "d"}
_CODES |= {"int8": "b", "int16": "h", "int32": "i", "int64": "q"}
_CODES |= {"uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q"}


class ArgumentBlock:
    """Eight bytes for each argument, and the array of their addresses.

    Attributes:
        memory: The values; pack into it from offset 0.
        address: What the driver takes as ``kernelParams``.
    """

    __slots__ = ("_addresses", "address", "memory")

    def __init__(self, count: int) -> None:
        """Reserve ``count`` slots."""
        slots = max(count, 1)
        self.memory = (ctypes.c_char * (_SLOT * slots))()
        base = ctypes.addressof(self.memory)
        self._addresses = (ctypes.c_uint64 * slots)(*(base + _SLOT * n for n in range(slots)))
        self.address = ctypes.addressof(self._addresses)


class BlockPerThread(threading.local):
    """The calling thread's ``block``, and ``pack(memory, 0, *pointers, *scalars)`` that fills it.

    The launch releases the GIL while the driver reads the block, so threads must not share one.
    """

    def __init__(self, pointers: int, scalars: Sequence[np.dtype[Any]]) -> None:
        """Reserve slots for ``pointers`` addresses, then for scalars of these dtypes.

        It runs again in every thread that uses the object.
        """
        super().__init__()
        codes = [_CODES[dtype.name] for dtype in scalars]
        padded = [f"{code}{_SLOT - struct.calcsize('=' + code)}x" for code in codes]
        self.block = ArgumentBlock(pointers + len(codes))
        self.pack = struct.Struct("=" + "Q" * pointers + "".join(padded)).pack_into

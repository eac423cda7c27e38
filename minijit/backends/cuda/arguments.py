"""Argument blocks: the values of a launch as the driver reads them, a block for each thread."""

from __future__ import annotations

import ctypes
import operator
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
    """The calling thread's ``block``, and :meth:`pack`, which fills it.

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
        self._pack = struct.Struct("=" + "Q" * pointers + "".join(padded)).pack_into
        self._scalars = tuple(scalars)
        self._in_halves = np.dtype(np.float16) in self._scalars

    def pack(self, *values: Any) -> None:
        """Write the addresses, then the scalars; numbers beyond a float dtype become infinite.

        Raises:
            OverflowError: an integer that its dtype cannot hold.
        """
        if not self._in_halves:  # which must be rounded from what is given, not from float32
            try:
                self._pack(self.block.memory, 0, *values)
                return
            except (OverflowError, struct.error):
                pass  # number by number, below, the reason is known
        pointers = len(values) - len(self._scalars)
        held = map(_held, values[pointers:], self._scalars)
        self._pack(self.block.memory, 0, *values[:pointers], *held)


def _held(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a number as its dtype holds it."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return dtype.type(value)
    if dtype.kind in "iu":
        limits, number = np.iinfo(dtype), operator.index(value)
        if not limits.min <= number <= limits.max:
            raise OverflowError(f"Python integer {number} out of bounds for {dtype.name}")
    return value

"""The one emulated device of the process: its memory, and what the driver would keep track of."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
from typing import Any

import numpy as np

from minijit.backends.emulator.memory import Buffer, GlobalMemory

CAPABILITY = tuple(map(int, os.environ.get("EMULATED_CAPABILITY", "9.0").split(".")))
# Ranges with smaller numbers may hold addresses of the host.
_FIRST = 1 << 12
_RANGE_BITS = 36
_FIXED = 0x100000  # MAP_FIXED_NOREPLACE

memory = GlobalMemory(_FIRST)
libraries: dict[int, Any] = {}
"""Loaded modules by their handle."""
handles = itertools.count(1000)
"""Handles of streams, events and modules."""
_managed_numbers = itertools.count(16)
_managed: dict[int, tuple[Any, int]] = {}
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def allocate_managed(size: int) -> int:
    """Return memory that has the same address on the host and on the device."""
    number = next(_managed_numbers)
    address = (number << _RANGE_BITS) + (1 << (_RANGE_BITS - 1))
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _FIXED
    found = _libc.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if found != address:
        raise MemoryError(f"no memory at {address:#x}")
    data = host_array(address, size)
    memory.adopt(data, number)
    _managed[address] = data, size
    return address


def free(address: int) -> bool:
    """Free device memory of either kind; return whether there was any."""
    if address in _managed:
        data, size = _managed.pop(address)
        del data
        _libc.munmap(address, size)
        return True
    try:
        memory.free(address)
    except KeyError:
        return False
    return True


def host_array(address: int, size: int) -> Any:
    """Return memory of the host as an array that owns it as far as the device can tell."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def locate(address: int, size: int) -> tuple[Buffer, int] | None:
    """Return the buffer with ``size`` bytes at a device address, and where in it they lie."""
    buffer = memory.find(address)
    if buffer is None or not 0 <= address - buffer.address <= buffer.size - size:
        return None
    return buffer, address - buffer.address


def written(buffer: Buffer, start: int, size: int) -> None:
    """Note that the host wrote bytes of a buffer."""
    if buffer.unwritten is not None:
        buffer.unwritten[start : start + size] = False
        buffer.settle()

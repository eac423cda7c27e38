"""Memory of large results, used again once nothing refers to it: fresh pages cost a kernel's time.

An array's memory comes back when its base, a ``ctypes`` array, dies; as long as the array, a view
of it or a buffer export lives, the base does. Nothing here takes a lock, since memory can come back
in any thread, within a garbage collection that started inside these very functions.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from minijit.backends.array import Array

__all__ = ["clear_memory", "empty", "expect", "idle_bytes", "is_small", "most_idle_bytes"]

LEAST_BYTES = 1 << 20
"""Smaller arrays are NumPy's own: the C library reuses their memory well."""
LEAST_IDLE_BYTES = 1 << 28
"""So much may lie idle in any case, and as much as one call of a program allocates."""
_SHARE = 8
"""But not more than that part of the machine's memory: the rest goes back to the system."""
_GRAIN = 1 << 16
_ALIGNMENT = 64

_Memory = np.ndarray[Any, np.dtype[np.uint8]]
_idle: dict[int, deque[_Memory]] = {}
_alive: dict[int, tuple[weakref.ref[Any], _Memory]] = {}
_expected: set[int] = set()


def empty(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Return an uninitialised C-contiguous array; a large one lies at a cache line's start."""
    if is_small(shape, dtype):
        return Array(shape, dtype)
    capacity = _capacity(_nbytes(shape, dtype))
    memory = _take(capacity)
    start = memory.ctypes.data
    base = _ctypes_array(capacity).from_address(start + -start % _ALIGNMENT)
    reference = weakref.ref(base, _give_back)
    _alive[id(reference)] = (reference, memory)
    return Array(shape, dtype, buffer=base)


def expect(sizes: Iterable[int]) -> None:
    """Learn that a call of some program allocates arrays of so many bytes.

    What a call returned is freed when the next one has returned, as a rule: all of it lies idle
    until a third one asks for the same.
    """
    wanted = sum(_capacity(size) for size in sizes if size >= LEAST_BYTES)
    if wanted > LEAST_IDLE_BYTES:
        _expected.add(wanted)


def most_idle_bytes() -> int:
    """Return how many bytes may lie idle."""
    wanted = min(max(_expected, default=0), machine_bytes() // _SHARE)
    return max(wanted, LEAST_IDLE_BYTES)


@functools.cache
def machine_bytes() -> int:
    """Return the memory of this machine, as far as the system tells."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


def is_small(shape: Sequence[int], dtype: np.dtype[Any]) -> bool:
    """Whether ``empty`` leaves an array of this type to NumPy."""
    return _nbytes(shape, dtype) < LEAST_BYTES


def _nbytes(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    return math.prod(shape) * dtype.itemsize


def _capacity(nbytes: int) -> int:
    return -(-nbytes // _GRAIN) * _GRAIN


@functools.lru_cache(256)
def _ctypes_array(size: int) -> Any:
    return ctypes.c_byte * size


def _take(capacity: int) -> _Memory:
    free = _idle.get(capacity)
    if free is not None:
        try:
            return free.pop()
        except IndexError:
            pass
    return np.empty(capacity + _ALIGNMENT, np.uint8)


def _give_back(reference: weakref.ref[Any]) -> None:
    _, memory = _alive.pop(id(reference))
    capacity = memory.size - _ALIGNMENT
    most = most_idle_bytes()
    if idle_bytes() + capacity <= most:
        _idle.setdefault(capacity, deque()).append(memory)
    elif capacity <= most:
        # What is asked for now is likelier to be asked for again than what lies here.
        _idle.clear()
        _idle.setdefault(capacity, deque()).append(memory)


def idle_bytes() -> int:
    """Return how many bytes wait to be used again."""
    return sum(capacity * len(free) for capacity, free in tuple(_idle.items()))


def clear_memory() -> None:
    """Give all idle memory back to the system, and expect no program any more."""
    _idle.clear()
    _expected.clear()

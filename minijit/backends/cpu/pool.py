"""The threads that run kernels: one pool a process, started by its first parallel launch.

Its threads are created by native code and hold no Python state. They look for work for a while
after the last one, then sleep on a semaphore: to wake up takes longer than to launch the next
kernel. A launch calls as many as it has units for and works itself; units are claimed one by one,
so who runs what never changes a result. A second launch at the same time runs in its own thread
alone.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

import numpy as np

from minijit.backends.cpu.native import THREADS_SUPPORTED, Slot
from minijit.graph.config import config
from minijit.graph.locks import process_lock

__all__ = ["available_threads", "pool_address", "set_threads"]

_lock = process_lock()


def available_threads() -> int:
    """Return how many threads run kernels: ``config.num_threads``, or the cores of this process."""
    if not THREADS_SUPPORTED:
        return 1
    if config.num_threads > 0:
        return int(config.num_threads)
    return len(os.sched_getaffinity(0))


def _record() -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the pool's record, aligned to cache lines; never freed, threads sleep on it."""
    with _lock:
        return _new_record()


@functools.cache
def _new_record() -> np.ndarray[Any, np.dtype[np.int64]]:
    memory = np.zeros(Slot.SIZE + 8, np.int64)
    skipped = -memory.ctypes.data % 64 // 8
    record = memory[skipped : skipped + Slot.SIZE]
    record[Slot.WANTED] = available_threads() - 1
    _reset(record)
    # Threads do not survive a fork: the child starts its own at its first parallel launch.
    if THREADS_SUPPORTED:
        os.register_at_fork(after_in_child=lambda: _reset(record))
    return record


def _reset(record: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    wanted = record[Slot.WANTED]
    record[:] = 0
    record[Slot.WANTED] = wanted
    if THREADS_SUPPORTED:
        process = ctypes.CDLL(None)
        for slot in (Slot.WAKE, Slot.DONE):
            process.sem_init(ctypes.c_void_p(record.ctypes.data + 8 * slot), 0, 0)


def set_threads(count: int) -> None:
    """Let parallel launches use ``count`` threads from now on, the calling one included."""
    _record()[Slot.WANTED] = max(count - 1, 0)


def pool_address() -> int:
    """Return the address of the pool's record, for launch records."""
    return int(_record().ctypes.data)


def _follow() -> None:
    with _lock:  # of two changes at a time the last one counts
        set_threads(available_threads())


config.observe("num_threads", _follow)

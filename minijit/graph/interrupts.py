"""Work that Ctrl-C must not stop in its middle."""

from __future__ import annotations

import _thread
import atexit
import os
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

__all__ = ["uninterrupted"]

_T = TypeVar("_T")

_unfinished: set[_thread.LockType] = set()


def uninterrupted(work: Callable[[], _T]) -> _T:
    """Return what ``work`` returns, or raise what it raises.

    Signals are handled in the main thread, anywhere: a library that is stopped there may keep its
    locks, and its tables half filled, as Numba and llvmlite do. So the main thread lets another one
    do the work and waits; an interrupt ends the waiting at once, and the work afterwards.

    The waiting is one call of a lock that no Python code runs in: ``threading.Event`` itself, and
    ``Thread.start`` and ``join`` with it, are left in a state of their own making where an
    interrupt falls inside them.
    """
    if threading.get_ident() == threading.main_thread().ident:
        return _in_a_thread(work)
    return work()


def _in_a_thread(work: Callable[[], _T]) -> _T:
    results: list[_T] = []
    errors: list[BaseException] = []
    context = copy_context()
    finished = _thread.allocate_lock()
    finished.acquire()

    def run() -> None:
        _unfinished.add(finished)
        try:
            results.append(context.run(work))
        except BaseException as error:
            errors.append(error)
        finally:
            _unfinished.discard(finished)
            finished.release()

    _thread.start_new_thread(run, ())
    finished.acquire()
    if errors:
        raise errors[0]
    return results[0]


@atexit.register
def _finish() -> None:
    """Wait for work that nobody waits for any more, before Python tears down what it uses."""
    for finished in list(_unfinished):
        finished.acquire()


# A child has none of the threads that would finish it.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unfinished.clear)

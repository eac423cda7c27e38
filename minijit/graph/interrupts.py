"""Work that Ctrl-C must not stop in its middle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

__all__ = ["uninterrupted"]

_T = TypeVar("_T")


def uninterrupted(work: Callable[[], _T]) -> _T:
    """Return what ``work`` returns, or raise what it raises.

    Signals are handled in the main thread, anywhere: a library that is stopped there may keep its
    locks, and its tables half filled, as Numba and llvmlite do. So the main thread lets another one
    do the work and waits; an interrupt ends the waiting at once, and the work afterwards.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[_T] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run(context: Any) -> None:
        try:
            results.append(context.run(work))
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=run, args=(copy_context(),), name="minijit compiler")
    thread.start()
    # Not only for the thread: interrupted there, Python takes it for one that has ended, and does
    # not wait for it before it tears down what the work uses.
    done.wait()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]

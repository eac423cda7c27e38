"""Locks of the whole process, and what a fork does to them."""

from __future__ import annotations

import os
import threading

__all__ = ["process_lock"]


def process_lock() -> threading.RLock:
    """Return a re-entrant lock that a fork waits for, so that no child inherits it locked.

    The thread that holds a lock does not exist in the child, which would wait for it for ever.
    Locks are taken in the reverse order of their creation: of two that are ever held together, the
    one that is taken first has to be created last.
    """
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock

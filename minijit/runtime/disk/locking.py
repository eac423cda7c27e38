"""One process at a time, as far as the system helps: nothing that must be right relies on it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

if sys.platform != "win32":
    import fcntl

__all__ = ["exclusive"]

_POLL_SECONDS = 0.005


@contextmanager
def exclusive(path: str, timeout: float) -> Iterator[bool]:
    """Hold the lock of the file ``path`` for a ``with`` block; yield whether it is held.

    It is not where the system has no ``flock``, the file cannot be made, or another holds it for
    longer than ``timeout`` seconds. A process that dies lets go; the file is gone with its holder.
    """
    held = _acquire(path, time.monotonic() + timeout)
    try:
        yield held is not None
    finally:
        if held is not None:
            _release(path, held)


if sys.platform == "win32":

    def _acquire(path: str, deadline: float) -> IO[bytes] | None:
        return None

    def _release(path: str, held: IO[bytes]) -> None: ...

else:

    def _acquire(path: str, deadline: float) -> IO[bytes] | None:
        while True:
            # An object, not a number: whatever interrupts this, it is closed, which lets go.
            try:
                file = open(path, "ab", buffering=0, opener=_open)  # noqa: SIM115
            except OSError:
                return None
            try:
                while not _try_lock(file):
                    if time.monotonic() > deadline:
                        file.close()
                        return None
                    time.sleep(_POLL_SECONDS)
                if _is_at(path, file):
                    return file
                file.close()  # its holder deleted it; whoever comes now locks another file
            except BaseException as error:
                file.close()
                if isinstance(error, OSError):
                    return None  # a file system without locks
                raise

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _release(path: str, held: IO[bytes]) -> None:
        try:
            os.unlink(path)  # while it is held: nobody else's file can have this name
        except OSError:
            pass
        finally:
            try:
                # Said aloud, since a child that was forked meanwhile has the file open as well.
                fcntl.flock(held, fcntl.LOCK_UN)
            finally:
                held.close()

    def _open(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)

    def _is_at(path: str, file: IO[bytes]) -> bool:
        try:
            return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
        except OSError:
            return False

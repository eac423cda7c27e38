"""Reading a file that may be anything, and writing one that is there whole or not at all."""

from __future__ import annotations

import errno
import os
import stat

from minijit.runtime.disk.container import MAX_ENTRY_BYTES, CorruptEntry
from minijit.runtime.disk.permissions import is_ours_alone

__all__ = ["TEMPORARY", "publish", "read", "remove"]

TEMPORARY = ".tmp"
"""Suffix of a file that is being written, or was when its process was killed."""

# Not through a link; a FIFO must not make us wait. Windows has neither, and would change newlines.
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_READ |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_WRITE |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


def read(path: str) -> tuple[bytes, os.stat_result]:
    """Return the bytes of a regular file that only this user or root can have written.

    Raises:
        FileNotFoundError: it is not there.
        CorruptEntry: it is something else, of somebody else, too long, or cannot be read.
    """
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        raise
    except OSError as error:
        # What opening a link with O_NOFOLLOW gives, here and on FreeBSD.
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise CorruptEntry("kind", "it is a link") from None
        raise CorruptEntry("unreadable", f"it cannot be opened: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise CorruptEntry("kind", "it is no regular file")
        if not is_ours_alone(status):
            mode = stat.S_IMODE(status.st_mode)
            raise CorruptEntry(
                "owner", f"others can write it (owner {status.st_uid}, mode {mode:04o})"
            )
        if status.st_size > MAX_ENTRY_BYTES:
            raise CorruptEntry("size", f"its {status.st_size} bytes are more than an entry has")
        data = os.read(descriptor, status.st_size)
        while len(data) < status.st_size:
            more = os.read(descriptor, status.st_size - len(data))
            if not more:
                break  # cut while it is read: a checksum finds that
            data += more
        return data, status
    except OSError as error:
        raise CorruptEntry("unreadable", f"it cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)


def publish(path: str, data: bytes) -> None:
    """Make ``path`` hold ``data``, for this user alone; a reader sees all of it or what was before.

    Without fsync, which takes longer than all the rest: what a power failure tears is found by its
    checksum.

    Raises:
        OSError: it cannot be written; nothing is left.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name[:16]}-{os.urandom(8).hex()}{TEMPORARY}")
    try:
        descriptor = os.open(temporary, _WRITE, 0o600)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        remove(temporary)
        raise


def remove(path: str) -> bool:
    """Delete a file, or a folder that is empty; return whether that was possible."""
    for delete in (os.unlink, os.rmdir):
        try:
            delete(path)
        except OSError:
            continue
        return True
    return False

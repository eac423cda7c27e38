"""How full a store is, without a look at every file: the last count, and what was written since.

All processes append to one small file, a byte for each entry. It may be lost, torn or wrong: the
store is then counted, which writes it anew.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress

from minijit.runtime.disk.files import publish

__all__ = ["JOURNAL", "record", "restart"]

JOURNAL = "journal"

_COUNT = struct.Struct("<QQ")
_MAX_BYTES = _COUNT.size + 1024
"""After so many writes the store is counted, to take back what was added too much."""
_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_FLAGS |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def record(folder: str, size: int) -> tuple[int, int] | None:
    """Note that an entry of ``size`` bytes was written to a store's folder.

    Returns:
        How many entries there are at most, and bytes; None when that has to be counted.
    """
    try:
        descriptor = os.open(os.path.join(folder, JOURNAL), _FLAGS)
        try:
            os.write(descriptor, bytes((size.bit_length(),)))
            os.lseek(descriptor, 0, os.SEEK_SET)
            data = os.read(descriptor, _MAX_BYTES)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    if not _COUNT.size <= len(data) < _MAX_BYTES:
        return None
    entries, total = _COUNT.unpack_from(data)
    since = data[_COUNT.size :]
    return entries + len(since), total + sum(1 << bits for bits in since)


def restart(folder: str, entries: int, total: int) -> None:
    """Begin anew with what was counted just now."""
    with suppress(OSError):
        publish(os.path.join(folder, JOURNAL), _COUNT.pack(entries, total))

"""What is in a store's folder, and what has to go: the least recently used, and what is left over.

Several processes may prune one folder, and each may find that a file has gone already.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator

from minijit.runtime.disk.files import TEMPORARY, remove
from minijit.runtime.disk.journal import JOURNAL

__all__ = ["LOCKS", "QUARANTINE", "SUFFIX", "Pruned", "clear", "entry_files", "prune", "usage"]

SUFFIX = ".mjk"
QUARANTINE = "quarantine"
LOCKS = "locks"

_SHARD = re.compile("[0-9a-f]{2}")
_STALE_SECONDS = 3600.0
"""Older than this, a temporary file or a lock belongs to a process that was killed."""
_QUARANTINE_SECONDS = 7 * 24 * 3600.0
_LOW_WATER = 0.9
"""Pruned to this share of a bound, so that the next write need not prune again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pruned:
    """What is in the folder now, and what went.

    Attributes:
        entries: Number of entries that are left.
        size: Their bytes.
        evicted: Entries deleted, the least recently used first.
        stale: Files deleted that killed processes left, and old ones in quarantine.
    """

    entries: int
    size: int
    evicted: int
    stale: int


def entry_files(folder: str, prefix: str = "") -> Iterator[os.DirEntry[str]]:
    """Yield, unread, the files of a store's folder that are named as entries are."""
    shards = [os.path.join(folder, prefix[:2])] if prefix else _shards(folder)
    return (
        file
        for shard in shards
        for file in _files(shard)
        if _is_entry(file) and file.name.startswith(prefix)
    )


def usage(folder: str) -> tuple[int, int, int]:
    """Return the number of entries in a store's folder, their bytes, and files in quarantine."""
    sizes = [status.st_size for file in entry_files(folder) if (status := _status(file))]
    return len(sizes), sum(sizes), len(_files(os.path.join(folder, QUARANTINE)))


def prune(folder: str, max_bytes: int, max_entries: int, now: float) -> Pruned:
    """Delete what is stale, and entries beyond a bound; a negative ``max_bytes`` is none."""
    found: list[tuple[float, int, str]] = []
    stale = 0
    for place in (folder, *_shards(folder)):
        for file in _files(place):
            status = _status(file) if file.name.endswith((SUFFIX, TEMPORARY)) else None
            if status is None:
                continue
            if _is_entry(file):
                found.append((status.st_mtime, status.st_size, file.path))
            elif now - status.st_mtime > _STALE_SECONDS:
                stale += remove(file.path)
    for name, age in ((LOCKS, _STALE_SECONDS), (QUARANTINE, _QUARANTINE_SECONDS)):
        for file in _files(os.path.join(folder, name)):
            status = _status(file)
            if status is not None and now - max(status.st_mtime, status.st_ctime) > age:
                stale += remove(file.path)
    entries, size, evicted = len(found), sum(bytes_ for _, bytes_, _ in found), 0
    over = entries > max_entries or 0 <= max_bytes < size
    # Not the newest one, even where it fills the store alone: it has just been written.
    for _, bytes_, path in sorted(found)[:-1] if over else ():
        if entries <= max_entries * _LOW_WATER and (
            max_bytes < 0 or size <= max_bytes * _LOW_WATER
        ):
            break
        evicted += remove(path)
        entries, size = entries - 1, size - bytes_
    return Pruned(entries, size, evicted, stale)


def clear(folder: str) -> int:
    """Delete all that a store writes, and no other file; return the number of entries."""
    entries = 0
    for place in (*_shards(folder), folder):
        for file in _files(place):
            if _is_entry(file):
                entries += remove(file.path)
            elif file.name.endswith(TEMPORARY) or file.name == JOURNAL:
                remove(file.path)
            elif file.name in (QUARANTINE, LOCKS):
                for inner in _files(file.path):
                    remove(inner.path)
                remove(file.path)
        remove(place)
    return entries


def _is_entry(file: os.DirEntry[str]) -> bool:
    return file.name.endswith(SUFFIX)


def _shards(folder: str) -> list[str]:
    folders = (file for file in _files(folder) if file.is_dir(follow_symlinks=False))
    return sorted(file.path for file in folders if _SHARD.fullmatch(file.name))


def _files(folder: str) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing where it is a link, for that is none of ours."""
    try:
        if os.path.islink(folder):
            return []
        with os.scandir(folder) as found:
            return list(found)
    except OSError:
        return []


def _status(file: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return file.stat(follow_symlinks=False)
    except OSError:
        return None

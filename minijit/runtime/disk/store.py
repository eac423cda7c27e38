"""The store: entries in a folder, by key; whatever is wrong there costs a compile and nothing else.

``get`` returns an entry that passed every check, or None; ``put`` writes one, or does not. Neither
raises for the state of the disk. What failed a check is moved aside, so the next ``put`` heals it.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Literal, NamedTuple

from minijit.graph.locks import process_lock
from minijit.runtime.disk import prune as pruning
from minijit.runtime.disk.container import SCHEMA, CorruptEntry, Entry, decode, decode_any, encode
from minijit.runtime.disk.files import publish, read, remove
from minijit.runtime.disk.journal import record, restart
from minijit.runtime.disk.key import Key
from minijit.runtime.disk.locking import exclusive
from minijit.runtime.disk.notice import warn_once
from minijit.runtime.disk.permissions import is_owner, make_folder, why_untrusted
from minijit.runtime.disk.prune import LOCKS, QUARANTINE, SUFFIX, Pruned

__all__ = ["Access", "Flight", "Policy", "Record", "Store"]

_TOUCH_SECONDS = 3600.0
"""How exactly the time of the last use is kept: a hit seldom writes."""
_counting = process_lock()

Access = Literal["none", "ro", "rw"]


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """What a store keeps.

    Attributes:
        mode: ``"rw"``, or ``"ro"`` to change nothing on the disk.
        min_entry_bytes: Smaller entries are not written.
        min_compile_seconds: Entries that took less to compile are not written.
        max_bytes: When the entries are more, the least recently used go; negative for no bound.
        max_entries: The same for their number.
        lock_seconds: How long a process waits for another one that compiles the same key.
    """

    mode: Literal["rw", "ro"] = "rw"
    min_entry_bytes: int = 0
    min_compile_seconds: float = 0.0
    max_bytes: int = 2**30
    max_entries: int = 20_000
    lock_seconds: float = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A file in the store, as the command line shows it.

    Attributes:
        path: The file.
        size: Its bytes.
        used: When it was used last, to the hour; seconds since the epoch.
        key: Its key; None for a file that fails a check.
        meta: Its facts; see ``Entry``.
        problem: Which check it fails, and how; empty for none.
    """

    path: str
    size: int
    used: float
    key: Key | None
    meta: Mapping[str, Any]
    problem: str = ""


class Flight(NamedTuple):
    """Leave to do the work for a key, in one process at a time.

    Attributes:
        entry: What another process stored since this one looked; None where the work is to be done.
        alone: Whether no other process does the same work meanwhile; without locks that work, or
            after ``Policy.lock_seconds``, it is done twice, and both results are right.
    """

    entry: Entry | None
    alone: bool


class Store:
    """Compiled binaries and plans in one folder, shared by any number of threads and processes.

    Attributes:
        folder: Where entries of this version's format are.
        policy: What it keeps.
    """

    def __init__(self, root: str | os.PathLike[str], policy: Policy | None = None) -> None:
        """Name the folder; nothing on the disk is looked at or changed before the first use."""
        root = os.path.abspath(os.path.expanduser(root))
        self.folder = os.path.join(root, f"v{SCHEMA}")
        self.policy = policy or Policy()
        self._counts: Counter[str] = Counter()
        self._access: Access | None = None

    def get(self, key: Key) -> Entry | None:
        """Return what is stored for ``key``, or None."""
        if self._allowed() == "none":
            return None
        entry = self._find(key)
        if entry is None:
            self._count("misses")
        return entry

    def put(self, key: Key, entry: Entry) -> None:
        """Store ``entry`` for ``key``, unless the policy or a limit of the format says no.

        Raises:
            TypeError: ``entry.meta`` is no JSON.
        """
        if self._allowed() != "rw":
            return
        try:
            data = encode(key, entry)
        except ValueError:
            data = b""
        if not data or not self._wants(entry, len(data)):
            self._count("skipped")
            return
        path = self._path(key)
        try:
            make_folder(os.path.dirname(path))
            publish(path, data)
        except OSError as error:
            self._count("errors")
            warn_once("write", f"a compiled kernel cannot be kept in {self.folder}: {error}")
            return
        self._count("writes")
        self._prune_if_full(len(data))

    def other_environments(self, key: Key) -> tuple[Mapping[str, Any], ...]:
        """Return the environments that the same program is stored for, except that of ``key``."""
        program = key.name.partition("-")[0]
        same = self._records(pruning.entry_files(self.folder, program))
        return tuple(
            record.key.environment
            for record in same
            if record.key is not None and record.key != key
        )

    @contextmanager
    def single_flight(self, key: Key) -> Iterator[Flight]:
        """Keep other processes from compiling ``key`` for the length of a ``with`` block."""
        with self._lock(key) as alone:
            yield Flight(None if self._allowed() == "none" else self._find(key), alone)

    @property
    def access(self) -> Access:
        """What may be done with the folder: less than the policy where it is not ours alone."""
        return self._allowed()

    def stats(self) -> dict[str, int]:
        """Return counts of what happened in this process, by name.

        ``hits`` and ``misses`` of keys that were asked for; ``writes`` of ``put``, and those
        ``skipped`` by the policy or a limit and failed with ``errors``; ``evicted`` entries; calls
        ``refused`` since others can write the folder; ``corrupt_<fault>`` for each check that
        failed.
        """
        names = ("hits", "misses", "writes", "skipped", "errors", "evicted", "refused")
        with _counting:
            return {name: self._counts[name] for name in names} | dict(sorted(self._counts.items()))

    def __iter__(self) -> Iterator[Record]:
        """Read every entry there is, checks and all; the disk is not changed."""
        if self._allowed() == "none":
            return iter(())
        return self._records(pruning.entry_files(self.folder))

    def verify(self) -> tuple[Record, ...]:
        """Return the files that fail a check; the disk is not changed."""
        return tuple(record for record in self if record.problem)

    def usage(self) -> tuple[int, int, int]:
        """Return the number of entries, their bytes, and the number of files in quarantine."""
        return pruning.usage(self.folder)

    def prune(self) -> Pruned:
        """Delete entries beyond the bounds, the least recently used first, and stale files."""
        if self._allowed() != "rw":
            return Pruned(*self.usage()[:2], evicted=0, stale=0)
        policy = self.policy
        pruned = pruning.prune(self.folder, policy.max_bytes, policy.max_entries, time.time())
        restart(self.folder, pruned.entries, pruned.size)
        self._count("evicted", pruned.evicted)
        return pruned

    def clear(self) -> int:
        """Delete everything that was stored; return the number of entries."""
        return pruning.clear(self.folder) if self._allowed() == "rw" else 0

    def _find(self, key: Key) -> Entry | None:
        path = self._path(key)
        try:
            data, status = read(path)
            entry = decode(data, key)
        except FileNotFoundError:
            return None
        except CorruptEntry as error:
            self._reject(path, error)
            return None
        self._count("hits")
        self._touch(path, status)
        return entry

    def _lock(self, key: Key) -> AbstractContextManager[bool]:
        if self._allowed() != "rw":
            return nullcontext(False)
        folder = os.path.join(self.folder, LOCKS)
        try:
            make_folder(folder)
        except OSError:
            return nullcontext(False)  # `put` cannot write either, and says so
        return exclusive(os.path.join(folder, f"{key.name}.lock"), self.policy.lock_seconds)

    def _path(self, key: Key) -> str:
        return os.path.join(self.folder, key.name[:2], key.name + SUFFIX)

    def _allowed(self) -> Access:
        """What may be done with the folder."""
        if self._access is None:
            self._access = self._look()
        if self._access == "none":
            self._count("refused")
        return self._access or self.policy.mode

    def _look(self) -> Access | None:
        """Ask the disk what may be done; None as long as there is no folder."""
        why = why_untrusted(self.folder)
        if why is not None:
            warn_once("trust", f"the cache of compiled kernels is not used, since {why}")
            return "none"
        try:
            status = os.stat(self.folder)
        except OSError:
            return None
        # What root offers to all is read; nobody means us to write into it.
        return self.policy.mode if is_owner(status) else "ro"

    def _wants(self, entry: Entry, size: int) -> bool:
        policy = self.policy
        seconds = entry.meta.get("compile_seconds", 0.0)
        return (
            size >= policy.min_entry_bytes
            and seconds >= policy.min_compile_seconds
            and (size <= policy.max_bytes or policy.max_bytes < 0)
        )

    def _prune_if_full(self, written: int) -> None:
        policy = self.policy
        held = record(self.folder, written)
        if held is None or held[0] > policy.max_entries or 0 <= policy.max_bytes < held[1]:
            self.prune()

    def _touch(self, path: str, status: os.stat_result) -> None:
        # A clock that was set back leaves times in the future: these are mended as well.
        if self._access == "rw" and abs(time.time() - status.st_mtime) > _TOUCH_SECONDS:
            with suppress(OSError):
                os.utime(path)

    def _reject(self, path: str, error: CorruptEntry) -> None:
        """Count a file that failed a check, and move it out of the way."""
        self._count(f"corrupt_{error.fault}")
        if self._allowed() == "rw":
            aside = os.path.join(self.folder, QUARANTINE)
            name = f"{os.path.basename(path)}.{error.fault}-{os.urandom(4).hex()}"
            try:
                make_folder(aside)
                os.rename(path, os.path.join(aside, name))
            except OSError:
                remove(path)
        warn_once(
            "corrupt", f"a file of the cache of compiled kernels was not used: {path}: {error}"
        )

    def _records(self, files: Iterable[os.DirEntry[str]]) -> Iterator[Record]:
        for file in files:
            try:
                data, status = read(file.path)
            except FileNotFoundError:
                continue
            except CorruptEntry as error:
                yield Record(file.path, 0, 0.0, None, {}, f"{error.fault}: {error}")
                continue
            size, used = status.st_size, status.st_mtime
            try:
                key, entry = decode_any(data)
                if key.name + SUFFIX != file.name:
                    raise CorruptEntry("key", "it belongs to another key")
            except CorruptEntry as error:
                yield Record(file.path, size, used, None, {}, f"{error.fault}: {error}")
            else:
                yield Record(file.path, size, used, key, entry.meta)

    def _count(self, what: str, times: int = 1) -> None:
        with _counting:
            self._counts[what] += times

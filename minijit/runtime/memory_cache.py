"""The cache of one function: programs by signature, plans by layout, the least recently used go."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from minijit.graph.config import config
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.trace import Traced
from minijit.graph.tree import TreeDef
from minijit.runtime.plan import Plan
from minijit.runtime.signature import Signature

__all__ = ["Entry", "FunctionCache", "Program"]


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A traced function.

    Attributes:
        jaxpr: What it computes.
        out_tree: Structure of its result.
        names: What the user calls its inputs.
    """

    jaxpr: Jaxpr
    out_tree: TreeDef
    names: tuple[str, ...]


@dataclasses.dataclass(slots=True)
class Entry:
    """One signature: its program, and a plan for each memory layout of the inputs."""

    program: Program
    plans: dict[Hashable, Plan] = dataclasses.field(default_factory=dict)
    raw_keys: list[Hashable] = dataclasses.field(default_factory=list)
    used: int = 0
    """When it was used last, by the cache's clock."""


Hit = tuple[Callable[[Sequence[Any]], Any], Entry]
"""What a hit needs: how to run a call, and the entry that is thereby used."""


class FunctionCache:
    """Entries of one function.

    Every signature is traced once and every layout compiled once, however many threads ask.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._entries: dict[Signature, Entry] = {}
        self._lock = threading.RLock()
        self._pending: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
        self.tick: Callable[[], int] = itertools.count(1).__next__
        self.hits: dict[Hashable, Hit] = {}
        """By raw key of a call: the short cut of a hit, which marks the entry with ``tick()``."""
        self.inner: dict[Signature, tuple[Traced, TreeDef]] = {}
        """Programs of its calls inside other traced functions."""
        self.traces = 0
        """How often the function was traced; evicted entries count."""

    def __len__(self) -> int:
        """Return the number of signatures."""
        return len(self._entries)

    def signatures(self) -> list[Signature]:
        """Return the signatures, least recently used first."""
        with self._lock:
            return sorted(self._entries, key=lambda signature: self._entries[signature].used)

    def all_plans(self) -> list[Plan]:
        """Return the compiled plans of all entries."""
        with self._lock:
            return [plan for entry in self._entries.values() for plan in entry.plans.values()]

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._entries.clear()
            self.hits.clear()
            self.inner.clear()

    def program(self, signature: Signature, trace: Callable[[], Program]) -> Entry:
        """Return the entry of ``signature``, tracing it if it is new.

        A trace that raises leaves nothing.
        """
        with self._once(signature):
            with self._lock:
                entry = self._entries.get(signature)
                if entry is not None:
                    entry.used = self.tick()
                    return entry
            entry = Entry(trace(), used=self.tick())
            with self._lock:
                self.traces += 1
                self._entries[signature] = entry
                self._evict()
            return entry

    def plan(
        self, signature: Signature, entry: Entry, layout: Hashable, build: Callable[[], Plan]
    ) -> Plan:
        """Return the plan of ``entry`` for ``layout``, compiling it if it is new.

        A compile that fails takes back the entry, if it has no other plan.
        """
        with self._once((signature, layout)):
            plan = entry.plans.get(layout)
            if plan is None:
                try:
                    plan = build()
                except BaseException:
                    with self._lock:
                        if not entry.plans and self._entries.get(signature) is entry:
                            del self._entries[signature]
                    raise
                entry.plans[layout] = plan
            return plan

    def remember(
        self, entry: Entry, raw_key: Hashable, run: Callable[[Sequence[Any]], Any]
    ) -> None:
        """Let calls with ``raw_key`` go straight to ``run``, as long as ``entry`` is kept."""
        with self._lock:
            if any(kept is entry for kept in self._entries.values()):
                self.hits[raw_key] = (run, entry)
                entry.raw_keys.append(raw_key)

    def _evict(self) -> None:
        while len(self._entries) > max(1, config.cache_entries):
            oldest = min(self._entries, key=lambda signature: self._entries[signature].used)
            for raw_key in self._entries.pop(oldest).raw_keys:
                self.hits.pop(raw_key, None)

    def _once(self, key: Hashable) -> Any:
        """Return a lock that only threads wanting the same ``key`` share."""
        with self._lock:
            return self._pending.setdefault(key, threading.RLock())

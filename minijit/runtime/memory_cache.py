"""The cache of one function: programs by signature, plans by layout, the least recently used go."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from types import CodeType
from typing import Any

from minijit.graph.config import config
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.trace import Traced
from minijit.graph.tree import TreeDef
from minijit.runtime.captured import Captured
from minijit.runtime.explain import History
from minijit.runtime.guard import Guard
from minijit.runtime.plan import Plan
from minijit.runtime.reads import Surroundings
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
    """One signature: its program, and a plan for each memory layout of the inputs.

    Attributes:
        signature: Its own.
        program: The traced function.
        captured: The program's constants, as they were when it was traced.
        plans: By layout, the oldest first.
        layouts: By raw key of a call that goes straight to a plan, that plan's layout.
        used: When it was used last, by the cache's clock.
        hits: How many calls found it compiled.
        compile_seconds: What compiling its plans took.
        nbytes: What its plans hold in memory, as estimated.
        arrays: Bytes of each array that it keeps alive, by the array's id.
    """

    signature: Signature
    program: Program
    captured: Captured
    plans: dict[Hashable, Plan] = dataclasses.field(default_factory=dict)
    layouts: dict[Hashable, Hashable] = dataclasses.field(default_factory=dict)
    used: int = 0
    hits: int = 0
    compile_seconds: float = 0.0
    nbytes: int = 0
    arrays: dict[int, int] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Look for the arrays."""
        held = (*self.captured, *(read.value for read in self.signature.reads))
        # Asks the class: what else a variable stands for may do anything when it is asked.
        self.arrays = {id(each): each.nbytes for each in held if hasattr(type(each), "nbytes")}


Hit = tuple[Guard | None, Callable[[Sequence[Any]], Any], Entry]
"""What a hit needs: whether what the function reads is unchanged, how to run a call, and the entry
that is thereby used."""
Inner = tuple[Traced, TreeDef]
"""A function traced for a call inside another one."""


class FunctionCache:
    """Entries of one function.

    Every signature is traced once and every layout compiled once, however many threads ask.
    ``config.cache_entries`` bounds the signatures, and for each the plans and the short cuts;
    ``config.cache_bytes`` what all plans hold, and arrays that a variable stood for earlier.
    """

    def __init__(self, code: CodeType | None = None) -> None:
        """Start empty; ``code`` is the function's, if it is a Python function."""
        self.history = History(code)
        self._entries: dict[Signature, Entry] = {}
        self._inner: dict[Signature, tuple[Inner, Captured]] = {}
        self._lock = threading.RLock()
        self._pending: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
        self._orphans: deque[Signature] = deque()
        self._surroundings: dict[Hashable, Surroundings] = {}
        self.tick: Callable[[], int] = itertools.count(1).__next__
        self.hits: dict[Hashable, Hit] = {}
        """By raw key of a call: the short cut of a hit, which marks the entry with ``tick()``."""
        self.traces = 0
        """How often the function was traced; evicted entries count."""

    def __len__(self) -> int:
        """Return the number of signatures."""
        self._drop_orphans()
        return len(self._entries)

    def signatures(self, most: int | None = None) -> list[Signature]:
        """Return the signatures, least recently used first; the ``most`` last used ones of them."""
        with self._lock:
            count = len(self._entries) if most is None else most
            last = heapq.nlargest(count, self._entries.values(), key=_used)
        return [entry.signature for entry in reversed(last)]

    def entries(self) -> list[Entry]:
        """Return the entries, least recently used first."""
        with self._lock:
            return sorted(self._entries.values(), key=_used)

    def all_plans(self) -> list[Plan]:
        """Return the compiled plans of all entries."""
        with self._lock:
            return [plan for entry in self._entries.values() for plan in entry.plans.values()]

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._entries.clear()
            self.hits.clear()
            self._inner.clear()
            self._surroundings.clear()

    def surroundings(self, statics: Hashable, look: Callable[[], Surroundings]) -> Surroundings:
        """Return what a function with these static arguments reads, looking again if need be."""
        known = self._surroundings.get(statics)
        if known is None or not known.current():
            known = look()
            with self._lock:
                self._surroundings.pop(statics, None)
                self._surroundings[statics] = known
                while len(self._surroundings) > _limit():
                    del self._surroundings[next(iter(self._surroundings))]
        return known

    def after_fork(self) -> None:
        """Make the cache usable in a forked child: who held its locks does not exist there."""
        self._lock = threading.RLock()
        self._pending = weakref.WeakValueDictionary()

    def program(
        self,
        signature: Signature,
        trace: Callable[[], Program],
        still_true: Callable[[], bool] = lambda: True,
    ) -> Entry:
        """Return the entry of ``signature``, tracing it if it is new.

        It is new as well when an array that it captured has been resized. A trace that raises
        leaves nothing, nor does one after which the signature is not ``still_true``: what the
        function reads was changed meanwhile.
        """
        self._drop_orphans()
        with self._once(signature):
            with self._lock:
                entry = self._entries.get(signature)
                if entry is not None and entry.captured.unchanged():
                    entry.used = self.tick()
                    return entry
            program = trace()
            entry = Entry(signature, program, Captured.of(program.jaxpr), used=self.tick())
            with self._lock:
                self.traces += 1
                self._drop(signature)
                if not still_true():
                    return entry
                self._entries[signature] = entry
                while len(self._entries) > _limit():
                    self._evict()
            return entry

    def plan(self, entry: Entry, layout: Hashable, build: Callable[[], Plan]) -> Plan:
        """Return the plan of ``entry`` for ``layout``, compiling it if it is new.

        A compile that fails takes back the entry, if it has no other plan.
        """
        with self._once((entry.signature, layout)):
            plan = entry.plans.get(layout)
            if plan is None:
                try:
                    plan = build()
                except BaseException:
                    with self._lock:
                        if not entry.plans and self._holds(entry):
                            del self._entries[entry.signature]
                    raise
                with self._lock:
                    entry.plans[layout] = plan
                    entry.nbytes += plan.nbytes
                    while len(entry.plans) > _limit():
                        self._drop_plan(entry, next(iter(entry.plans)))
                    # The plan at hand stays, however large it is.
                    while len(self._entries) > 1 and self._nbytes(entry) > config.cache_bytes:
                        self._evict()
            return plan

    def remember(
        self,
        entry: Entry,
        layout: Hashable,
        raw_key: Hashable,
        run: Callable[[Sequence[Any]], Any],
        guard: Guard | None = None,
    ) -> None:
        """Let calls with ``raw_key`` go straight to ``run``, as long as the plan is kept."""
        with self._lock:
            if self._holds(entry) and layout in entry.plans:
                if raw_key in self.hits:  # of what the function read before
                    self._forget(self.hits[raw_key][-1], raw_key)
                entry.layouts[raw_key] = layout
                self.hits[raw_key] = (guard, run, entry)
                while len(entry.layouts) > _limit():
                    self._forget(entry, next(iter(entry.layouts)))

    def inner(self, signature: Signature) -> Inner | None:
        """Return the program of a call inside another traced function, if one is kept."""
        with self._lock:
            found, captured = self._inner.pop(signature, (None, None))
            if found is None or captured is None or not captured.unchanged():
                return None
            self._inner[signature] = (found, captured)  # the last one now
            return found

    def keep_inner(self, signature: Signature, inner: Inner) -> None:
        """Keep the program of such a call for the next one."""
        traced, _ = inner
        captured = Captured(
            traced.captures, (var.aval for var in traced.jaxpr.invars[: len(traced.captures)])
        )
        with self._lock:
            self._inner[signature] = (inner, captured)
            while len(self._inner) > _limit():
                del self._inner[next(iter(self._inner))]

    def drop_with(self, owner: object, signature: Signature) -> None:
        """Drop what is kept for ``signature`` some time after ``owner`` has died."""
        # Not then and there: it may die while this cache is being changed.
        weakref.finalize(owner, self._orphans.append, signature).atexit = False

    def _drop_orphans(self) -> None:
        while self._orphans:
            signature = self._orphans.popleft()
            with self._lock:
                self._drop(signature)
                self._inner.pop(signature, None)

    def hit_count(self) -> int:
        """Return how many calls found a program, of the entries that are still here."""
        with self._lock:
            return sum(entry.hits for entry in self._entries.values())

    def _nbytes(self, newest: Entry) -> int:
        """What would be free without the cache: arrays that the newest entry has are the user's."""
        arrays: dict[int, int] = {}
        for entry in self._entries.values():
            arrays |= entry.arrays
        held = sum(size for known, size in arrays.items() if known not in newest.arrays)
        return held + sum(entry.nbytes for entry in self._entries.values())

    def _evict(self) -> None:
        """Drop the least recently used entry to make room."""
        signature = min(self._entries.values(), key=_used).signature
        self.history.evicted(signature)
        self._drop(signature)

    def _holds(self, entry: Entry) -> bool:
        return self._entries.get(entry.signature) is entry

    def _drop(self, signature: Signature) -> None:
        entry = self._entries.pop(signature, None)
        if entry is not None:
            for raw_key in entry.layouts:
                self.hits.pop(raw_key, None)

    def _drop_plan(self, entry: Entry, layout: Hashable) -> None:
        entry.nbytes -= entry.plans.pop(layout).nbytes
        for raw_key in [key for key, plan in entry.layouts.items() if plan == layout]:
            self._forget(entry, raw_key)

    def _forget(self, entry: Entry, raw_key: Hashable) -> None:
        entry.layouts.pop(raw_key, None)
        self.hits.pop(raw_key, None)

    def _once(self, key: Hashable) -> Any:
        """Return a lock that only threads wanting the same ``key`` share."""
        with self._lock:
            return self._pending.setdefault(key, threading.RLock())


_used = attrgetter("used")


def _limit() -> int:
    entries: int = config.cache_entries
    return max(1, entries)

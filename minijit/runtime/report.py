"""What users ask a jitted function about its cache: counts, entries, and why it compiled."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator

from minijit.runtime.explain import Miss
from minijit.runtime.memory_cache import Entry, FunctionCache
from minijit.runtime.tables import html_list, html_table, text_table
from minijit.runtime.words import arguments_text

__all__ = ["CacheEntries", "CacheEntry", "Explanation", "Recurring", "Stats"]

_COUNTED = ("kernels", "eager_steps", "host_loops", "host_branches")
"""What steps of a plan there are; each kind says which it is."""
_DONE = ("host_steps", "host_reads", "graph_launches")
"""What the host does for loops and branches that it drives."""


class Stats(dict[str, int]):
    """Counts by name."""

    @classmethod
    def of(cls, cache: FunctionCache) -> Stats:
        """Count what is in ``cache`` and what happened to it."""
        plans = cache.all_plans()
        steps = [step for plan in plans for step in plan.every_step]
        kinds = Counter(step.counted for step in steps)
        done = sum((step.work.so_far() for step in steps if step.work is not None), Counter[str]())
        return cls(
            signatures=len(cache),
            traces=cache.traces,
            hits=cache.hit_count(),
            compiles=cache.history.compiles,
            evictions=cache.history.evictions,
            plans=len(plans),
            **{name: kinds[name] for name in _COUNTED},
            bytes=sum(plan.nbytes for plan in plans),
            **{name: done[name] for name in _DONE},
            copies=sum(plan.copies for plan in plans),
        )

    def __str__(self) -> str:
        """Return a line for each count."""
        return text_table(("", "count"), list(self.items()))

    def _repr_html_(self) -> str:
        return html_table("", ("", "count"), list(self.items()))


@dataclasses.dataclass(frozen=True, slots=True)
class CacheEntry:
    """One signature in the cache.

    Attributes:
        signature: Its arguments in words.
        device: Where it runs.
        hits: How many calls found it compiled.
        compile_seconds: What its compiles took, tracing not counted.
        plans: Its compiled programs, one for each memory layout.
        kernels: Kernels of all of them.
        bytes: Their machine code, and an estimate of what else they hold.
    """

    signature: str
    device: str
    hits: int
    compile_seconds: float
    plans: int
    kernels: int
    bytes: int

    @classmethod
    def of(cls, entry: Entry) -> CacheEntry:
        """Describe one entry."""
        plans = tuple(entry.plans.values())
        signature = entry.signature
        return cls(
            arguments_text(entry.program.names, signature.avals, signature.statics),
            signature.device,
            entry.hits,
            entry.compile_seconds,
            len(plans),
            sum(len(plan.kernels) for plan in plans),
            sum(plan.nbytes for plan in plans),
        )


class CacheEntries(tuple[CacheEntry, ...]):
    """The signatures in a cache, the least recently used first."""

    __slots__ = ()

    @classmethod
    def of(cls, cache: FunctionCache) -> CacheEntries:
        """Describe what is in ``cache``."""
        return cls(map(CacheEntry.of, cache.entries()))

    def __str__(self) -> str:
        """Return a line for each."""
        return text_table(_HEADER, list(map(_row, self)))

    def _repr_html_(self) -> str:
        return html_table("", _HEADER, list(map(_row, self)))


_HEADER = tuple(field.name.replace("_", " ") for field in dataclasses.fields(CacheEntry))


def _row(entry: CacheEntry) -> tuple[object, ...]:
    return tuple(getattr(entry, field.name) for field in dataclasses.fields(entry))


@dataclasses.dataclass(frozen=True, slots=True)
class Recurring:
    """A kind of change, how often it made a function compile, and what to do about it."""

    cause: str
    what: str
    times: int
    advice: str

    def __str__(self) -> str:
        """Return a sentence."""
        how_often = "once" if self.times == 1 else f"{self.times} times"
        return f"{self.what} ({self.cause}, {how_often}): {self.advice}"


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """Why a function was compiled.

    Attributes:
        function: Its name.
        compiles: How many programs were compiled.
        misses: The last calls that found none, the oldest first.
        recurring: What changed, the most frequent first.
    """

    function: str
    compiles: int
    misses: tuple[Miss, ...]
    recurring: tuple[Recurring, ...]

    @classmethod
    def of(cls, function: str, cache: FunctionCache) -> Explanation:
        """Explain what happened to ``cache``."""
        history = cache.history
        recurring = tuple(
            Recurring(cause, what, times, advice)
            for (cause, what, advice), times in history.counts.most_common()
        )
        return cls(function, history.compiles, tuple(history.misses), recurring)

    def __str__(self) -> str:
        """Return a line for each miss, and what to do."""
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        title, *_ = self._lines()
        rows = self._rows()
        return html_table(title, ("", "why"), rows) + html_list(list(map(str, self.recurring)))

    def _rows(self) -> list[tuple[str, str]]:
        """Return the misses, numbered; what is only a note has no number."""
        numbers = itertools.count(1)
        return [("" if miss.note else str(next(numbers)), str(miss)) for miss in self.misses]

    def _lines(self) -> Iterator[str]:
        times = "once" if self.compiles == 1 else f"{self.compiles} times"
        yield (
            f"{self.function} was compiled {times}"
            if self.compiles
            else (f"{self.function} was not compiled yet")
        )
        for number, miss in self._rows():
            yield f"{number:>4}  {miss}"
        if self.recurring:
            yield "what changed, and what to do"
            yield from (f"      {each}" for each in self.recurring)

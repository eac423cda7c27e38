"""Telling the user what was compiled, and why a call was not in the cache."""

from __future__ import annotations

import dataclasses
import time
import warnings
import weakref
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import CodeType

from minijit.graph.config import config
from minijit.graph.errors import RecompileLimitError, RecompileWarning
from minijit.graph.events import emit
from minijit.graph.source_info import user_line
from minijit.runtime.changes import Cause, Change, differences, distance, layout_changes
from minijit.runtime.signature import Signature
from minijit.runtime.words import arguments_text

__all__ = ["History", "Miss", "report_environment"]

_KEPT = 64
"""How many misses a function remembers; all are counted."""
_EVICTED_KEPT = 1024
_GROWTH = 8
"""A function that goes on compiling is warned of at each multiple by this."""
_noted: ContextVar[list[Change] | None] = ContextVar("minijit_noted", default=None)


@dataclasses.dataclass(slots=True)
class _Family:
    """Function objects of one code: those of a loop come and go, those of a factory stay.

    Attributes:
        made: How many were compiled.
        gone: How many of them do not exist any more.
        warned: Of how many that are gone the user was warned.
    """

    made: int = 0
    gone: int = 0
    warned: int = 0

    def lose(self) -> None:
        self.gone += 1


_families: weakref.WeakKeyDictionary[CodeType, _Family] = weakref.WeakKeyDictionary()


@dataclasses.dataclass(frozen=True, slots=True)
class Miss:
    """A call for which something had to be compiled.

    Attributes:
        signature: Its arguments, in words.
        changes: What was new against the nearest signature in the cache; none at the first call.
        traced: Whether it was traced; else the program was compiled for another memory layout.
        note: Whether it says of the miss before it that the disk has the same of other versions.
    """

    signature: str
    changes: tuple[Change, ...]
    traced: bool
    note: bool = False

    def __str__(self) -> str:
        """Return the changes, or the signature of a first call."""
        if self.changes:
            return "; ".join(map(str, self.changes))
        return f"the first call: {self.signature}"


class History:
    """The misses of one function.

    Attributes:
        misses: The last ones, the oldest first.
        counts: How often each kind of change happened, and to what.
        compiles: How many programs were compiled.
        evictions: How many signatures were dropped to make room.
    """

    def __init__(self, code: CodeType | None = None) -> None:
        """Start empty; ``code`` is the function's, if it is a Python function."""
        self.misses: deque[Miss] = deque(maxlen=_KEPT)
        self.counts: Counter[tuple[Cause, str, str]] = Counter()
        self.compiles = 0
        self.evictions = 0
        self._code = code
        self._evicted: dict[int, None] = {}
        self._called = 0

    def evicted(self, signature: Signature) -> None:
        """Remember that ``signature`` was dropped to make room."""
        self.evictions += 1
        self._evicted[hash(signature)] = None
        if len(self._evicted) > _EVICTED_KEPT:
            del self._evicted[next(iter(self._evicted))]

    def miss(
        self, function: str, signature: Signature, known: Sequence[Signature], names: Sequence[str]
    ) -> None:
        """Announce a signature that must be traced, compared with the nearest of ``known``.

        Args:
            function: The function's name.
            signature: The new one.
            known: Those in the cache, the last used one last.
            names: What the user calls the leaves.
        """
        if self._evicted.pop(hash(signature), self) is None:
            changes = [Change.of("evicted", "it was dropped to make room for other signatures")]
        elif known:
            nearest = min(reversed(known), key=lambda old: distance(signature, old))
            changes = differences(signature, nearest, names)
            if not changes:
                # Only what has no part in the signature makes an equal one miss.
                changes = [
                    Change.of("resized", "a captured array was resized or reshaped in place")
                ]
        else:
            changes = self._first()
        text = arguments_text(names, signature.avals, signature.statics)
        self._add(function, Miss(text, tuple(changes), traced=True))

    def other_layout(
        self,
        function: str,
        signature: Signature,
        names: Sequence[str],
        new: Sequence[object],
        old: Sequence[object],
    ) -> None:
        """Announce that a traced program is compiled for another memory layout."""
        text = arguments_text(names, signature.avals, signature.statics)
        self._add(function, Miss(text, tuple(layout_changes(names, new, old)), traced=False))

    def refuse_beyond_limit(self, function: str) -> None:
        """Raise ``RecompileLimitError`` when ``config.max_compiles`` programs were compiled."""
        most = config.max_compiles
        if 0 < most <= self.compiles:
            raise RecompileLimitError(
                f"{function} was compiled {self.compiles} times, and config.max_compiles allows no "
                f"more. {self.advice()}"
            )

    def called(self, function: str) -> None:
        """Count a compile that a call had to wait for, and warn of the 8th, the 64th ..."""
        self._called += 1
        again = self._remade() if self._called == 1 else 0
        if _milestone(self._called) == self._called:
            text = f"{function} was compiled {self._called} times. {self.advice()}"
        elif again:
            text = f"{function} was jitted {again} times and compiled each time. {self.advice()}"
        else:
            return
        line = user_line()
        warnings.warn_explicit(text, RecompileWarning, line.file, line.line)

    def advice(self) -> str:
        """Return what changed most, and what to do about it, as a sentence."""
        if not self.counts:
            return f"The last misses: {'; '.join(map(str, self.misses))}"
        # Of equally frequent ones the newest.
        counts = reversed(tuple(self.counts.items()))
        (cause, what, advice), times = max(counts, key=lambda item: item[1])
        how_often = "Once" if times == 1 else f"{times} times"
        examples = (
            str(change)
            for miss in reversed(self.misses)
            for change in miss.changes
            if (change.cause, change.what) == (cause, what)
        )
        example = next(examples, what)
        return f"{how_often} for a new {cause} ({example}). To avoid it: {advice}."

    def _first(self) -> list[Change]:
        family = None if self._code is None else _families.get(self._code)
        if family is None or self.misses:
            return []
        before = family.made
        times = "once" if before == 1 else f"{before} times"
        return [Change.of("function", f"a new function, whose code was jitted {times} before")]

    def _remade(self) -> int:
        """Count a new function; return how many like it came and went, if that is to be said."""
        if self._code is None:
            return 0
        family = _families.setdefault(self._code, _Family())
        family.made += 1
        weakref.finalize(self, family.lose).atexit = False
        mark = _milestone(family.gone + 1)
        if mark <= family.warned:
            return 0
        family.warned = mark
        return family.gone + 1

    def _add(self, function: str, miss: Miss) -> None:
        self.misses.append(miss)
        for change in miss.changes:
            self.counts[change.cause, change.what, change.advice] += 1
        changes = list(map(str, miss.changes)) or ["the first call"]
        emit("miss", function=function, changes=changes)
        if config.explain_cache_misses:
            how = "traced anew" if miss.traced else "compiled for another memory layout"
            how = "on the disk for others" if miss.note else how
            _log("%s is %s: %s", function, how, "; ".join(changes))

    @contextmanager
    def compiling(self, function: str, signature: Signature) -> Iterator[None]:
        """Announce a compile; with ``config.log_compiles`` log it with its types and seconds."""
        noted: list[Change] = []
        token = _noted.set(noted)
        started = time.perf_counter()
        try:
            yield
        finally:
            _noted.reset(token)
        seconds = time.perf_counter() - started
        self.compiles += 1
        if noted:
            self._add(function, Miss("", tuple(noted), traced=False, note=True))
        emit("program", function=function, seconds=seconds)
        if config.log_compiles:
            types = ", ".join(map(str, signature.avals))
            _log("compiled %s(%s) for %s in %.3f s", function, types, signature.device, seconds)


def report_environment(differing: Mapping[str, tuple[object, object]]) -> None:
    """Note that what is compiled now is on disk for other versions or another machine.

    Args:
        differing: What differs, each with the value on disk and the one of this process.
    """
    noted = _noted.get()
    if noted is not None:
        known = {change.what for change in noted}
        noted += [
            Change.of("version", what, str(before), str(after))
            for what, (before, after) in differing.items()
            if what not in known
        ]


def _log(text: str, *values: object) -> None:
    import logging  # where it is asked for: every warm start would pay for it

    logging.getLogger("minijit").warning(text, *values)


def _milestone(count: int) -> int:
    """Return the last number up to ``count`` at which to warn, 0 before the first."""
    mark: int = config.recompile_warning
    while 0 < mark * _GROWTH <= count:
        mark *= _GROWTH
    return mark if mark <= count else 0

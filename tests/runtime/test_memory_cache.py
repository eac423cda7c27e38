"""The cache of one function, by itself."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.graph.config import config
from minijit.graph.tree import flatten
from minijit.runtime.memory_cache import Entry, FunctionCache, Program
from minijit.runtime.signature import Signature

JAXPR = minijit.make_jaxpr(lambda x: x)(np.ones(2))
PROGRAM = Program(JAXPR, flatten(0)[1], ("x",))
_TREE = flatten((0,))[1]


def signature(number: int) -> Signature:
    return Signature(("x",), _TREE, JAXPR.in_avals, (("n", number),), (), "cpu")


@dataclasses.dataclass
class FakePlan:
    name: str


class Failed(Exception):
    pass


def fail() -> Any:
    raise Failed


def test_a_program_is_traced_once() -> None:
    cache, traced = FunctionCache(), []
    for _ in range(3):
        entry = cache.program(signature(1), lambda: traced.append(1) or PROGRAM)
        assert entry.program is PROGRAM
    assert (len(traced), len(cache), cache.traces) == (1, 1, 1)


def test_a_failed_trace_leaves_nothing() -> None:
    cache = FunctionCache()
    with pytest.raises(Failed):
        cache.program(signature(1), fail)
    assert len(cache) == 0
    cache.program(signature(1), lambda: PROGRAM)
    assert len(cache) == 1


def test_plans_by_layout_and_failed_compiles() -> None:
    cache = FunctionCache()
    entry = cache.program(signature(1), lambda: PROGRAM)
    with pytest.raises(Failed):
        cache.plan(signature(1), entry, "rows", fail)
    assert len(cache) == 0  # an entry without a plan is no use
    entry = cache.program(signature(1), lambda: PROGRAM)
    plan: Any = cache.plan(signature(1), entry, "rows", lambda: FakePlan("rows"))
    assert cache.plan(signature(1), entry, "rows", fail) is plan
    with pytest.raises(Failed):
        cache.plan(signature(1), entry, "columns", fail)
    assert len(cache) == 1  # the other plan is still good
    assert cache.all_plans() == [plan]


def test_eviction_takes_the_short_cuts_along() -> None:
    cache = FunctionCache()

    def run(args: Any) -> Any:
        return args

    def enter(number: int) -> Entry:
        entry = cache.program(signature(number), lambda: PROGRAM)
        cache.remember(entry, ("key", number), run)
        return entry

    with config.override(cache_entries=2):
        first = enter(1)
        enter(2)
        first.used = cache.tick()  # as a hit does
        enter(3)
    assert [dict(s.statics)["n"] for s in cache.signatures()] == [1, 3]
    assert set(cache.hits) == {("key", 1), ("key", 3)}
    enter(2)
    assert len(cache) == 3
    cache.clear()
    assert (len(cache), cache.hits, cache.inner) == (0, {}, {})
    cache.remember(first, "late", run)  # its entry is gone: a hit would never be evicted
    assert not cache.hits


def test_one_thread_traces_while_the_others_wait() -> None:
    cache, traced = FunctionCache(), []
    tracing, finish = threading.Event(), threading.Event()

    def trace() -> Program:
        tracing.set()
        assert finish.wait(20)
        traced.append(1)
        return PROGRAM

    entries: list[Entry] = []
    threads = [
        threading.Thread(target=lambda: entries.append(cache.program(signature(1), trace)))
        for _ in range(4)
    ]
    threads[0].start()
    assert tracing.wait(20)
    for thread in threads[1:]:
        thread.start()
    cache.program(signature(2), lambda: PROGRAM)  # another signature need not wait
    finish.set()
    for thread in threads:
        thread.join(20)
    assert len(traced) == 1
    assert len({id(entry) for entry in entries}) == 1

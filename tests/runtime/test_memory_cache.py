"""The cache of one function, by itself."""

from __future__ import annotations

import dataclasses
import gc
import threading
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.backends.registry import get_backend
from minijit.graph.config import config
from minijit.graph.trace import Traced
from minijit.graph.tree import flatten
from minijit.runtime.memory_cache import Entry, FunctionCache, Program
from minijit.runtime.signature import Signature

JAXPR = minijit.make_jaxpr(lambda x: x)(np.ones(2))
PROGRAM = Program(JAXPR, flatten(0)[1], ("x",))
_TREE = flatten((0,))[1]


def signature(number: int) -> Signature:
    return Signature(("x",), _TREE, JAXPR.in_avals, (("n", number),), (), get_backend("cpu"))


@dataclasses.dataclass
class FakePlan:
    name: str
    nbytes: int = 1


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
        cache.plan(entry, "rows", fail)
    assert len(cache) == 0  # an entry without a plan is no use
    entry = cache.program(signature(1), lambda: PROGRAM)
    plan: Any = cache.plan(entry, "rows", lambda: FakePlan("rows"))
    assert cache.plan(entry, "rows", fail) is plan
    with pytest.raises(Failed):
        cache.plan(entry, "columns", fail)
    assert len(cache) == 1  # the other plan is still good
    assert cache.all_plans() == [plan]


def test_the_last_used_signatures_are_told() -> None:
    cache = FunctionCache()
    for number in (1, 2, 3, 1):
        cache.program(signature(number), lambda: PROGRAM)
    assert cache.signatures() == [signature(2), signature(3), signature(1)]
    assert cache.signatures(most=2) == [signature(3), signature(1)]


def test_eviction_takes_the_short_cuts_along() -> None:
    cache = FunctionCache()

    def run(args: Any) -> Any:
        return args

    def enter(number: int) -> Entry:
        entry = cache.program(signature(number), lambda: PROGRAM)
        cache.plan(entry, "rows", lambda: FakePlan("rows"))
        cache.remember(entry, "rows", ("key", number), run)
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
    assert (len(cache), cache.hits) == (0, {})
    cache.remember(first, "rows", "late", run)  # its entry is gone: a hit would never be evicted
    assert not cache.hits


def test_plans_and_short_cuts_of_one_entry_are_bounded() -> None:
    cache = FunctionCache()
    entry = cache.program(signature(1), lambda: PROGRAM)
    with config.override(cache_entries=3):
        for number in range(5):
            plan: Any = FakePlan(f"plan {number}")
            cache.plan(entry, number, lambda plan=plan: plan)
            cache.remember(entry, number, ("key", number), str)
        assert [plan.name for plan in cache.all_plans()] == ["plan 2", "plan 3", "plan 4"]
        assert set(cache.hits) == {("key", 2), ("key", 3), ("key", 4)}
        for number in range(5):
            cache.remember(entry, 4, ("other", number), str)
        assert set(cache.hits) == {("other", 2), ("other", 3), ("other", 4)}
        cache.remember(entry, 0, "late", str)  # its plan is gone
        assert "late" not in cache.hits


def test_inner_programs_are_bounded_and_the_last_used_stay() -> None:
    cache = FunctionCache()
    inner: Any = (Traced(JAXPR, ()), flatten(0)[1])
    with config.override(cache_entries=2):
        for number in (1, 2):
            cache.keep_inner(signature(number), inner)
        assert cache.inner(signature(1)) is inner
        cache.keep_inner(signature(3), inner)
    kept = [number for number in (1, 2, 3) if cache.inner(signature(number))]
    assert kept == [1, 3]
    cache.clear()
    assert cache.inner(signature(1)) is None


def test_what_belongs_to_an_object_goes_after_it() -> None:
    class Owner:
        pass

    cache, owner = FunctionCache(), Owner()
    for number in (1, 2):
        cache.program(signature(number), lambda: PROGRAM)
    cache.drop_with(owner, signature(1))
    assert len(cache) == 2
    del owner
    gc.collect()
    assert len(cache) == 1
    assert cache.signatures() == [signature(2)]


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

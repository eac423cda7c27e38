"""A run keeps to its seconds, leaves dear compilers out, ends hangs, and outlives what fails."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest

from minijit.tools import budget as module
from minijit.tools.budget import Budget
from minijit.tools.comparison import measure, small_call
from minijit.tools.system import System
from minijit.tools.systems import systems
from minijit.tools.workloads import find


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def raising(name: str, after: int) -> System:
    """A system that works `after` times."""
    calls = iter(range(after))

    def prepare(function: Any) -> Any:
        def call(*inputs: Any) -> Any:
            if next(calls, None) is None:
                raise RuntimeError("out of memory\nand more")
            return function(np, *inputs)

        return call

    return System(name, "1", prepare, np.asarray, lambda result: result, np.asarray)


def test_time_is_shared_by_the_workloads_that_are_left() -> None:
    clock = Clock()
    budget = Budget(100.0, 4, most=9.0, clock=clock)
    assert budget.start()
    assert budget.for_timing(5) == pytest.approx(5.0)
    assert budget.for_timing(1) == 9.0
    clock.now = 40.0  # longer than its share: the others get less
    assert budget.for_timing(5) == 0.0
    assert budget.start()
    assert budget.for_timing(10) == pytest.approx(2.0)
    clock.now = 100.0
    assert not budget.start()


def test_without_a_limit_everything_runs() -> None:
    budget = Budget(math.inf, 1, most=0.5)
    assert budget.start()
    assert budget.for_timing(3) == 0.5
    assert budget.refusal("torch") == ""


def test_a_dear_compiler_is_left_out_of_the_rest() -> None:
    clock = Clock()
    budget = Budget(100.0, 4, most=1.0, clock=clock)
    for seconds in (20.0, 6.0):
        assert budget.refusal("torch") == ""
        with budget.first_call("torch"):
            clock.now += seconds
    assert budget.refusal("torch") == "its first calls took 26 s of the 100 s for everything"
    assert budget.refusal("jax") == ""


def test_a_call_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_FIRST_CALL", 0.05)
    budget = Budget(1.0, 1, most=1.0)
    with pytest.raises(TimeoutError, match="not done"), budget.first_call("torch"):
        time.sleep(60)
    time.sleep(0.1)  # no alarm is left that could end what follows


def test_systems_that_fail_cost_the_others_nothing() -> None:
    workload = find("softmax 4x8")
    numpy = systems("cpu").systems[0]
    compared = (numpy, raising("at once", 0), raising("later", 3))
    budget = Budget(math.inf, 1, most=0.0)
    budget.start()
    row = measure(workload, compared, budget)
    assert dict(row.failed) == dict.fromkeys(("at once", "later"), "RuntimeError: out of memory")
    assert set(row.milliseconds) == {"numpy"}
    assert set(small_call((numpy, raising("at once", 0), raising("later", 3)), 0.0)) == {"numpy"}


def test_a_refused_system_is_listed_and_minijit_never_is() -> None:
    clock = Clock()
    budget = Budget(10.0, 1, most=0.0, clock=clock)
    for name in ("numpy", "minijit"):
        with budget.first_call(name):
            clock.now += 4.0
    budget.start()
    compared = systems("cpu").systems
    row = measure(find("scale and shift 8"), (compared[0], compared[-1]), budget)
    assert set(row.skipped) == {"numpy"}
    assert set(row.milliseconds) == {"minijit"}

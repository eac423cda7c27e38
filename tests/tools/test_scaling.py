"""A call is timed on one thread and on all, and all work again afterwards."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from minijit.tools import scaling
from minijit.tools.budget import Budget
from minijit.tools.comparison import Row, measure
from minijit.tools.results import Results, as_markdown
from minijit.tools.scaling import thread_scaling
from minijit.tools.system import System
from minijit.tools.systems import systems
from minijit.tools.workloads import Workload, find


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of threads that were set, of four."""
    counts = [4]
    monkeypatch.setattr(scaling, "available_threads", lambda: 4)
    monkeypatch.setattr(scaling, "set_threads", counts.append)
    return counts


def test_calls_take_turns_on_one_thread_and_on_all(
    threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = {1: 3e-3, 4: 1e-3}
    called: list[int] = []

    def call(times: int) -> float:
        called.append(threads[-1])
        return times * seconds[threads[-1]]

    monkeypatch.setattr(scaling, "host_clock", lambda call: call())
    assert thread_scaling(call, 0.0) == pytest.approx(3.0)
    assert called[-4:] == [1, 4, 1, 4]
    assert threads[-1] == 4


def test_all_threads_work_again_after_a_call_that_raises(threads: list[int]) -> None:
    def call(times: int) -> None:
        if threads[-1] == 1:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        thread_scaling(call, 0.0)
    assert threads == [4, 1, 4]


def test_one_thread_has_nothing_to_be_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "available_threads", lambda: 1)
    assert thread_scaling(lambda times: pytest.fail("called"), 0.0) is None


def measured(workload: Workload, *compared: System, scaled: bool = True) -> Row:
    budget = Budget(math.inf, 1, most=0.0)
    budget.start()
    return measure(workload, compared, budget, scaling=scaled)


def test_workloads_are_scaled_where_that_is_asked_for_and_small_ones_never(
    threads: list[int],
) -> None:
    numpy, *_, ours = systems("cpu").systems
    large = find("softmax 4x8")
    assert measured(large, numpy, ours).scaling is None
    workload = Workload("softmax", "row", large.function, large.inputs)
    assert measured(workload, numpy, ours, scaled=False).scaling is None
    assert measured(workload, numpy).scaling is None
    assert threads == [4]
    row = measured(workload, numpy, ours)
    assert row.scaling is not None
    results = Results({}, "cpu", "4 CPU threads", "", None, {}, {}, (row,), {}, ())
    assert f"| softmax | {row.scaling:.2f} |" in as_markdown(results, ["numpy", "minijit"])


def multiplied(xp: Any, x: Any) -> Any:
    return xp.tanh(x @ x)


def test_what_the_array_library_runs_is_not_scaled(threads: list[int]) -> None:
    numpy, *_, ours = systems("cpu").systems
    workload = Workload("product", "row", multiplied, lambda _: (np.eye(40, dtype=np.float32),))
    assert measured(workload, numpy, ours).scaling is None
    assert threads == [4]


def test_bytes_are_those_of_what_the_eager_function_returns() -> None:
    numpy, *_, ours = systems("cpu").systems
    wide = System(
        "wide",
        "1",
        lambda function: lambda x: function(np, x.astype(np.float64)),
        *(np.asarray, lambda result: result, np.asarray),
    )
    row = measured(find("softmax 4x8"), numpy, ours, wide)
    assert row.failed == {}
    assert row.bytes == 2 * 4 * 8 * 4

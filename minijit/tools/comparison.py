"""Compares systems on one workload: checked against float64 NumPy first, then timed in turn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minijit.api.jit import Jitted
from minijit.tools.budget import Budget
from minijit.tools.scaling import thread_scaling
from minijit.tools.system import System
from minijit.tools.systems import in_a_line
from minijit.tools.timing import Clock, copies_beyond, first_call, interleaved_medians, repeated
from minijit.tools.workloads import Workload, as_tuple, largest_error


@dataclass(frozen=True, slots=True)
class Row:
    """What one workload showed on every system.

    Attributes:
        name: The workload.
        kind: Its kind.
        bytes: Inputs read once and outputs written once: what no program can avoid.
        milliseconds: Median of one call, by system.
        first_milliseconds: The first call, with tracing and compiling, by system.
        error: Largest difference from float64 NumPy relative to its largest value, by system.
        failed: What a system raised, or by how much it was wrong; such a system is not timed.
        skipped: Why a system was not tried.
        scaling: How many times faster minijit is on all threads of the CPU than on one; None where
            that is not asked for, or the array library runs a step.
    """

    name: str
    kind: str
    bytes: int
    milliseconds: Mapping[str, float]
    first_milliseconds: Mapping[str, float]
    error: Mapping[str, float]
    failed: Mapping[str, str]
    skipped: Mapping[str, str]
    scaling: float | None = None

    def ratio(self, other: str) -> float | None:
        """How many times longer `other` takes than minijit; `None` when one was not timed."""
        if other not in self.milliseconds or "minijit" not in self.milliseconds:
            return None
        return self.milliseconds[other] / self.milliseconds["minijit"]

    def rate(self, name: str) -> float | None:
        """Bytes a second that a system reaches; `None` for calls that are small, or not timed."""
        if name not in self.milliseconds or self.kind == "small":
            return None
        return self.bytes / self.milliseconds[name] * 1e3


def measure(
    workload: Workload,
    compared: Sequence[System],
    budget: Budget,
    cache: int = 0,
    scaling: bool = False,
) -> Row:
    """Check every system against float64 NumPy, then time those that are right, in turn.

    Args:
        workload: What to run.
        compared: The systems.
        budget: Says how long each may take; it has been started for this workload.
        cache: Bytes of a cache that must not hold the inputs from one call to the next.
        scaling: Whether to compare one thread of the CPU with all, where kernels do all the work.
    """
    inputs = workload.make_inputs()
    copies = copies_beyond(cache, sum(x.nbytes for x in inputs))
    reference = workload.reference(inputs)
    calls: dict[str, Callable[..., Any]] = {}
    first: dict[str, float] = {}
    error: dict[str, float] = {}
    failed: dict[str, str] = {}
    skipped: dict[str, str] = {}
    written: int | None = None
    for system in compared:
        refusal = "" if system.name == "minijit" else budget.refusal(system.name)
        if refusal:
            skipped[system.name] = refusal
            continue
        try:
            sets = [[system.put(x) for x in inputs] for _ in range(copies)]
            function = system.prepare(workload.function)
            call = repeated(function, sets[0], system.wait, *sets[1:])
            with budget.first_call(system.name):
                result, taken = first_call(call)
            outputs = [system.get(output) for output in as_tuple(result)]
            error[system.name] = largest_error(outputs, reference)
        # One system that cannot run a workload must not cost the figures of the others.
        except Exception as raised:
            failed[system.name] = in_a_line(raised)
            continue
        if not error[system.name] <= workload.tolerance:
            failed[system.name] = f"wrong by {error[system.name]:.1e}"
            continue
        if written is None:
            # The first one is eager, and so defines what the function returns.
            written = sum(output.nbytes for output in outputs)
        first[system.name] = taken * 1e3
        calls[system.name] = call
        # The array library's steps have threads of their own, which do not follow ours.
        scaling &= not (isinstance(function, Jitted) and function.stats()["eager_steps"])
    raised_later: dict[str, Exception] = {}
    scaled = scaling and workload.kind != "small" and "minijit" in calls
    seconds = budget.for_timing(len(calls) + 2 * scaled)
    medians = interleaved_medians(calls, seconds, _clocks(compared), raised_later)
    failed |= {name: in_a_line(raised) for name, raised in raised_later.items()}
    return Row(
        workload.name,
        workload.kind,
        sum(x.nbytes for x in inputs) + (written or 0),
        {name: median * 1e3 for name, median in medians.items()},
        first,
        error,
        failed,
        skipped,
        thread_scaling(calls["minijit"], seconds) if scaled and "minijit" in medians else None,
    )


def small_call(compared: Sequence[System], seconds: float, each: bool = False) -> dict[str, float]:
    """Return the microseconds of one cached call on two arrays of eight numbers, by system.

    The host's clock times them all: on a GPU it is the launch that costs. A system that raises is
    left out.

    Args:
        compared: The systems.
        seconds: Time to spend on each.
        each: Whether every result is waited for before the next call.
    """
    calls: dict[str, Callable[..., Any]] = {}
    for system in compared:
        with contextlib.suppress(Exception):
            arguments = [system.put(np.arange(8, dtype=np.float32)) for _ in range(2)]
            call = repeated(system.prepare(_two_arrays), arguments, system.wait)
            call()
            calls[system.name] = _waiting(call) if each else call
    medians = interleaved_medians(calls, seconds, failed={})
    return {name: median * 1e6 for name, median in medians.items()}


def _waiting(call: Callable[[], Any]) -> Callable[[int], None]:
    def one_by_one(times: int) -> None:
        for _ in range(times):
            call()

    return one_by_one


def _clocks(compared: Sequence[System]) -> dict[str, Clock]:
    return {system.name: system.clock for system in compared}


def _two_arrays(xp: Any, a: Any, b: Any) -> Any:
    return xp.add(a * 2.0, b)

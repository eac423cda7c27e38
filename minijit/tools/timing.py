"""Measures calls side by side: interleaved repeats, medians, and what a bare copy can reach."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from minijit.tools.machine import available_threads

_SHORTEST_SAMPLE = 2e-3
_MOST_CALLS = 5000


def first_call(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return a call's result and how many seconds it took."""
    started = time.perf_counter()
    result = call()
    return result, time.perf_counter() - started


def repeated(
    function: Callable[..., Any], arguments: Sequence[Any], wait: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Return a function that makes the call n times (once unless told) and waits for the last.

    Launches may be asynchronous: waiting after each would time the waiting.
    """

    def call(times: int = 1) -> Any:
        for _ in range(times - 1):
            function(*arguments)
        return wait(function(*arguments))

    return call


def interleaved_medians(
    calls: Mapping[str, Callable[[int], Any]], seconds: float
) -> dict[str, float]:
    """Time several calls in turn, so that a slow moment of the machine meets all of them alike.

    Args:
        calls: For each name a function that makes the call n times and waits for the results.
        seconds: Time to spend on each; at least five samples are taken whatever that costs.

    Returns:
        For each name the median seconds of one call.
    """
    inner = {name: _calls_in_a_sample(call) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    spent = dict.fromkeys(calls, 0.0)
    pending = list(calls)
    while pending:
        for name in pending:
            started = time.perf_counter()
            calls[name](inner[name])
            taken = time.perf_counter() - started
            samples[name].append(taken / inner[name])
            spent[name] += taken
        pending = [name for name in pending if spent[name] < seconds or len(samples[name]) < 5]
    return {name: statistics.median(values) for name, values in samples.items()}


def _calls_in_a_sample(call: Callable[[int], Any]) -> int:
    """A clock read costs as much as a small call: a sample of those holds many."""
    _, once = first_call(lambda: call(1))
    return max(1, min(_MOST_CALLS, int(_SHORTEST_SAMPLE / max(once, 1e-7))))


def host_copy_bandwidth(megabytes: int = 64) -> float:
    """Return bytes read and written per second by NumPy's copy, on the best number of threads."""
    source = np.ones(megabytes << 18, dtype=np.float32)
    target = np.empty_like(source)
    best = float("inf")
    for threads in (1, available_threads()):
        parts = zip(np.array_split(target, threads), np.array_split(source, threads), strict=True)
        pairs = tuple(parts)
        with ThreadPoolExecutor(threads) as pool:
            for _ in range(9):
                started = time.perf_counter()
                list(pool.map(lambda pair: np.copyto(*pair), pairs))
                best = min(best, time.perf_counter() - started)
    return 2 * source.nbytes / best


def device_copy_bandwidth(megabytes: int = 1024) -> float:
    """Return bytes read and written per second by CuPy's device-to-device copy, timed by events."""
    cupy = importlib.import_module("cupy")
    source = cupy.ones(megabytes << 18, dtype=np.float32)
    target = cupy.empty_like(source)
    best = float("inf")
    for _ in range(9):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        cupy.copyto(target, source)
        end.record()
        end.synchronize()
        best = min(best, cupy.cuda.get_elapsed_time(start, end) * 1e-3)
    return float(2 * source.nbytes / best)

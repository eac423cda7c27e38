"""Measures calls side by side: interleaved repeats, medians, and what a bare copy can reach.

A clock runs a call and returns its seconds: the host's, or a GPU's by events on CuPy's stream.
"""

from __future__ import annotations

import collections
import importlib
import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from minijit.tools.machine import available_threads

Clock = Callable[[Callable[[], Any]], float]

_SHORTEST_SAMPLE = 2e-3
_MOST_CALLS = 5000
# Inputs that are read again this much later come from memory, and no longer from the cache.
_CACHES = 4
_MOST_COPIES = 64


def first_call(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return a call's result and how many seconds it took."""
    started = time.perf_counter()
    result = call()
    return result, time.perf_counter() - started


def host_clock(call: Callable[[], Any]) -> float:
    """Return the seconds a call took, by the host's clock."""
    return first_call(call)[1]


def device_clock(call: Callable[[], Any]) -> float:
    """Return the seconds between two events around a call, recorded on CuPy's current stream."""
    cupy = importlib.import_module("cupy")
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, end)) * 1e-3


def device_cache() -> int:
    """Return the bytes of the last cache of CuPy's current device."""
    device = importlib.import_module("cupy").cuda.Device()
    return int(device.attributes["L2CacheSize"])


def copies_beyond(cache: int, size: int) -> int:
    """Return how many copies of ``size`` bytes are several times as large as a cache."""
    return max(1, min(_MOST_COPIES, -(-_CACHES * cache // max(size, 1))))


def repeated(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    wait: Callable[[Any], Any],
    *more: Sequence[Any],
) -> Callable[..., Any]:
    """Return a function that makes the call n times (once unless told) and waits for the last.

    Launches may be asynchronous: waiting after each would time the waiting. With ``more`` sets of
    arguments the calls take turns through them, and as many results are kept, so that a cache holds
    neither what they read nor the memory that they write.
    """
    turns = itertools.cycle((arguments, *more))
    kept: collections.deque[Any] = collections.deque(maxlen=len(more))

    def call(times: int = 1) -> Any:
        for _ in range(times - 1):
            kept.append(function(*next(turns)))
        result = function(*next(turns))
        kept.append(result)
        return wait(result)

    return call


def interleaved_medians(
    calls: Mapping[str, Callable[[int], Any]],
    seconds: float,
    clocks: Mapping[str, Clock] | None = None,
    failed: dict[str, Exception] | None = None,
) -> dict[str, float]:
    """Time several calls in turn, so that a slow moment of the machine meets all of them alike.

    Args:
        calls: For each name a function that makes the call n times and waits for the results.
        seconds: Time to spend on each; at least five samples are taken whatever that costs.
        clocks: The clock of each name that does not go by the host's.
        failed: Where it is given, what a call raised is put into it, and the others go on.

    Returns:
        For each name that did not fail the median seconds of one call.
    """
    inner: dict[str, int] = {}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    spent = dict.fromkeys(calls, 0.0)
    pending = list(calls)
    while pending:
        for name in pending:
            clock = (clocks or {}).get(name, host_clock)
            try:
                if name not in inner:
                    inner[name] = _calls_in_a_sample(calls[name])
                taken = clock(partial(calls[name], inner[name]))
            except Exception as raised:
                if failed is None:
                    raise
                failed[name] = raised
                del samples[name]
                continue
            samples[name].append(taken / inner[name])
            spent[name] += taken
        pending = [
            name
            for name in pending
            if name in samples and (spent[name] < seconds or len(samples[name]) < 5)
        ]
    return {name: statistics.median(values) for name, values in samples.items()}


def _calls_in_a_sample(call: Callable[[int], Any]) -> int:
    """A clock read costs as much as a small call: a sample of those holds many."""
    once = host_clock(lambda: call(1))
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
    best = min(device_clock(lambda: cupy.copyto(target, source)) for _ in range(9))
    return float(2 * source.nbytes / best)

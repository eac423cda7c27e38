"""How much faster the CPU's threads are together than one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minijit.backends.cpu.pool import available_threads, set_threads
from minijit.tools.timing import Clock, host_clock, interleaved_medians

__all__ = ["thread_scaling"]


def thread_scaling(call: Callable[[int], Any], seconds: float) -> float | None:
    """Return how many times faster a call of minijit is on all threads than on one.

    Args:
        call: Makes the call n times.
        seconds: Time to spend on each of the two.

    Returns:
        None where there is but one thread.
    """
    threads = available_threads()
    if threads == 1:
        return None
    counts = {"one": 1, "all": threads}
    clocks = {name: _on_threads(count) for name, count in counts.items()}
    medians = interleaved_medians(dict.fromkeys(counts, call), seconds, clocks)
    return medians["one"] / medians["all"]


def _on_threads(count: int) -> Clock:
    def clock(call: Callable[[], Any]) -> float:
        # Not by the option: a change of options is looked into by the next call.
        set_threads(count)
        try:
            return host_clock(call)
        finally:
            set_threads(available_threads())

    return clock

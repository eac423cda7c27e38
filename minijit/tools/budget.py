"""How long a run of bench may take: its seconds spread over workloads and systems, and hangs ended.

Compiling is the dear part of some systems: each may spend a share of the whole on first calls.
"""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

_SHARE_OF_FIRST_CALLS = 0.25
_LONGEST_FIRST_CALL = 60.0


class Budget:
    """Seconds for a number of workloads, taken from now on.

    Attributes:
        seconds: Of the whole run; infinite when nothing is limited.
    """

    def __init__(
        self,
        seconds: float,
        workloads: int,
        most: float,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Start the clock.

        Args:
            seconds: For everything.
            workloads: How many `start` calls share them.
            most: Seconds to spend on the timing of one workload on one system at most.
            clock: Returns seconds.
        """
        self.seconds = seconds
        self._clock = clock
        self._most = most
        self._end = clock() + seconds
        self._left = workloads
        self._row_end = math.inf
        self._first_calls: dict[str, float] = {}

    def start(self) -> bool:
        """Begin the next workload; false when nothing is left for it."""
        left = self._end - self._clock()
        if left <= 0:
            return False
        self._row_end = self._clock() + left / max(self._left, 1)
        self._left -= 1
        return True

    def refusal(self, system: str) -> str:
        """Return why a system gets no more first calls; empty when it does."""
        spent = self._first_calls.get(system, 0.0)
        if spent <= _SHARE_OF_FIRST_CALLS * self.seconds:
            return ""
        return f"its first calls took {spent:.0f} s of the {self.seconds:.0f} s for everything"

    @contextlib.contextmanager
    def first_call(self, system: str) -> Iterator[None]:
        """Charge what is inside to a system.

        Raises:
            TimeoutError: it hung for a minute. Only Python code in the main thread can be ended.
        """
        started = self._clock()
        try:
            with _time_limit(_LONGEST_FIRST_CALL):
                yield
        finally:
            spent = self._first_calls.get(system, 0.0)
            self._first_calls[system] = spent + self._clock() - started

    def for_timing(self, systems: int) -> float:
        """Return the seconds that are left for timing each of so many systems."""
        left = self._row_end - self._clock()
        return max(0.0, min(self._most, left / max(systems, 1)))


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    if not hasattr(signal, "setitimer") or threading.current_thread() != threading.main_thread():
        yield
        return

    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"not done after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

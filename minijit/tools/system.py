"""What a system is that bench compares."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from minijit.tools.timing import Clock, host_clock

__all__ = ["Compared", "NotHereError", "System"]


@dataclasses.dataclass(frozen=True, slots=True)
class System:
    """One way to run a workload.

    Attributes:
        name: Heads its column.
        version: Printed with the results.
        prepare: Makes of `function(xp, *inputs)` a function of the inputs alone.
        put: Moves a NumPy array to where the system computes.
        wait: Returns when a result is complete.
        get: Brings one output back as a NumPy array.
        clock: Times it; events of CuPy's stream see only what is launched on that stream.
    """

    name: str
    version: str
    prepare: Callable[[Callable[..., Any]], Any]
    put: Callable[[Any], Any]
    wait: Callable[[Any], Any]
    get: Callable[[Any], Any]
    clock: Clock = host_clock


class NotHereError(Exception):
    """A system cannot run here, or not this workload; the message says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Compared:
    """The systems of a run.

    Attributes:
        systems: The eager one first, minijit last.
        absent: Those that cannot run here, each with the reason.
    """

    systems: tuple[System, ...]
    absent: dict[str, str]

"""How the host drives a loop: a known number of steps, or for as long as a condition holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from minijit.graph.events import emit, subscribers
from minijit.runtime.repeat import Repeated

if TYPE_CHECKING:
    from minijit.backends.base import Backend

__all__ = ["Driven", "drive_counted", "drive_while"]

MakeTurn = Callable[[int], Repeated]
"""Prepares a program on the set of buffers of that number; called once for each, in order."""


@dataclasses.dataclass(frozen=True, slots=True)
class Driven:
    """What a loop took.

    Attributes:
        steps: How many there were; the last carries lie in the set of buffers of that number.
        reads: How often the host read what conditions gave.
        graphs: How often it launched a graph in the place of single kernels.
    """

    steps: int
    reads: int = 0
    graphs: int = 0


def drive_counted(body: MakeTurn, rows: range, backend: Backend, in_graph: int) -> Driven:
    """Run a known number of steps, for which two sets of buffers take turns.

    Args:
        body: Prepares a step.
        rows: Which row of the streams each step takes.
        backend: Where.
        in_graph: How many steps a graph holds, an even number; 0 for none.
    """
    bodies = (body(0), body(1))
    if not in_graph:
        _run(bodies, rows)
        return Driven(len(rows))
    # First without: what a kernel loads or compiles at its first launch has no place in a graph.
    _run(bodies, rows[:2])
    calls = [call for turn in bodies for call in turn.calls] * (in_graph // 2)
    replay = backend.capture(partial(_call, calls))
    graphs, rest = divmod(len(rows) - 2, in_graph)
    for _ in range(graphs):
        replay()
        if subscribers:
            emit("graph", launches=len(calls))
    _run(bodies, rows[len(rows) - rest :])
    return Driven(len(rows), graphs=graphs)


def _run(bodies: Sequence[Repeated], rows: range) -> None:
    for step, row in enumerate(rows):
        bodies[step & 1].run(row)


def _call(calls: Sequence[Callable[[], object]]) -> None:
    for call in calls:
        call()


def drive_while(
    body: MakeTurn, condition: MakeTurn, read: Callable[[], bytes], size: int, ahead: int
) -> Driven:
    """Run steps for as long as the condition holds.

    Args:
        body: Prepares a step.
        condition: Prepares the question whether to go on from the carries in a set of buffers.
        read: Waits, and returns for each set of buffers what the condition gave.
        size: How many sets of buffers take turns: two, or more where so many steps run ahead.
        ahead: How many steps are launched at most before the conditions are read.
    """
    return _ahead(body, condition, read, size) if ahead > 1 else _one_by_one(body, condition, read)


def _one_by_one(body: MakeTurn, condition: MakeTurn, read: Callable[[], bytes]) -> Driven:
    bodies, conditions = (body(0), body(1)), (condition(0), condition(1))
    steps = 0
    conditions[0].run()
    while read()[steps & 1]:
        bodies[steps & 1].run()
        steps += 1
        conditions[steps & 1].run()
    return Driven(steps, steps + 1)


def _ahead(body: MakeTurn, condition: MakeTurn, read: Callable[[], bytes], size: int) -> Driven:
    """Launch steps and their conditions before it is known whether they are due.

    At first one, then twice as many each time, so that a device that works behind the host seldom
    runs dry. Steps beyond the end take time and do nothing else: no more are launched between two
    reads than there are sets of buffers, so that the last carries are still there.
    """
    bodies: list[Repeated] = []
    conditions = [condition(0)]
    conditions[0].run()
    steps, due, reads = 0, 1, 1
    if not read()[0]:
        return Driven(steps, reads)
    while True:
        end = steps + due
        bodies += map(body, range(len(bodies), min(end, size)))
        conditions += map(condition, range(len(conditions), min(end + 1, size)))
        for step in range(steps, end):
            bodies[step % size].run()
            conditions[(step + 1) % size].run()
        held, reads = read(), reads + 1
        for step in range(steps + 1, end + 1):
            if not held[step % size]:
                return Driven(step, reads)
        steps, due = end, min(2 * due, size)

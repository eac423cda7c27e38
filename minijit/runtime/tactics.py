"""How far the host goes at once in a loop that it drives: steps in a graph, steps between reads."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from minijit.graph.jaxpr import Jaxpr, has_effect
from minijit.graph.loop import LoopParts, may_not_end

if TYPE_CHECKING:
    from minijit.backends.base import Backend

__all__ = ["Tactics", "tactics_of"]

_LEAST_LAUNCHES = 16
"""Of a graph: to make one costs as much as some ten launches."""
_LEAST_REPLAYS = 4
"""Of a graph: to capture it costs as much as to launch what is in it."""
_AHEAD_BYTES = 1 << 25
"""What a GPU moves while the host waits for it and gets going again, some ten microseconds."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tactics:
    """How a loop is driven.

    Attributes:
        in_graph: How many steps are captured into a graph and replayed together, an even number; 0
            where each step is launched by itself.
        ahead: How many steps are launched at most before the host reads whether they were due.
        text: The same for people; empty on a device on which launching is all there is to it.
    """

    in_graph: int = 0
    ahead: int = 1
    text: str = ""


def tactics_of(loop: LoopParts, kernels: int | None, backend: Backend) -> Tactics:
    """Choose how ``loop`` is driven.

    Args:
        loop: The loop.
        kernels: How many kernels a step launches; None where it does anything else as well.
        backend: Where.
    """
    if loop.condition is not None:
        return _until(loop, loop.condition, backend)
    if not backend.graph_launches:
        return Tactics()
    if kernels is None:
        return Tactics(text="no CUDA graph, not only kernels in a step")
    if loop.xs or len(loop.body.outvars) > loop.carries:
        return Tactics(text="no CUDA graph, each step takes or gives other rows")
    steps = loop.length or 0
    held = min(backend.graph_launches // max(kernels, 1), (steps - 2) // _LEAST_REPLAYS) // 2 * 2
    if held * kernels < _LEAST_LAUNCHES:
        return Tactics(text="no CUDA graph, too few launches")
    return Tactics(in_graph=held, text=f"{held} steps in a CUDA graph")


def _until(loop: LoopParts, condition: Jaxpr, backend: Backend) -> Tactics:
    if backend.steps_ahead == 1:
        return Tactics()
    if any(map(has_effect, (*loop.body.eqns, *condition.eqns))):
        return Tactics(text="its condition is read at each step, which has effects")
    # Beyond its own end the outer loop may give such an inner one what it never ends on.
    if may_not_end((*loop.body.eqns, *condition.eqns)):
        return Tactics(text="its condition is read at each step, there is a while loop inside")
    # What a step reads at least, which also bounds the memory of so many sets of carries.
    moved = sum(var.aval.nbytes for var in loop.body.invars)
    ahead = max(1, min(backend.steps_ahead, _AHEAD_BYTES // max(moved, 1)))
    if ahead == 1:
        return Tactics(text="its condition is read at each step")
    return Tactics(ahead=ahead, text=f"its condition is read every {ahead} steps")

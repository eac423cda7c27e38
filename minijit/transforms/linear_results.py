"""Which results of a program depend on linear inputs, found before anything is cut.

Bodies are only walked here. If they were cut to see what comes out, and then cut for good, each
level of nested branches would double the work.
"""

from __future__ import annotations

from collections.abc import Sequence

from minijit.graph.jaxpr import Jaxpr, JaxprEqn
from minijit.graph.loop import LoopParts
from minijit.graph.primitive import Kind

__all__ = ["linear_results", "results_of_branch", "results_of_loop"]


def linear_results(jaxpr: Jaxpr, linear: Sequence[bool]) -> list[bool]:
    """Return which results depend on the marked inputs."""
    moved = {var for var, is_linear in zip(jaxpr.invars, linear, strict=True) if is_linear}
    for eqn in jaxpr.eqns:
        flags = [atom in moved for atom in eqn.invars]
        if any(flags):
            results = zip(eqn.outvars, _results_of(eqn, flags), strict=True)
            moved.update(var for var, is_linear in results if is_linear)
    return [atom in moved for atom in jaxpr.outvars]


def results_of_branch(eqn: JaxprEqn, linear: Sequence[bool]) -> list[bool]:
    """Return which results of a branch are linear: those that are in any of its bodies."""
    bodies = [linear_results(branch, linear[1:]) for branch in eqn.params["branches"]]
    return [any(column) for column in zip(*bodies, strict=True)]


def results_of_loop(eqn: JaxprEqn, linear: Sequence[bool]) -> list[bool]:
    """Return which results of a loop are linear; a carry is if it is so in any step."""
    loop = LoopParts.of(eqn)
    first, last = len(loop.asked), len(linear) - len(loop.xs)
    fixed, carried = linear[first : last - loop.carries], list(linear[last - loop.carries : last])
    while True:
        found = linear_results(loop.body, [*fixed, *carried, *linear[last:]])
        grown = [a or b for a, b in zip(carried, found[: loop.carries], strict=True)]
        if grown == carried:
            return [*carried, *found[loop.carries :]]
        carried = grown


def _results_of(eqn: JaxprEqn, linear: Sequence[bool]) -> list[bool]:
    if eqn.primitive.kind is Kind.BRANCH:
        return results_of_branch(eqn, linear)
    if eqn.primitive.kind is Kind.LOOP:
        return results_of_loop(eqn, linear)
    return [True] * len(eqn.outvars)

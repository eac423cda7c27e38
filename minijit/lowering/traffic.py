"""How many bytes a program moves: an operation at a time, and as it is cut into kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var, subjaxprs
from minijit.graph.loop import LoopParts
from minijit.graph.primitive import Kind
from minijit.lowering.demand import Program
from minijit.lowering.groups import Group, Partition
from minijit.lowering.products import seen_through

__all__ = ["eager_bytes", "fused_bytes"]


def eager_bytes(jaxpr: Jaxpr) -> int:
    """Return the bytes that are read and written where each operation is a kernel of its own.

    A view moves nothing, and what reads it reads no more than there is in memory. The steps of a
    loop count as often as they run, once where that is not known; of branches the largest counts.
    """
    program = Program(jaxpr)
    return sum(_eager(eqn, program) for eqn in jaxpr.eqns if eqn.primitive.kind is not Kind.VIEW)


def _eager(eqn: JaxprEqn, program: Program) -> int:
    if eqn.primitive.kind in (Kind.LOOP, Kind.BRANCH):
        return _repeated(eqn, eager_bytes)
    read = dict.fromkeys(atom for atom in eqn.invars if isinstance(atom, Var))
    sources = ((var, seen_through(var, program.definition)) for var in read)
    return sum(min(var.aval.nbytes, source.aval.nbytes) for var, source in sources) + _sizes(
        eqn.outvars
    )


def fused_bytes(parts: Partition, plan: Callable[[Jaxpr], Partition]) -> int:
    """Return the bytes that the steps of a program read and write; loops count as above.

    Args:
        parts: How the program is cut into steps.
        plan: Returns that of the body of a loop or a branch that the host drives.
    """
    total = 0
    for step in parts.steps:
        if isinstance(step, Group):
            written = (m.var for m in step.members if m.var in parts.stored)
            total += _sizes(step.reads) + _sizes(written)
        elif step.primitive.kind in (Kind.LOOP, Kind.BRANCH):
            total += _repeated(step, lambda body: fused_bytes(plan(body), plan))
        elif step.primitive.kind is not Kind.VIEW:
            total += _sizes(dict.fromkeys(step.invars)) + _sizes(step.outvars)
    return total


def _repeated(eqn: JaxprEqn, measure: Callable[[Jaxpr], int]) -> int:
    """Return what the bodies of a loop or a branch move in all."""
    bodies = [measure(body) for body in subjaxprs(eqn)]
    if eqn.primitive.kind is Kind.BRANCH:
        return max(bodies)
    length = LoopParts.of(eqn).length
    return sum(bodies) * (1 if length is None else length)


def _sizes(atoms: Iterable[Atom]) -> int:
    return sum(atom.aval.nbytes for atom in atoms if isinstance(atom, Var))

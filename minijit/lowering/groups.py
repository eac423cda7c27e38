"""How a program is cut into kernels: the groups that a partition consists of."""

from __future__ import annotations

import dataclasses

from minijit.graph.jaxpr import JaxprEqn, Var

__all__ = ["Group", "Member", "Partition", "Refusal"]


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """One node of a kernel.

    Attributes:
        var: The value.
        axes: For each axis of the value, the dimension of the group's space (None: extent one).
        collected: Whether its first axis, None among ``axes``, is the steps of a loop: it is
            complete when the kernel has run.
    """

    var: Var
    axes: tuple[int | None, ...]
    collected: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """Why ``consumer`` does not share a kernel with ``producer``."""

    producer: Var
    consumer: Var
    reason: str


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """The nodes of one kernel.

    Attributes:
        extents: Dimensions of the space, in the order of the widest member's axes; unit ones
            dropped.
        reduced: Which of them reductions run over.
        members: The nodes, in program order.
        reads: What they read from memory.
        split: Whether the columns are cut into blocks that run in parallel.
    """

    extents: tuple[int, ...]
    reduced: frozenset[int]
    members: tuple[Member, ...]
    reads: frozenset[Var]
    split: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Partition:
    """The steps of a program, in an order in which they can run.

    Attributes:
        steps: A ``Group`` for each kernel, an equation for each operation of the array library.
        stored: Values that live in memory between steps.
        refusals: Why kernels that exchange values were not made one.
        blocked: Why loops and branches are driven by the host, and operations that a kernel could
            hold elsewhere are run by the array library.
    """

    steps: tuple[Group | JaxprEqn, ...]
    stored: frozenset[Var]
    refusals: tuple[Refusal, ...]
    blocked: tuple[tuple[JaxprEqn, str], ...] = ()

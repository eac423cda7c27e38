"""Which values are computed once and kept, and which are cheap enough to compute where used.

A *node* is a value that gets a definition of its own: the results, reductions, what the array
library needs or gives, and costly values that several consumers share. Everything else is inlined
into the nodes that use it. Whether a node is stored in memory is decided later: nodes of one kernel
hand their values on in registers.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict

from minijit.graph.jaxpr import JaxprEqn, Var
from minijit.graph.primitive import Kind
from minijit.lowering.demand import Blocked, Program
from minijit.lowering.products import read_whole, seen_through

__all__ = ["Realized", "realize"]

# A value that takes no more operations and array reads than this is computed by each consumer: two
# consumers reading two arrays move as many bytes as one that stores the value for another.
_CHEAP_FLOPS = 8
_CHEAP_READS = 2
# A costly value that broadcasting repeats is worth a kernel of its own from this much saved work
# on.
_REPEATED_FLOPS = 1 << 17


@dataclasses.dataclass(frozen=True, slots=True)
class Realized:
    """The outcome.

    Attributes:
        nodes: Values that kernels define, in program order.
        eager: Positions of the equations that the array library runs; their results are stored.
        views: Positions of the views that only hand stored values to those equations.
    """

    nodes: tuple[Var, ...]
    eager: frozenset[int]
    views: frozenset[int]


def realize(program: Program, blocked: frozenset[int], most_reads: int = 255) -> Realized:
    """Choose the nodes of ``program``.

    Args:
        program: Its outputs are all defined by equations, no two by the same variable.
        blocked: Positions of equations that cannot be expressed inside a kernel.
        most_reads: From how many values in memory one node may be computed.

    Raises:
        Blocked: an equation has more operands than that.
    """
    eqns = program.jaxpr.eqns
    eager, views = _eager_positions(program, blocked)
    uses: dict[Var, list[tuple[int, JaxprEqn]]] = defaultdict(list)
    for position, eqn in enumerate(eqns):
        for atom in eqn.invars:
            if isinstance(atom, Var):
                uses[atom].append((position, eqn))
    results = {atom for atom in program.jaxpr.outvars if isinstance(atom, Var)}
    fanout = _fanouts(program, uses, results, eager)
    whole = _read_as_wholes(program)
    nodes: dict[Var, None] = {}
    flops: dict[Var, int] = {}
    reads: dict[Var, frozenset[Var]] = {}
    for position, eqn in enumerate(eqns):
        if position in eager:
            continue
        operands = {atom for atom in eqn.invars if isinstance(atom, Var)}
        inlined = {atom for atom in operands if atom in flops and atom not in nodes}
        read = frozenset(operands - inlined).union(*(reads[atom] for atom in inlined))
        if len(read) > most_reads:
            order = sorted(inlined, key=lambda atom: (len(reads[atom]), program.position[atom]))
            read = _read_at_most(most_reads, operands - inlined, order, reads, eqn)
            nodes.update(dict.fromkeys(inlined.difference(order)))
            inlined.intersection_update(order)
        cost = eqn.primitive.flops + sum(flops[atom] for atom in inlined)
        for var in eqn.outvars:
            reads[var], flops[var] = read, cost
            if (
                var in results
                or var in whole
                or (_structured(eqn) and uses[var])
                or eqn.primitive.kind is Kind.REDUCTION
                or (position not in views and any(p in eager or p in views for p, _ in uses[var]))
                or _worth_sharing(eqn, cost, read, fanout[var])
                or _worth_repeating(uses[var], cost, var)
            ):
                nodes[var] = None
    in_order = sorted(nodes, key=lambda node: program.position[node])
    return Realized(tuple(in_order), eager, views)


def _read_as_wholes(program: Program) -> set[Var]:
    """Return what has to be in memory since an element of another value reads many of it."""
    found: set[Var] = set()
    for eqn in program.jaxpr.eqns:
        if _structured(eqn) or eqn.primitive.kind is Kind.GATHER:
            for var in read_whole(eqn):
                source = seen_through(var, program.definition)
                if isinstance(source, Var):
                    found.add(source)
                elif _structured(eqn):  # one number, repeated, is a matrix in memory
                    found.add(var)
    return found


def _structured(eqn: JaxprEqn) -> bool:
    return eqn.primitive.kind in (Kind.LOOP, Kind.BRANCH)


def _read_at_most(
    most: int,
    operands: set[Var],
    inlined: list[Var],
    reads: dict[Var, frozenset[Var]],
    eqn: JaxprEqn,
) -> frozenset[Var]:
    """Return the values in memory from which ``eqn`` is computed, ``most`` or fewer.

    Args:
        most: How many there may be.
        operands: What it reads that is not inlined.
        inlined: Its other operands; from the end, those are taken off that go to memory.
        reads: What each of them is computed from.
        eqn: The equation.

    Raises:
        Blocked: it has more operands than that.
    """
    readers = Counter(operands)
    for atom in inlined:
        readers.update(reads[atom])
    while len(readers) > most:
        if not inlined:
            raise Blocked(eqn, f"it reads more than {most} arrays")
        widest = inlined.pop()
        readers.update((widest,))
        for var in reads[widest]:
            readers[var] -= 1
            if not readers[var]:
                del readers[var]
    return frozenset(readers)


def _worth_sharing(eqn: JaxprEqn, flops: int, read: frozenset[Var], fanout: int) -> bool:
    if fanout < 2 or eqn.primitive.kind is Kind.VIEW:
        return False
    arrays = sum(var.aval.size > 1 for var in read)
    return flops > _CHEAP_FLOPS or arrays > _CHEAP_READS


def _worth_repeating(uses: list[tuple[int, JaxprEqn]], flops: int, var: Var) -> bool:
    if flops <= _CHEAP_FLOPS:
        return False
    repeated = sum(
        eqn.outvars[0].aval.size
        for _, eqn in uses
        if eqn.primitive.kind is not Kind.REDUCTION
        and eqn.outvars[0].aval.size >= 2 * var.aval.size
    )
    return repeated * flops >= _REPEATED_FLOPS


def _fanouts(
    program: Program,
    uses: dict[Var, list[tuple[int, JaxprEqn]]],
    results: set[Var],
    eager: frozenset[int],
) -> dict[Var, int]:
    """Count the readers of each value, looking through views."""
    fanout: dict[Var, int] = defaultdict(int)
    for position in range(len(program.jaxpr.eqns) - 1, -1, -1):
        for var in program.jaxpr.eqns[position].outvars:
            readers = 1 if var in results else 0
            for user_position, user in uses[var]:
                through = user.primitive.kind is Kind.VIEW and user_position not in eager
                readers += fanout[user.outvars[0]] if through else 1
            fanout[var] = readers
    return fanout


def _eager_positions(
    program: Program, blocked: frozenset[int]
) -> tuple[frozenset[int], frozenset[int]]:
    """Return what the array library runs, and the views that only feed it."""
    eqns = program.jaxpr.eqns
    eager = set(blocked)
    views: set[int] = set()
    for position, eqn in enumerate(eqns):
        atoms = (*eqn.invars, *eqn.outvars)
        if eqn.primitive.kind is Kind.LIBRARY or any(atom.aval.size == 0 for atom in atoms):
            eager.add(position)
    for position in range(len(eqns) - 1, -1, -1):
        if position in eager or position in views:
            for atom in eqns[position].invars:
                source = program.position.get(atom, -1) if isinstance(atom, Var) else -1
                feeds = source >= 0 and source not in eager
                if feeds and eqns[source].primitive.kind is Kind.VIEW:
                    views.add(source)
    return frozenset(eager), frozenset(views)

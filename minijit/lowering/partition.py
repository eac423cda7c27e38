"""Partition: which nodes share a kernel, and why the others do not.

Nodes are taken in program order; each joins an earlier kernel when its iteration space fits, when
every value that passes between them is read exactly where it is computed, and when no value would
have to be known before the kernel has run. This moves as few bytes and launches as few kernels as
joining neighbours can.
"""

from __future__ import annotations

import functools
import graphlib
import heapq
import itertools
import operator
from collections import ChainMap, defaultdict
from collections.abc import Iterator, Sequence, Set

from minijit.graph.few_rows import FewRows
from minijit.graph.jaxpr import JaxprEqn, Var, has_effect
from minijit.lowering.demand import Program
from minijit.lowering.groups import Group, Member, Partition, Refusal
from minijit.lowering.joining import Draft
from minijit.lowering.nodes import Node, Nodes, find_nodes
from minijit.transforms.lanes import together

__all__ = ["Group", "Member", "Partition", "Refusal", "partition"]


def partition(
    program: Program,
    few_rows: FewRows,
    most_buffers: int = 256,
    most_columns: int = 1 << 14,
    most_matrix_bytes: int = 1 << 18,
) -> Partition:
    """Group the nodes of ``program`` into kernels.

    Args:
        program: Its outputs are all defined by equations.
        few_rows: Which reductions leave the device idle, so that they are split.
        most_buffers: How many arrays one kernel may read and write.
        most_columns: How long a row may be that a loop or a branch reduces inside.
        most_matrix_bytes: How large the matrices of a loop may be together that it multiplies with.
    """
    found = find_nodes(program, most_buffers - 1, most_columns, most_matrix_bytes)
    return _Partitioner(program, found, few_rows, most_buffers).run()


def _in_order(needs: Sequence[Set[int]]) -> Iterator[int]:
    """Iterate over steps, each after those that it needs; of several that can run the first."""
    sorter = graphlib.TopologicalSorter(dict(enumerate(needs)))
    sorter.prepare()
    ready = list(sorter.get_ready())
    heapq.heapify(ready)
    while ready:
        step = heapq.heappop(ready)
        yield step
        sorter.done(step)
        for following in sorter.get_ready():
            heapq.heappush(ready, following)


class _Partitioner:
    """Places nodes, in program order, into steps, which are numbered as they are begun."""

    def __init__(
        self, program: Program, found: Nodes, few_rows: FewRows, most_buffers: int
    ) -> None:
        self.program = program
        self.realized = found.realized
        self.nodes = found.nodes
        self.blocked = found.blocked
        self.few_rows = few_rows
        self.most_buffers = most_buffers
        self.steps: list[Draft | JaxprEqn] = []
        self.needs: list[set[int]] = []
        """By step, the steps whose results it reads."""
        self.before: list[int] = []
        """By step, all that must have run before it can, as a set of bits."""
        self.step_of: dict[Var, int] = {}
        self.view_step: dict[Var, int] = {}
        """Of views that only the library reads: kernels look through them."""
        self.by_extents: dict[tuple[int, ...], int] = defaultdict(int)
        """By the dimensions of their space, and of their rows, kernels that are not full: bits."""
        self.effects: set[int] = set()
        """The last step with an effect: the next one comes after it."""
        self.refusals: list[Refusal] = []

    def run(self) -> Partition:
        """Place every node and order the steps."""
        for position, eqn in enumerate(self.program.jaxpr.eqns):
            if position in self.realized.eager or position in self.realized.views:
                self._add_eager(position, eqn)
            if position not in self.realized.eager:
                for var in eqn.outvars:
                    if var in self.nodes:
                        self._place(self.nodes[var])
        steps = (self.steps[number] for number in _in_order(self.needs))
        return Partition(
            tuple(step.group if isinstance(step, Draft) else step for step in steps),
            self._stored(),
            tuple(self.refusals),
            self.blocked,
        )

    def _add_eager(self, position: int, eqn: JaxprEqn) -> None:
        number = self._begin(together(eqn))
        made = ChainMap(self.view_step, self.step_of)
        read = (atom for atom in eqn.invars if isinstance(atom, Var))
        needed = {made[var] for var in read if var in made}
        if has_effect(eqn):
            needed |= self.effects
            self.effects = {number}
        self._need(number, needed)
        steps = self.step_of if position in self.realized.eager else self.view_step
        steps.update(dict.fromkeys(eqn.outvars, number))

    def _place(self, node: Node) -> None:
        sources = [r.var for r in node.reads if r.var in self.step_of]
        producers = {self.step_of[var] for var in sources}
        before = functools.reduce(operator.or_, (self.before[step] for step in producers), 0)
        related = sorted(producers, reverse=True)
        for number in itertools.chain(related, self._siblings(node, producers, before)):
            draft = self.steps[number]
            if not isinstance(draft, Draft):
                continue
            fit = draft.fit(node, related=number in producers)
            if before >> number & 1 and not isinstance(fit, str):
                fit = "it also reads what is computed from that kernel's results"
            if not isinstance(fit, str):
                draft.add(node, fit)
                self._commit(number, draft, node, producers - {number})
                return
            if number in producers:
                producer = next(v for v in sources if self.step_of[v] == number)
                self.refusals.append(Refusal(producer, node.var, fit))
        draft = Draft(node, self.few_rows, self.most_buffers)
        self._commit(self._begin(draft), draft, node, producers)

    def _siblings(self, node: Node, producers: set[int], before: int) -> Iterator[int]:
        """Iterate over the other kernels with a space that ``node`` may fit, the latest first.

        What must have run before it can is not among them.
        """
        fitting = self.by_extents[node.extents] | self.by_extents[node.row_extents]
        fitting &= ~functools.reduce(lambda bits, step: bits | 1 << step, producers, before)
        while fitting:
            number = fitting.bit_length() - 1
            yield number
            fitting ^= 1 << number

    def _begin(self, step: Draft | JaxprEqn) -> int:
        """Add a step and return its number."""
        self.steps.append(step)
        self.needs.append(set())
        self.before.append(0)
        return len(self.steps) - 1

    def _commit(self, number: int, draft: Draft, node: Node, producers: set[int]) -> None:
        bit = 1 << number
        for extents in (draft.extents, draft.row_extents):
            self.by_extents[extents] = self.by_extents[extents] & ~bit | (0 if draft.full else bit)
        self.step_of[node.var] = number
        self._need(number, producers)

    def _need(self, number: int, needed: set[int]) -> None:
        """Let a step run after others, and so what runs after it."""
        self.needs[number] |= needed
        known = self.before[number]
        found = functools.reduce(lambda b, step: b | self.before[step] | 1 << step, needed, known)
        self.before[number] = found
        if found != known and number < len(self.steps) - 1:  # nothing runs after a new step yet
            self.before = [b | found if b >> number & 1 else b for b in self.before]

    def _stored(self) -> frozenset[Var]:
        """Return what has to be in memory: results, and what another step reads."""
        stored = {atom for atom in self.program.jaxpr.outvars if isinstance(atom, Var)}
        for node in self.nodes.values():
            step = self.step_of[node.var]
            stored.update(r.var for r in node.reads if self.step_of.get(r.var) != step)
        for position in (*self.realized.eager, *self.realized.views):
            eqn = self.program.jaxpr.eqns[position]
            stored.update(atom for atom in (*eqn.invars, *eqn.outvars) if isinstance(atom, Var))
        # The library alone reads views: kernels look through them to what they show.
        return frozenset(stored - self.view_step.keys())

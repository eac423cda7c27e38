"""What a kernel computes and loads: requests followed back through equations and their bodies."""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Container, Iterable, Iterator, Sequence

from minijit.graph.aval import ShapedArray
from minijit.graph.index import Affine
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var
from minijit.graph.loop import LoopParts, is_collected
from minijit.graph.primitive import Kind
from minijit.lowering.cells import Cells, cells_of
from minijit.lowering.demand import (
    Blocked,
    Conditions,
    Demand,
    Program,
    Request,
    Space,
    operand_requests,
)
from minijit.lowering.gathers import gather_at
from minijit.lowering.products import product_at

__all__ = ["BranchUse", "LoopUse", "branch_uses", "follow", "loop_uses"]

_Index = tuple[Affine, ...]


def follow(
    program: Program,
    roots: Iterable[Request],
    space: Space,
    stored: Container[Var],
    *,
    inside: bool = False,
) -> Demand:
    """Follow ``roots`` back through their equations until memory answers.

    Args:
        program: The program.
        roots: What is to be computed; a root is never answered by memory, even if stored.
        space: The iteration space.
        stored: Values that are read from memory: inputs, and results of other kernels.
        inside: Whether the program is the body of a loop or a branch.

    Raises:
        SplitDimension: a dimension of the space must be split first.
        Blocked: an equation cannot be expressed in this space.
    """
    by_position: dict[int, dict[Request, None]] = {}
    pending: list[int] = []
    loaded: dict[Request, None] = {}

    def ask(request: Request, position: int) -> None:
        if position not in by_position:
            by_position[position] = {}
            heapq.heappush(pending, -position)
        by_position[position][request] = None

    own = set()
    for root in roots:
        own.add(root)
        ask(root, program.position[root.var])
    while pending:
        position = -heapq.heappop(pending)
        eqn = program.jaxpr.eqns[position]
        if inside:
            _refuse_foreign(eqn, space)
            _refuse_collected(eqn, by_position[position])
            _refuse_later_steps(eqn, by_position[position], space)
        _refuse_terms(eqn, by_position[position], space)
        # A request of an equation only ever leads to equations before it.
        for needed in _needs(eqn, tuple(by_position[position]), space):
            if needed in own or needed.var not in stored:
                ask(needed, program.position[needed.var])
            else:
                loaded[needed] = None
    computed = tuple(r for position in sorted(by_position) for r in by_position[position])
    return Demand(computed, tuple(loaded))


def _refuse_foreign(eqn: JaxprEqn, space: Space) -> None:
    """Raise ``Blocked`` for what a body cannot do in a kernel over ``space``."""
    kind = eqn.primitive.kind
    if kind is Kind.REDUCTION:
        extents = [eqn.invars[0].aval.shape[axis] for axis in eqn.params["axes"]]
        columns = [column.bounds(space.spans)[1] + 1 for column in space.columns]
        if [extent for extent in extents if extent != 1] != columns:
            raise Blocked(eqn, f"{eqn.primitive.name} does not run along the columns")
    if kind is Kind.LIBRARY and eqn.primitive.contraction is None:
        raise Blocked(eqn, f"{eqn.primitive.name} is run by the array library")


def _refuse_collected(eqn: JaxprEqn, requests: Iterable[Request]) -> None:
    """Raise ``Blocked`` for what a loop inside a body collects: only memory could hold it."""
    if any(is_collected(eqn, request.var) for request in requests):
        raise Blocked(eqn, "a loop inside it collects values, which have to be in memory")


def _refuse_later_steps(eqn: JaxprEqn, requests: Iterable[Request], space: Space) -> None:
    """Raise ``Blocked`` for what a later loop takes apart: its steps are not open yet."""
    if eqn.primitive.kind not in (Kind.LOOP, Kind.BRANCH):
        return
    first = len(space.extents)
    if any(dim >= first for request in requests for index in request.index for dim in index.dims):
        raise Blocked(eqn, "a loop inside it takes apart what another computes")


def _refuse_terms(eqn: JaxprEqn, requests: Iterable[Request], space: Space) -> None:
    """Raise ``Blocked`` for what is read as a whole and no memory holds."""
    if eqn.primitive.kind is Kind.VIEW:
        return
    terms = {len(space.extents) + number for number in space.steps.wholes}
    if any(terms.intersection(at.dims) for request in requests for at in request.index):
        raise Blocked(eqn, "a step computes it elsewhere than where it is read")


def _needs(eqn: JaxprEqn, requests: Sequence[Request], space: Space) -> Iterator[Request]:
    """Yield what the results ``requests`` of ``eqn`` need of its operands."""
    uses: Sequence[LoopUse | BranchUse] = ()
    match eqn.primitive.kind:
        case Kind.LOOP:
            uses = loop_uses(eqn, requests, space)
        case Kind.BRANCH:
            uses = branch_uses(eqn, requests, space)
        case Kind.LIBRARY:
            for request in requests:
                yield from product_at(eqn, request, space).requests
        case Kind.GATHER:
            for request in requests:
                yield from gather_at(eqn, request, space).requests(request.conditions)
        case _:
            for request in requests:
                yield from operand_requests(eqn, request, space)
    for use in uses:
        yield from use.outer


@dataclasses.dataclass(frozen=True, slots=True)
class LoopUse:
    """A loop at one element of what it carries.

    Attributes:
        eqn: The loop.
        parts: What its operands and parameters are.
        dim: The dimension of its steps.
        step: Which element of the inputs along their first axis a step takes.
        carries: The carries that are needed, with the index of the element of each.
        streams: The collected results that are wanted, with the index of the element of each row.
        body: What a step computes, in the body's own variables.
        condition: The same of the condition, if the loop has one.
        lane: The index of what the condition gives: there is one for each lane, or one for all.
        bindings: For each input of body and condition, the operand that it is and the index to
            put before its own; carries are not among them.
        outer: What the loop needs of its operands.
    """

    eqn: JaxprEqn
    parts: LoopParts
    dim: int
    step: Affine
    carries: dict[int, _Index]
    streams: dict[int, _Index]
    body: Demand
    condition: Demand | None
    lane: _Index
    bindings: dict[Var, tuple[Atom, _Index]]
    outer: tuple[Request, ...]


def loop_uses(eqn: JaxprEqn, requests: Iterable[Request], space: Space) -> list[LoopUse]:
    """Return a loop at each of the elements at which its results are requested.

    A collected result is requested at every step at once: its first index says nothing.

    Raises:
        Blocked: a step needs more than the element itself.
    """
    wanted: dict[_Element, set[int]] = {}
    cells = cells_of(eqn)
    for request in requests:
        place = eqn.outvars.index(request.var)
        if request.conditions:
            raise Blocked(eqn, "only some of its elements are needed")
        shape, index = request.var.aval.shape, request.index
        if is_collected(eqn, request.var):
            shape, index = shape[1:], index[1:]
        element = _Element.of(cells, shape, index, space)
        wanted.setdefault(element, set()).add(place)
    return [_LoopFollower(eqn, element, space).use(places) for element, places in wanted.items()]


@dataclasses.dataclass(frozen=True, slots=True)
class _Element:
    """Where a loop or a branch runs: an element of arrays of one shape, or a cell of a row.

    Attributes:
        shape: Shape of the arrays.
        index: Index of the element.
        cells: How arrays of rows lie beside those of cells, if there are reductions.
    """

    shape: tuple[int, ...]
    index: _Index
    cells: Cells | None = None

    @classmethod
    def of(
        cls, cells: Cells | None, shape: tuple[int, ...], index: _Index, space: Space
    ) -> _Element:
        """Return the element that a result is requested at."""
        cell = None if cells is None else cells.cell(shape, index, space.columns)
        if cells is None or cell is None:
            return cls(shape, index)
        return cls(cells.shape, cell, cells)

    def index_of(self, eqn: JaxprEqn, aval: ShapedArray, steps: int = 0) -> _Index:
        """Return the index here into an array, its first ``steps`` axes left out.

        Raises:
            Blocked: arrays of its shape have no such element.
        """
        shape = aval.shape[steps:]
        if math.prod(shape) == 1:
            return (Affine(),) * len(shape)
        # What lies over the leading axes alone each element has for itself.
        index = self.index[: len(shape)] if shape == self.shape[: len(shape)] else None
        if self.cells is not None:
            index = self.cells.index_of(shape, self.index)
        if index is None:
            raise Blocked(eqn, f"it computes arrays of shapes {self.shape} and {shape}")
        return index


class _LoopFollower:
    """Finds which carries a loop needs at one element, and what of its operands."""

    def __init__(self, eqn: JaxprEqn, element: _Element, space: Space) -> None:
        self.eqn = eqn
        self.element = element
        self.space = space
        self.parts = parts = LoopParts.of(eqn)
        length = 1 if parts.length is None else parts.length
        self.dim = len(space.extents) + space.steps.number(eqn, element.index, length)
        step = Affine.dim(self.dim, length)
        self.step = step.scaled(-1, length - 1) if parts.reverse else step
        self.bindings: dict[Var, tuple[Atom, _Index]] = {}
        self.place: dict[Var, int] = {}
        for jaxpr, consts in ((parts.condition, parts.asked), (parts.body, parts.fixed)):
            if jaxpr is not None:
                first = len(consts)
                state = jaxpr.invars[first : first + parts.carries]
                self.place.update((var, n) for n, var in enumerate(state))
                bound = zip(jaxpr.invars[:first], consts, strict=True)
                self.bindings.update((var, (atom, ())) for var, atom in bound)
        rows = parts.body.invars[len(parts.fixed) + parts.carries :]
        for var, atom in zip(rows, parts.xs, strict=True):
            self.bindings[var] = (atom, (self.step,))

    def use(self, places: set[int]) -> LoopUse:
        """Return what the results ``places`` need."""
        outvars = self.eqn.outvars
        streams = {
            n: self.element.index_of(self.eqn, outvars[n].aval, 1)
            for n in sorted(places)
            if n >= self.parts.carries
        }
        carries = {n for n in places if n < self.parts.carries}
        condition, lane = None, self._lane()
        while True:
            indices = {n: self._index_of(n) for n in sorted(carries)}
            roots = [(self.parts.body.outvars[n], at) for n, at in (indices | streams).items()]
            body = self._inside(self.parts.body, roots)
            demands = [body]
            asking = self.parts.condition
            if asking is not None:
                condition = self._inside(asking, [(asking.outvars[0], lane)])
                demands.append(condition)
            loaded = [request for demand in demands for request in demand.loaded]
            asked = {self._carry_of(r) for r in loaded if r.var in self.place}
            if asked <= carries:
                break
            carries |= asked
        outer = [Request(a, at) for a, at in self._starts(indices)]
        for request in loaded:
            if request.var not in self.place:
                atom, before = self.bindings[request.var]
                if isinstance(atom, Var):
                    outer.append(Request(atom, before + request.index, request.conditions))
        return LoopUse(
            self.eqn, self.parts, self.dim, self.step, indices, streams, body, condition, lane,
            self.bindings, tuple(dict.fromkeys(outer)),
        )  # fmt: skip

    def _lane(self) -> _Index:
        """Return the index of the lane that the element belongs to.

        Raises:
            Blocked: it belongs to several.
        """
        asking, cells = self.parts.condition, self.element.cells
        lanes = 0 if asking is None else asking.out_avals[0].ndim
        if cells is not None and min(cells.axes, default=lanes) < lanes:
            raise Blocked(self.eqn, "its body reduces or multiplies across lanes")
        return self.element.index[:lanes]

    def _starts(self, indices: dict[int, _Index]) -> Iterator[tuple[Var, _Index]]:
        for place, index in indices.items():
            atom = self.parts.inits[place]
            if isinstance(atom, Var):
                yield atom, index

    def _index_of(self, place: int) -> _Index:
        """Return the index of a carry's element where the loop runs."""
        return self.element.index_of(self.eqn, self.eqn.outvars[place].aval)

    def _carry_of(self, request: Request) -> int:
        place = self.place[request.var]
        if request.conditions or request.index != self._index_of(place):
            raise Blocked(self.eqn, "a step reads other elements of what it carries than its own")
        return place

    def _inside(self, jaxpr: Jaxpr, roots: Sequence[tuple[Atom, _Index]]) -> Demand:
        return _inside(self.eqn, jaxpr, [(atom, at, ()) for atom, at in roots], self.space)


@dataclasses.dataclass(frozen=True, slots=True)
class BranchUse:
    """A branch at one element of its results.

    Attributes:
        eqn: The branch.
        results: The places of the results that are wanted, with the index of each.
        conditions: Where the element exists.
        bodies: What each branch computes, in its own variables.
        outer: What the branches need of the operands, and the number of the branch.
    """

    eqn: JaxprEqn
    results: dict[int, _Index]
    conditions: Conditions
    bodies: tuple[Demand, ...]
    outer: tuple[Request, ...]


def branch_uses(eqn: JaxprEqn, requests: Iterable[Request], space: Space) -> list[BranchUse]:
    """Return a branch at each of the elements at which its results are requested.

    Raises:
        Blocked: a branch needs more than the element itself.
    """
    wanted: dict[tuple[_Element, Conditions], set[int]] = {}
    cells = cells_of(eqn)
    for request in requests:
        place = eqn.outvars.index(request.var)
        element = _Element.of(cells, request.var.aval.shape, request.index, space)
        wanted.setdefault((element, request.conditions), set()).add(place)
    uses = []
    for (element, conditions), places in wanted.items():
        results = {n: element.index_of(eqn, eqn.outvars[n].aval) for n in sorted(places)}
        bodies = tuple(
            _inside(
                eqn, jaxpr, [(jaxpr.outvars[n], at, conditions) for n, at in results.items()], space
            )
            for jaxpr in eqn.params["branches"]
        )
        chosen = eqn.invars[0]
        outer = [Request(chosen, ())] if isinstance(chosen, Var) else []
        for jaxpr, demand in zip(eqn.params["branches"], bodies, strict=True):
            operands = dict(zip(jaxpr.invars, eqn.invars[1:], strict=True))
            for request in demand.loaded:
                atom = operands[request.var]
                if isinstance(atom, Var):
                    outer.append(Request(atom, request.index, request.conditions))
        needed = tuple(dict.fromkeys(outer))
        uses.append(BranchUse(eqn, results, conditions, bodies, needed))
    return uses


def _inside(
    eqn: JaxprEqn, jaxpr: Jaxpr, roots: Sequence[tuple[Atom, _Index, Conditions]], space: Space
) -> Demand:
    """Follow results of a body back to its inputs, which count as loaded."""
    program = Program(jaxpr)
    computed: list[Request] = []
    direct: list[Request] = []
    for atom, index, conditions in roots:
        if isinstance(atom, Var):
            request = Request(atom, index, conditions)
            (computed if atom in program.position else direct).append(request)
    try:
        demand = follow(program, computed, space, frozenset(jaxpr.invars), inside=True)
    except Blocked as blocked:
        raise Blocked(eqn, blocked.why) from None
    return Demand(demand.computed, tuple(dict.fromkeys((*demand.loaded, *direct))))

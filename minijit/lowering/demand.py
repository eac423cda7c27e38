"""Which elements of which values a kernel needs: indices followed back to what is loaded."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Container, Iterable, Iterator

from minijit.graph.aval import ShapedArray
from minijit.graph.index import Affine, NotAffine
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var
from minijit.graph.primitive import Kind, Part

__all__ = ["Blocked", "Conditions", "Demand", "Program", "Request", "Space", "follow"]

Conditions = tuple[tuple[Affine, int, int], ...]
"""``low <= expression < high`` for all of them: where a guarded element exists."""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One value at one index: ``index`` has an expression for each of its axes."""

    var: Var
    index: tuple[Affine, ...]
    conditions: Conditions = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Space:
    """An iteration space.

    Attributes:
        extents: Of all its dimensions.
        columns: The index along each reduced axis whose extent is not one, in order of the axes.
    """

    extents: tuple[int, ...]
    columns: tuple[Affine, ...] = ()

    def split(self, dim: int, inner: int) -> tuple[Space, dict[int, Affine]]:
        """Return the space with ``dim`` split, and its old dimensions in terms of the new."""
        extents = (*self.extents[:dim], self.extents[dim] // inner, inner, *self.extents[dim + 1 :])
        replaced = {d: Affine(0, ((d + (d > dim), 1),)) for d in range(len(self.extents))}
        replaced[dim] = Affine(0, ((dim, inner), (dim + 1, 1)))
        return Space(extents, tuple(c.substituted(replaced) for c in self.columns)), replaced


class Blocked(Exception):
    """No kernel can hold the equation ``eqn``: the array library has to run it."""

    def __init__(self, eqn: JaxprEqn) -> None:
        """Remember the equation."""
        super().__init__(eqn)
        self.eqn = eqn


class Program:
    """A jaxpr with the look-ups that lowering needs."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        """Index the equations of ``jaxpr``."""
        self.jaxpr = jaxpr
        self.position: dict[Var, int] = {}
        for position, eqn in enumerate(jaxpr.eqns):
            for var in eqn.outvars:
                self.position[var] = position

    def definition(self, var: Var) -> JaxprEqn | None:
        """Return the equation that defines ``var``, or None for an input."""
        position = self.position.get(var)
        return None if position is None else self.jaxpr.eqns[position]


@dataclasses.dataclass(frozen=True, slots=True)
class Demand:
    """What a kernel computes and loads.

    Attributes:
        computed: Requests that equations answer, in an order in which they can be evaluated.
        loaded: Requests that memory answers.
    """

    computed: tuple[Request, ...]
    loaded: tuple[Request, ...]


def follow(
    program: Program, roots: Iterable[Request], space: Space, stored: Container[Var]
) -> Demand:
    """Follow ``roots`` back through their equations until memory answers.

    Args:
        program: The program.
        roots: What is to be computed; a root is never answered by memory, even if stored.
        space: The iteration space.
        stored: Values that are read from memory: inputs, and results of other kernels.

    Raises:
        SplitDimension: a dimension of the space must be split first.
        Blocked: a view is not affine in this space.
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
        # A request of an equation only ever leads to equations before it.
        for request in by_position[position]:
            for needed in operand_requests(eqn, request, space):
                if needed in own or needed.var not in stored:
                    ask(needed, program.position[needed.var])
                else:
                    loaded[needed] = None
    computed = tuple(r for position in sorted(by_position) for r in by_position[position])
    return Demand(computed, tuple(loaded))


def operand_requests(eqn: JaxprEqn, request: Request, space: Space) -> Iterator[Request]:
    """Yield what ``request``, a result of ``eqn``, needs of the operands; literals need nothing."""
    for atom, index, conditions in operand_indices(eqn, request, space):
        if isinstance(atom, Var):
            yield Request(atom, index, conditions)


def operand_indices(
    eqn: JaxprEqn, request: Request, space: Space
) -> Iterator[tuple[Atom, tuple[Affine, ...], Conditions]]:
    """Yield each operand with the index and the conditions under which ``request`` reads it."""
    match eqn.primitive.kind:
        case Kind.ELEMENTWISE:
            for atom in eqn.invars:
                yield atom, request.index if atom.aval.shape else (), request.conditions
        case Kind.VIEW:
            yield eqn.invars[0], viewed(eqn, request, space), request.conditions
        case Kind.PIECEWISE:
            for part, conditions in live_parts(eqn, request, space):
                yield eqn.invars[part.operand], part.index, (*request.conditions, *conditions)
        case Kind.REDUCTION:
            yield eqn.invars[0], reduced_index(eqn, request, space), ()
        case _:
            assert eqn.primitive.kind is Kind.INDEX, eqn.primitive


def viewed(eqn: JaxprEqn, request: Request, space: Space) -> tuple[Affine, ...]:
    """Return the index of a view's operand."""
    rule = eqn.primitive.view
    assert rule is not None
    try:
        return rule(request.index, eqn.invars[0].aval, eqn.params, space.extents)
    except NotAffine:
        raise Blocked(eqn) from None


def live_parts(eqn: JaxprEqn, request: Request, space: Space) -> list[tuple[Part, Conditions]]:
    """Return the parts of a piecewise equation that can hold, without conditions that always do.

    The last of them is taken without a test; its conditions say where its operand may be read.
    """
    rule = eqn.primitive.parts
    assert rule is not None
    avals: list[ShapedArray] = [atom.aval for atom in eqn.invars]
    live: list[tuple[Part, Conditions]] = []
    for part in rule(request.index, avals, eqn.params):
        open_conditions = []
        possible = True
        for expression, low, high in part.conditions:
            least, most = expression.bounds(space.extents)
            possible &= most >= low and least < high
            if least < low or most >= high:
                open_conditions.append((expression, low, high))
        if possible and open_conditions:
            live.append((part, tuple(open_conditions)))
        elif possible:
            shape = avals[part.operand].shape
            live.append((part, tuple(_within(part.index, shape, space.extents))))
            break
    return live


def _within(
    index: tuple[Affine, ...], shape: tuple[int, ...], extents: tuple[int, ...]
) -> Iterator[tuple[Affine, int, int]]:
    """Yield the conditions that keep ``index`` inside an array, without those that always hold."""
    for expression, extent in zip(index, shape, strict=True):
        least, most = expression.bounds(extents)
        if least < 0 or most >= extent:
            yield expression, 0, extent


def reduced_index(eqn: JaxprEqn, request: Request, space: Space) -> tuple[Affine, ...]:
    """Return the index of a reduction's operand: the result's, and the columns in between."""
    axes = eqn.params["axes"]
    kept, columns = iter(request.index), iter(space.columns)
    index = []
    for axis, extent in enumerate(eqn.invars[0].aval.shape):
        if axis not in axes:
            index.append(next(kept))
        else:
            index.append(next(columns) if extent != 1 else Affine())
    return tuple(index)

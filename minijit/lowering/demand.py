"""Which elements of its operands an element of a result needs, as indices and conditions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from minijit.graph.aval import ShapedArray
from minijit.graph.index import Affine, NotAffine, SplitDimension
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var
from minijit.graph.primitive import Kind, Part

__all__ = [
    "Blocked",
    "Conditions",
    "Demand",
    "Program",
    "Request",
    "Space",
    "Steps",
    "live_parts",
    "operand_indices",
    "operand_requests",
]

Conditions = tuple[tuple[Affine, int, int], ...]
"""``low <= expression < high`` for all of them: where a guarded element exists."""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One value at one index: ``index`` has an expression for each of its axes."""

    var: Var
    index: tuple[Affine, ...]
    conditions: Conditions = ()


class Steps:
    """The loops of a kernel, numbered as they are met, and along what arrays are read as a whole.

    Attributes:
        lengths: Number of steps of each, of terms of a sum of products, or of places to gather
            from; 1 where it is not known.
        wholes: Which of them are no loops: what is read along them has to be in memory.
    """

    def __init__(self) -> None:
        """Know no loop yet."""
        self.lengths: list[int] = []
        self.wholes: set[int] = set()
        self._numbers: dict[tuple[Var, tuple[Affine, ...]], int] = {}

    def number(self, eqn: JaxprEqn, index: tuple[Affine, ...], *lengths: int) -> int:
        """Return the number of the loop that ``eqn`` is at ``index`` of what it carries.

        With several lengths it is the first of as many.
        """
        key = (eqn.outvars[0], index)
        if key not in self._numbers:
            self._numbers[key] = len(self.lengths)
            self.lengths.extend(lengths)
        return self._numbers[key]

    def whole(self, eqn: JaxprEqn, index: tuple[Affine, ...], *lengths: int) -> int:
        """Return the same for an equation that reads operands along as many places.

        It is a product, which sums so many terms, or a gather from axes of these lengths.
        """
        number = self.number(eqn, index, *lengths)
        self.wholes.update(range(number, number + len(lengths)))
        return number


@dataclasses.dataclass(frozen=True, slots=True)
class Space:
    """An iteration space.

    Attributes:
        extents: Of all its dimensions.
        columns: The index along each reduced axis whose extent is not one, in order of the axes.
        steps: The loops inside, whose steps are further dimensions of index expressions.
    """

    extents: tuple[int, ...]
    columns: tuple[Affine, ...] = ()
    steps: Steps = dataclasses.field(default_factory=Steps, compare=False)

    @property
    def spans(self) -> tuple[int, ...]:
        """Extents of all dimensions that index expressions may have."""
        return (*self.extents, *self.steps.lengths)

    def split(self, dim: int, inner: int) -> tuple[Space, dict[int, Affine]]:
        """Return the space with ``dim`` split, and its old dimensions in terms of the new."""
        extents = (*self.extents[:dim], self.extents[dim] // inner, inner, *self.extents[dim + 1 :])
        replaced = {d: Affine(0, ((d + (d > dim), 1),)) for d in range(len(self.extents))}
        replaced[dim] = Affine(0, ((dim, inner), (dim + 1, 1)))
        return Space(extents, tuple(c.substituted(replaced) for c in self.columns)), replaced


class Blocked(Exception):
    """No kernel can hold the equation ``eqn``: the host or the array library has to run it."""

    def __init__(self, eqn: JaxprEqn, why: str = "its index is not affine") -> None:
        """Remember the equation, and why."""
        super().__init__(eqn, why)
        self.eqn = eqn
        self.why = why


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
        return rule(request.index, eqn.invars[0].aval, eqn.params, space.spans)
    except NotAffine:
        raise Blocked(eqn) from None
    except SplitDimension as split:
        if split.dim >= len(space.extents):
            raise Blocked(eqn, "it would cut the steps of a loop in two") from None
        raise


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
            least, most = expression.bounds(space.spans)
            possible &= most >= low and least < high
            if least < low or most >= high:
                open_conditions.append((expression, low, high))
        if possible and open_conditions:
            live.append((part, tuple(open_conditions)))
        elif possible:
            shape = avals[part.operand].shape
            live.append((part, tuple(_within(part.index, shape, space.spans))))
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

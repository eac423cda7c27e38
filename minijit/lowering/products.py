"""Products inside loops: which rows and matrices they multiply, and what one element needs."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Sequence

from minijit.graph.aval import ShapedArray
from minijit.graph.index import Affine
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var
from minijit.graph.loop import LoopParts
from minijit.graph.primitive import Kind
from minijit.lowering.demand import Blocked, Request, Space

__all__ = [
    "LoopProduct",
    "Product",
    "ProductForm",
    "loop_products",
    "product_at",
    "read_whole",
    "seen_through",
]

_Index = tuple[Affine, ...]


class ProductForm(enum.Enum):
    """How a kernel computes an element of a product."""

    SINGLE = "one term"
    REDUCED = "the terms are the cells of the row"
    WHOLE = "every cell reads its row as a whole"


@dataclasses.dataclass(frozen=True, slots=True)
class Product:
    """An element of a product, or with ``WHOLE`` those of a row.

    Attributes:
        form: How it is computed.
        factors: Both operands with the index that each is read at; with ``WHOLE`` the row comes
            first, then the matrix.
        terms: How many terms the sum has.
        dim: The dimension of index expressions that counts the terms; -1 unless ``WHOLE``.
        held: Whether the row is what the cells of the loop hold, each one term; otherwise it is
            read from memory like the matrix.
    """

    form: ProductForm
    factors: tuple[tuple[Atom, _Index], tuple[Atom, _Index]]
    terms: int
    dim: int = -1
    held: bool = False

    @property
    def requests(self) -> Iterator[Request]:
        """What it needs."""
        for atom, index in self.factors:
            if isinstance(atom, Var):
                yield Request(atom, index)


def product_at(eqn: JaxprEqn, request: Request, space: Space) -> Product:
    """Return how a kernel over ``space`` computes ``request``, a result of a contraction.

    Raises:
        Blocked: it does not multiply a row with a matrix that all rows share.
    """
    contraction = eqn.primitive.contraction
    assert contraction is not None
    if request.var.aval.dtype.kind != "f":
        raise Blocked(
            eqn, f"{eqn.primitive.name} of {request.var.aval.dtype} is run by the array library"
        )
    if request.conditions:
        raise Blocked(eqn, "only some of the elements of a product are needed")
    avals = [atom.aval for atom in eqn.invars]
    terms = contraction.terms(avals)
    left, right = eqn.invars

    def factors(term: Affine) -> tuple[tuple[Atom, _Index], tuple[Atom, _Index]]:
        first, second = contraction.factors(request.index, avals, term)
        return (left, first), (right, second)

    if terms == 1:
        return Product(ProductForm.SINGLE, factors(Affine()), terms)
    columns = {dim for column in space.columns for dim in column.dims}
    cells = [column.bounds(space.spans)[1] + 1 for column in space.columns]
    if not columns:
        raise Blocked(eqn, f"{eqn.primitive.name} does not run along rows")
    if not columns.intersection(d for at in request.index for d in at.dims):
        if cells != [terms]:
            raise Blocked(eqn, f"it sums {terms} products of a row, which has {cells} values")
        return Product(ProductForm.REDUCED, factors(space.columns[0]), terms)
    dim = len(space.extents) + space.steps.whole(eqn, request.index, terms)
    pair = factors(Affine.dim(dim, terms))
    along = [bool(columns & _dims(index)) for _, index in pair]
    row = along.index(False) if False in along else 0
    matrix = pair[1 - row]
    if all(along) or not _dims(matrix[1]) <= {*columns, dim}:
        raise Blocked(eqn, f"the matrix of a {eqn.primitive.name} differs from row to row")
    held = cells == [terms]
    own = factors(space.columns[0])[row] if held else pair[row]
    return Product(ProductForm.WHOLE, (own, matrix), terms, dim, held)


def _dims(index: _Index) -> set[int]:
    return {dim for at in index for dim in at.dims}


@dataclasses.dataclass(frozen=True, slots=True)
class LoopProduct:
    """A product in the body of a loop or a branch, seen as a whole.

    Attributes:
        eqn: The equation.
        row: Which of its operands changes from step to step; None if none does: then a branch
            multiplies what it is given.
        computed: Whether steps compute or carry that operand; otherwise it is read from memory.
        looped: Whether it is in a loop.
    """

    eqn: JaxprEqn
    row: int | None
    computed: bool
    looped: bool

    @property
    def matrix(self) -> ShapedArray:
        """The type of the operand that stays the same."""
        return self.eqn.invars[0 if self.row == 1 else 1].aval


class _Change(enum.IntEnum):
    """How a value in a body comes about."""

    NUMBER = 0  # one number, repeated: in no memory
    FIXED = 1  # the same at every step
    TAKEN = 2  # a view of an array that the loop takes apart
    COMPUTED = 3


def loop_products(eqn: JaxprEqn) -> list[LoopProduct]:
    """Return the products that a loop or a branch does, in loops inside it too.

    Raises:
        Blocked: both factors of a product change, or one is a number repeated.
    """
    looped = eqn.primitive.kind is Kind.LOOP
    found: list[LoopProduct] = []
    for body, inputs in _bodies(eqn):
        found += _in_body(eqn, body, [change for _, change in inputs], looped)
    return found


def _bodies(eqn: JaxprEqn) -> Iterator[tuple[Jaxpr, list[tuple[Atom, _Change]]]]:
    """Yield the bodies of a loop or a branch with what each of their inputs is."""
    if eqn.primitive.kind is Kind.BRANCH:
        for branch in eqn.params["branches"]:
            yield branch, [(atom, _Change.FIXED) for atom in eqn.invars[1:]]
        return
    parts = LoopParts.of(eqn)
    carried = [(atom, _Change.COMPUTED) for atom in parts.inits]
    if parts.condition is not None:
        yield parts.condition, [(atom, _Change.FIXED) for atom in parts.asked] + carried
    fixed = [(atom, _Change.FIXED) for atom in parts.fixed]
    yield parts.body, fixed + carried + [(atom, _Change.TAKEN) for atom in parts.xs]


def _in_body(
    eqn: JaxprEqn, body: Jaxpr, inputs: Sequence[_Change], looped: bool
) -> Iterator[LoopProduct]:
    """Yield the products of a body; ``eqn`` is blocked if both factors of one change."""
    known: dict[Var, _Change] = dict(zip(body.invars, inputs, strict=True))

    def change(atom: Atom) -> _Change:
        return _Change.NUMBER if isinstance(atom, Literal) else known.get(atom, _Change.FIXED)

    for inner in body.eqns:
        changes = [change(atom) for atom in inner.invars]
        most = max(changes, default=_Change.FIXED)
        if inner.primitive.kind is not Kind.VIEW:
            most = max(most, _Change.FIXED) if most is not _Change.TAKEN else _Change.COMPUTED
        known.update((var, most) for var in inner.outvars)
        if inner.primitive.kind in (Kind.LOOP, Kind.BRANCH):
            deeper = looped or inner.primitive.kind is Kind.LOOP
            for inside, bound in _bodies(inner):
                own = [
                    change(atom) if own is _Change.FIXED else max(own, change(atom))
                    for atom, own in bound
                ]
                yield from _in_body(eqn, inside, own, deeper)
        elif inner.primitive.contraction is not None:
            if _Change.NUMBER in changes:
                raise Blocked(eqn, f"a factor of a {inner.primitive.name} is one number, repeated")
            if _Change.FIXED not in changes:
                raise Blocked(eqn, f"both factors of a {inner.primitive.name} change at each step")
            changing = max(changes)
            row = None if changing is _Change.FIXED else changes.index(changing)
            yield LoopProduct(inner, row, changing is _Change.COMPUTED, looped)


def read_whole(eqn: JaxprEqn) -> set[Var]:
    """Return the operands of which an element of a product reads many, or one that is computed.

    They have to be in memory: no cell can compute them as it goes.

    Args:
        eqn: A loop or a branch, whose bodies have such products or gathers, or a gather itself.
    """
    if eqn.primitive.kind is Kind.GATHER:
        return {atom for atom in eqn.invars[:1] if isinstance(atom, Var)}
    found: set[Var] = set()
    for body, inputs in _bodies(eqn):
        sources = {var: inner for inner in body.eqns for var in inner.outvars}
        wanted: list[Atom] = []
        for inner in body.eqns:
            if inner.primitive.contraction is not None:
                wanted += inner.invars
            elif inner.primitive.kind is Kind.GATHER:
                wanted.append(inner.invars[0])
            elif inner.primitive.kind in (Kind.LOOP, Kind.BRANCH):
                wanted += read_whole(inner)
        own = {seen_through(atom, sources.get) for atom in wanted}
        for var, (atom, change) in zip(body.invars, inputs, strict=True):
            if var in own and change is not _Change.COMPUTED and isinstance(atom, Var):
                found.add(atom)
    return found


def seen_through(atom: Atom, definition: Callable[[Var], JaxprEqn | None]) -> Atom:
    """Return what ``atom`` is a view of, given what each variable is defined by."""
    while isinstance(atom, Var):
        eqn = definition(atom)
        if eqn is None or eqn.primitive.kind is not Kind.VIEW:
            break
        atom = eqn.invars[0]
    return atom

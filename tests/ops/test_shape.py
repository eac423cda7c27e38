"""The index rules of views and of joined arrays, element by element against NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from minijit.graph.aval import ShapedArray
from minijit.graph.evaluate import evaluate
from minijit.graph.index import Affine, NotAffine, SplitDimension
from minijit.graph.jaxpr import Jaxpr, JaxprEqn
from minijit.graph.primitive import Kind
from minijit.graph.trace import trace_function
from minijit.ops import join, shape
from minijit.ops.diagonal import diagonal

INT64 = np.dtype(np.int64)


def trace(function: Any, *shapes: tuple[int, ...]) -> Jaxpr:
    avals = [ShapedArray(s, INT64) for s in shapes]
    names = [f"x{i}" for i in range(len(shapes))]
    return trace_function(lambda ts: [function(*ts)], avals, names, "f").jaxpr


def value(index: Sequence[Affine], point: Sequence[int]) -> tuple[int, ...]:
    return tuple(a.offset + sum(s * point[d] for d, s in a.terms) for a in index)


class Space:
    """An iteration space whose dimensions can be split, as the lowering does."""

    def __init__(self, extents: Sequence[int]) -> None:
        self.extents = list(extents)
        self.axes = [Affine.dim(d, n) for d, n in enumerate(extents)]

    def split(self, dim: int, inner: int) -> None:
        outer = self.extents[dim] // inner
        assert outer * inner == self.extents[dim]
        assert 1 < inner < self.extents[dim]
        self.extents[dim] = outer
        self.extents.append(inner)
        replaced = {d: Affine(0, ((d, 1),)) for d in range(len(self.extents))}
        replaced[dim] = Affine(0, ((dim, inner), (len(self.extents) - 1, 1)))
        self.axes = [axis.substituted(replaced) for axis in self.axes]

    def points(self) -> Iterator[tuple[int, ...]]:
        return itertools.product(*map(range, self.extents))


def operand_index(eqn: JaxprEqn, index: tuple[Affine, ...], extents: Sequence[int]) -> Any:
    view = eqn.primitive.view
    assert view is not None
    return view(index, eqn.invars[0].aval, eqn.params, extents)


def check_views(jaxpr: Jaxpr) -> None:
    """Follow the indices of the result back to the input, and compare with the values."""
    extents = jaxpr.outvars[0].aval.shape
    source = np.arange(jaxpr.invars[0].aval.size).reshape(jaxpr.invars[0].aval.shape)
    (wanted,) = evaluate(jaxpr, [source])
    space = Space(extents)
    while True:
        index = tuple(space.axes)
        try:
            for eqn in reversed(jaxpr.eqns):
                assert eqn.primitive.kind is Kind.VIEW
                index = operand_index(eqn, index, space.extents)
            break
        except SplitDimension as split:
            space.split(split.dim, split.inner)
    for point in space.points():
        assert source[value(index, point)] == wanted[value(space.axes, point)]


VIEWS = {
    "transpose": (lambda x: shape.transpose(x, (2, 0, 1)), (2, 3, 4)),
    "squeeze": (lambda x: shape.squeeze(x, (0, 2)), (1, 3, 1, 4)),
    "expand_dims": (lambda x: shape.expand_dims(x, (0, 2)), (3, 4)),
    "rev": (lambda x: shape.rev(x, (0, 2)), (2, 1, 4)),
    "rev-unit": (lambda x: shape.rev(x, (1,)), (2, 1, 4)),
    "slice": (lambda x: shape.static_slice(x, [range(1, 5, 2), range(4, 0, -1)]), (6, 5)),
    "slice-negative": (lambda x: shape.static_slice(x, [range(5, -1, -2)]), (6,)),
    "diagonal": (lambda x: diagonal(x, 1, 0, 2), (3, 2, 5)),
    "diagonal-below": (lambda x: diagonal(x, -2, 1, 0), (5, 4)),
    "split-axis": (lambda x: shape.reshape(x, (2, 3, 4)), (24,)),
    "merge-axes": (lambda x: shape.reshape(x, (24,)), (2, 3, 4)),
    "unit-axes": (lambda x: shape.reshape(x, (1, 3, 1, 4, 1)), (3, 1, 4)),
    "one-element": (lambda x: shape.reshape(x, (1, 1)), ()),
    "pass-through": (lambda x: shape.reshape(x, (5, 6, 7)), (5, 2, 3, 7)),
    "regroup": (lambda x: shape.reshape(x, (4, 3, 2)), (2, 6, 2)),
    "merge-reversed": (
        lambda x: shape.reshape(shape.rev(shape.reshape(x, (12,)), 0), (6, 2)),
        (3, 4),
    ),
    "merge-after-rev": (lambda x: shape.rev(shape.reshape(x, (12,)), 0), (3, 4)),
    "merge-strided": (
        lambda x: shape.static_slice(shape.reshape(x, (24,)), [range(0, 24, 4)]),
        (2, 3, 4),
    ),
    "flatten-transposed": (lambda x: shape.reshape(shape.transpose(x), (12,)), (3, 4)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view_reads_the_elements_that_numpy_reads(name: str) -> None:
    function, operand = VIEWS[name]
    check_views(trace(function, operand))


def factorizations(size: int, generator: np.random.Generator) -> tuple[int, ...]:
    extents = []
    while size > 1:
        divisors = [d for d in range(2, size + 1) if size % d == 0]
        extents.append(int(generator.choice(divisors)))
        size //= extents[-1]
        if generator.random() < 0.2:
            extents.append(1)
    return tuple(extents)


@pytest.mark.parametrize("seed", range(60))
def test_reshape_between_random_shapes(seed: int) -> None:
    generator = np.random.default_rng(seed)
    size = int(generator.choice([1, 7, 12, 24, 36, 60]))
    old, new = factorizations(size, generator), factorizations(size, generator)
    jaxpr = trace(lambda x: shape.reshape(x, new), old)
    try:
        check_views(jaxpr)
    except NotAffine:
        # Allowed only where the extents of the axes to merge do not divide those to split.
        assert not _divides(old, new)


def _divides(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """Whether the boundaries of one shape refine those of the other, so that a split must do."""
    ends_old, ends_new = (set(np.cumprod((1, *s[::-1])).tolist()) for s in (old, new))
    return ends_old <= ends_new or ends_new <= ends_old


def check_parts(jaxpr: Jaxpr, *sources: Any) -> None:
    """Find each element by the first part whose conditions hold, and no part out of bounds."""
    (eqn,) = jaxpr.eqns
    assert eqn.primitive.parts is not None
    (wanted,) = evaluate(jaxpr, sources)
    operands = [
        v.value if hasattr(v, "value") else s
        for v, s in zip(eqn.invars, [*sources, 0], strict=False)
    ]
    extents = wanted.shape
    index = tuple(Affine.dim(d, n) for d, n in enumerate(extents))
    parts = eqn.primitive.parts(index, [v.aval for v in eqn.invars], eqn.params)
    for point in itertools.product(*map(range, extents)):
        part = next(p for p in parts if _holds(p.conditions, point))
        at = value(part.index, point)
        assert all(0 <= i < n for i, n in zip(at, np.shape(operands[part.operand]), strict=True))
        assert np.asarray(operands[part.operand])[at] == wanted[point]
        # A condition must not depend on the ones before it: loads are guarded one by one.
        others = [p for p in parts if p is not part and p.conditions]
        assert not any(_holds(p.conditions, point) for p in others)


def _holds(conditions: Any, point: Sequence[int]) -> bool:
    return all(low <= value([a], point)[0] < high for a, low, high in conditions)


@pytest.mark.parametrize("axis", [0, 1])
def test_concatenate_finds_each_element(axis: int) -> None:
    shapes = [(2, 3), (1, 3), (4, 3)] if axis == 0 else [(3, 1), (3, 4), (3, 2)]
    sources = [np.arange(100 * i, 100 * i + a * b).reshape(a, b) for i, (a, b) in enumerate(shapes)]
    check_parts(trace(lambda *xs: join.concatenate(xs, axis), *shapes), *sources)


@pytest.mark.parametrize(("low", "high"), [((1, 0), (2, 3)), ((0, 2), (0, 0)), ((1, 1), (1, 1))])
def test_pad_finds_each_element(low: tuple[int, ...], high: tuple[int, ...]) -> None:
    source = np.arange(1, 7).reshape(2, 3)
    check_parts(trace(lambda x: join.pad(x, -1, low, high), (2, 3)), source)


def test_zero_size_views_have_an_index() -> None:
    jaxpr = trace(lambda x: shape.reshape(x, (3, 0)), (0, 5))
    index = operand_index(jaxpr.eqns[0], (Affine(), Affine()), ())
    assert index == (Affine(), Affine())


def test_nothing_is_recorded_for_views_that_change_nothing() -> None:
    def unchanged(x: Any) -> Any:
        x = shape.transpose(shape.reshape(x, (2, 3)), (0, 1))
        return shape.static_slice(shape.rev(shape.squeeze(x, ()), ()), [range(2), range(3)])

    assert not trace(unchanged, (2, 3)).eqns

"""Affine expressions against arithmetic on every point of small spaces."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from minijit.graph.index import Affine, NotAffine, SplitDimension


def value(affine: Affine, point: Sequence[int]) -> int:
    return affine.offset + sum(stride * point[dim] for dim, stride in affine.terms)


def points(extents: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(range, extents))


def random_affine(rng: np.random.Generator, dims: int) -> Affine:
    strides = rng.integers(-6, 7, dims).tolist()
    parts = [(stride, Affine(0, ((dim, 1),))) for dim, stride in enumerate(strides)]
    return Affine.total(parts, int(rng.integers(-9, 10)))


@pytest.mark.parametrize("seed", range(40))
def test_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    extents = rng.integers(1, 5, 3).tolist()
    a, b = random_affine(rng, 3), random_affine(rng, 3)
    scale, offset = rng.integers(-3, 4, 2).tolist()
    replaced = {dim: random_affine(rng, 3) for dim in range(3)}
    values = []
    for point in points(extents):
        x, y = value(a, point), value(b, point)
        values.append(x)
        assert value(a.plus(b), point) == x + y
        assert value(a.scaled(scale, offset), point) == scale * x + offset
        there = [value(replaced[dim], point) for dim in range(3)]
        assert value(a.substituted(replaced), point) == value(a, there)
        assert eval(str(a), {f"i{d}": i for d, i in enumerate(point)}) == x
    assert a.bounds(extents) == (min(values), max(values))


def test_normal_form() -> None:
    cancelled = Affine(3, ((0, 2),)).plus(Affine(0, ((0, -2),)))
    assert cancelled == Affine(3)
    assert cancelled.is_constant
    assert Affine.dim(1, 1) == Affine()  # the only index along an axis of one is zero
    assert Affine.dim(1, 2).dims == (1,)
    assert Affine(0, ((0, 2), (3, -1))).stride(3) == -1
    assert Affine(0, ((0, 2),)).stride(1) == 0


@pytest.mark.parametrize(
    ("affine", "text"),
    [
        (Affine(), "0"),
        (Affine(-2), "-2"),
        (Affine(0, ((0, 1), (2, 4))), "i0 + 4*i2"),
        (Affine(5, ((1, -1),)), "-1*i1 + 5"),
        (Affine(-3, ((0, 2), (1, -4))), "2*i0 - 4*i1 - 3"),
    ],
)
def test_text(affine: Affine, text: str) -> None:
    assert str(affine) == text


def split(extents: list[int], affine: Affine, dim: int, inner: int) -> tuple[list[int], Affine]:
    """Write ``dim`` as ``inner * outer + rest``, the rest in a new last dimension."""
    assert extents[dim] % inner == 0
    assert 1 < inner < extents[dim]
    replaced = {d: Affine(0, ((d, 1),)) for d in range(len(extents))}
    replaced[dim] = Affine(0, ((dim, inner), (len(extents), 1)))
    extents = [*extents, inner]
    extents[dim] //= inner
    return extents, affine.substituted(replaced)


def test_division_of_every_small_expression() -> None:
    """An answer is right; a proposed split leads to one or to a clear no; no other error."""
    outcomes = {"exact": 0, "split": 0, "none": 0}
    strides = (-4, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12)
    offsets, divisors = (0, 1, 5, 11), (2, 3, 4, 6)
    for s0, s1, offset, divisor in itertools.product(strides, strides, offsets, divisors):
        extents = [6, 4]
        affine = Affine.total([(s0, Affine(0, ((0, 1),))), (s1, Affine(0, ((1, 1),)))], offset)
        outcome = "exact"
        while True:
            try:
                quotient, remainder = affine.divided(divisor, extents)
            except SplitDimension as wanted:
                outcome = "split"
                extents, affine = split(extents, affine, wanted.dim, wanted.inner)
                continue
            except NotAffine:
                outcome = "none"
                break
            for point in points(extents):
                wanted_values = divmod(value(affine, point), divisor)
                assert (value(quotient, point), value(remainder, point)) == wanted_values
            break
        outcomes[outcome] += 1
    assert min(outcomes.values()) > 50


def test_division_that_has_an_affine_form_is_found() -> None:
    flat = Affine(0, ((0, 12), (1, 4), (2, 1)))
    assert flat.divided(4, (2, 3, 4)) == (Affine(0, ((0, 3), (1, 1))), Affine(0, ((2, 1),)))
    with pytest.raises(SplitDimension) as caught:
        Affine(0, ((0, 1),)).divided(4, (24,))
    assert (caught.value.dim, caught.value.inner) == (0, 4)
    with pytest.raises(NotAffine):
        Affine(0, ((0, 1),)).divided(5, (24,))

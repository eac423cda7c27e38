"""Affine index expressions: how an axis of an array is addressed from an iteration space."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

__all__ = ["Affine", "NotAffine", "SplitDimension"]


class NotAffine(Exception):
    """A view cannot be expressed by affine indices; its operand has to be stored first."""


class SplitDimension(Exception):
    """A view becomes affine once dimension ``dim`` is split as ``(extent / inner, inner)``."""

    def __init__(self, dim: int, inner: int) -> None:
        """Remember which dimension is to be split, and the extent of the new inner one."""
        super().__init__(dim, inner)
        self.dim = dim
        self.inner = inner


@dataclasses.dataclass(frozen=True, slots=True)
class Affine:
    """The integer ``offset + sum(stride * index[dim] for dim, stride in terms)``.

    Attributes:
        offset: The constant part.
        terms: ``(dim, stride)`` pairs sorted by dimension, no stride zero.
    """

    offset: int = 0
    terms: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def dim(dim: int, extent: int) -> Affine:
        """Return the index of dimension ``dim``; a dimension of extent one is always at zero."""
        return Affine(0, ((dim, 1),)) if extent != 1 else Affine()

    @staticmethod
    def total(parts: Sequence[tuple[int, Affine]], offset: int = 0) -> Affine:
        """Return ``offset + sum(scale * affine for scale, affine in parts)``."""
        strides: dict[int, int] = {}
        for scale, affine in parts:
            offset += scale * affine.offset
            for dim, stride in affine.terms:
                strides[dim] = strides.get(dim, 0) + scale * stride
        return Affine(offset, tuple(sorted((d, s) for d, s in strides.items() if s)))

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions that the expression depends on."""
        return tuple(dim for dim, _ in self.terms)

    @property
    def is_constant(self) -> bool:
        """Whether the expression has the same value everywhere."""
        return not self.terms

    def stride(self, dim: int) -> int:
        """Return how much the value grows along ``dim``."""
        return dict(self.terms).get(dim, 0)

    def scaled(self, scale: int, offset: int = 0) -> Affine:
        """Return ``scale * self + offset``."""
        return Affine.total(((scale, self),), offset)

    def plus(self, other: Affine) -> Affine:
        """Return the sum of two expressions."""
        return Affine.total(((1, self), (1, other)))

    def bounds(self, extents: Sequence[int]) -> tuple[int, int]:
        """Return the smallest and largest value over a space of the given extents (none zero)."""
        low = high = self.offset
        for dim, stride in self.terms:
            reach = stride * (extents[dim] - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high

    def substituted(self, replacements: Mapping[int, Affine]) -> Affine:
        """Return the expression with each dimension replaced; every used one must be given."""
        return Affine.total([(s, replacements[d]) for d, s in self.terms], self.offset)

    def divided(self, divisor: int, extents: Sequence[int]) -> tuple[Affine, Affine]:
        """Return affine ``(quotient, remainder)`` of division by ``divisor``.

        Terms whose stride is a multiple of the divisor go to the quotient; the rest must stay
        within ``[0, divisor)``.

        Raises:
            SplitDimension: when splitting one dimension makes the division exact.
            NotAffine: when no affine form exists.
        """
        whole = [(d, s) for d, s in self.terms if s % divisor == 0]
        rest = [(d, s) for d, s in self.terms if s % divisor]
        quotient = Affine(self.offset // divisor, tuple((d, s // divisor) for d, s in whole))
        remainder = Affine(self.offset % divisor, tuple(rest))
        low, high = remainder.bounds(extents)
        if low >= 0 and high < divisor:
            return quotient, remainder
        for dim, stride in rest:
            if divisor % stride == 0:
                inner = divisor // abs(stride)
                if 1 < inner < extents[dim] and extents[dim] % inner == 0:
                    raise SplitDimension(dim, inner)
        raise NotAffine

    def __str__(self) -> str:
        """Return readable arithmetic over ``i0, i1, ...``."""
        terms = [f"i{d}" if s == 1 else f"{s}*i{d}" for d, s in self.terms]
        if self.offset or not terms:
            terms.append(str(self.offset))
        return " + ".join(terms).replace("+ -", "- ")

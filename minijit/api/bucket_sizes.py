"""Which sizes there are: the one that a length is padded to, and those that fit seen lengths."""

from __future__ import annotations

import dataclasses
import operator
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import numpy as np

__all__ = ["LengthReport", "Sizes", "SizesLike", "suggest_sizes"]

SizesLike: TypeAlias = 'int | Iterable[int] | Literal["pow2"]'


@dataclasses.dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of buckets.

    Attributes:
        values: In increasing order; empty for all powers of two.
    """

    values: tuple[int, ...]

    @classmethod
    def of(cls, sizes: SizesLike) -> Sizes:
        """Return what a user wrote, checked.

        Raises:
            TypeError: a size is no integer.
            ValueError: there is none, one is not positive, or a word other than ``"pow2"``.
        """
        if isinstance(sizes, str):
            if sizes != "pow2":
                raise ValueError(f"sizes={sizes!r}: give integers, or 'pow2' for powers of two")
            return cls(())
        values = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        if any(isinstance(value, bool) for value in values):
            raise TypeError(f"sizes are integers, not {values}")
        values = tuple(sorted(set(map(operator.index, values))))
        if not values or values[0] < 1:
            raise ValueError(f"sizes={values}: there must be one, and all must be positive")
        return cls(values)

    def fit(self, length: int) -> int | None:
        """Return the smallest size that holds ``length``, or None where it is too long."""
        if not self.values:
            return 1 << max(length - 1, 0).bit_length()
        place = bisect_left(self.values, length)
        return self.values[place] if place < len(self.values) else None

    def neighbour(self, size: int) -> int:
        """Return another size, the next one if there is one."""
        if len(self.values) < 2:
            return 2 * size
        place = self.values.index(size) + 1
        return self.values[place] if place < len(self.values) else self.values[place - 2]

    def __str__(self) -> str:
        """Return what a user would write."""
        return str(self.values) if self.values else "powers of two"


@dataclasses.dataclass(frozen=True, slots=True)
class LengthReport:
    """What sizes make of lengths: how often each one is taken, and how much of it is padding.

    Attributes:
        lengths: How often each length occurs.
        sizes: The sizes.
    """

    lengths: Mapping[int, int]
    sizes: Sizes

    @classmethod
    def of(cls, lengths: Iterable[int], sizes: SizesLike) -> LengthReport:
        """Return the report of ``lengths`` (or of a mapping from length to count).

        Raises:
            TypeError: a length or a size is no integer.
            ValueError: a length is negative, or there are no sizes.
        """
        return cls(_counted(lengths), Sizes.of(sizes))

    @property
    def calls(self) -> int:
        """How many lengths there are, those too long included."""
        return sum(self.lengths.values())

    @property
    def buckets(self) -> dict[int, int]:
        """How many lengths go to each size that is taken, in increasing order."""
        return {size: sum(lengths.values()) for size, lengths in sorted(self._grouped().items())}

    @property
    def too_long(self) -> int:
        """How many lengths no size holds."""
        return sum(n for length, n in self.lengths.items() if self.sizes.fit(length) is None)

    @property
    def padding(self) -> float:
        """The share of the padded elements that are padding, between 0 and 1."""
        return _share(self._grouped())

    def suggest(self, count: int, *, multiple: int = 1) -> tuple[int, ...]:
        """Return the sizes that suit these lengths best; see :func:`suggest_sizes`."""
        return suggest_sizes(self.lengths, count, multiple=multiple)

    def _grouped(self) -> dict[int, Counter[int]]:
        grouped: dict[int, Counter[int]] = {}
        for length, calls in self.lengths.items():
            size = self.sizes.fit(length)
            if size is not None:
                grouped.setdefault(size, Counter())[length] += calls
        return grouped

    def __str__(self) -> str:
        """Return a table with a line for each size."""
        lines = [f"{self.calls} lengths, {self.padding:.0%} padding"]
        for size, lengths in sorted(self._grouped().items()):
            calls = sum(lengths.values())
            lines.append(f"{size:8d}: {calls} lengths, {_share({size: lengths}):.0%} padding")
        if self.too_long:
            lines.append(f"too long: {self.too_long} lengths")
        return "\n".join(lines)


def _share(grouped: Mapping[int, Mapping[int, int]]) -> float:
    kept = sum(n * calls for lengths in grouped.values() for n, calls in lengths.items())
    whole = sum(size * sum(lengths.values()) for size, lengths in grouped.items())
    return 1 - kept / whole if whole else 0.0


def suggest_sizes(
    lengths: Iterable[int] | Mapping[int, int], count: int, *, multiple: int = 1
) -> tuple[int, ...]:
    """Return the sizes for which padded work, the sum of all padded lengths, is least.

    It is the optimal cut of the sorted lengths into ``count`` runs, each padded to its longest, by
    dynamic programming over the ends of the runs: W. D. Fisher, "On Grouping for Maximum
    Homogeneity", Journal of the American Statistical Association 53 (1958), with padded length in
    the place of variance. It takes time and memory of ``count`` times the square, and the number,
    of distinct lengths.

    Args:
        lengths: Those to expect, or a mapping from length to how often it occurs.
        count: How many sizes at most: each is a program to compile.
        multiple: Sizes are multiples of it.

    Raises:
        TypeError: a length is no integer.
        ValueError: there are no lengths, one is negative, or ``count`` or ``multiple`` is not
            positive.
    """
    if count < 1 or multiple < 1:
        raise ValueError(f"count={count} and multiple={multiple} must be positive")
    rounded: Counter[int] = Counter()
    for length, calls in _counted(lengths).items():
        rounded[max(-(-length // multiple), 1) * multiple] += calls
    if not rounded:
        raise ValueError("there are no lengths to choose sizes for")
    ends = np.array(sorted(rounded))
    upto = np.cumsum([rounded[end] for end in ends.tolist()])
    work = ends * upto  # of the best cut of the lengths up to each end, here into one run
    cuts = []  # for each further run and each end, where the run before it ends
    for _ in range(min(count, len(ends)) - 1):
        cut = np.zeros(len(ends), dtype=np.intp)
        better = work.copy()
        for last in range(1, len(ends)):
            options = work[:last] + ends[last] * (upto[last] - upto[:last])
            cut[last] = np.argmin(options)
            better[last] = options[cut[last]]
        cuts.append(cut)
        work = better
    place = len(ends) - 1
    chosen = [place]
    for cut in reversed(cuts):
        place = cut[place]
        chosen.append(place)
    return tuple(ends[sorted(set(chosen))].tolist())


def _counted(lengths: Iterable[int] | Mapping[int, int]) -> Counter[int]:
    counted: Counter[int] = Counter()
    for length, calls in Counter(lengths).items():
        counted[operator.index(length)] += calls
    if min(counted, default=0) < 0:
        raise ValueError(f"the length {min(counted)} is negative")
    return counted

"""Sizes of buckets: which one holds a length, and which are best for lengths that were seen."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from minijit.api.bucket_sizes import Sizes
from minijit.bucketing import LengthReport, suggest_sizes


@pytest.mark.parametrize(
    ("sizes", "length", "size"),
    [
        ((128, 256), 0, 128),
        ((128, 256), 128, 128),
        ((128, 256), 129, 256),
        ((128, 256), 257, None),
        ([256, 128, 128], 1, 128),
        (range(64, 257, 64), 65, 128),
        (8, 3, 8),
        (np.array([2, 4]), 3, 4),
        *(("pow2", n, size) for n, size in [(0, 1), (1, 1), (2, 2), (3, 4), (4, 4), (1025, 2048)]),
    ],
)
def test_the_smallest_size_that_holds_the_length(sizes: Any, length: int, size: int | None) -> None:
    assert Sizes.of(sizes).fit(length) == size


@pytest.mark.parametrize(
    ("sizes", "error"),
    [
        ((), ValueError),
        ((0, 8), ValueError),
        (-1, ValueError),
        ("pow3", ValueError),
        ((1.5,), TypeError),
        ((True, 8), TypeError),
        (("8",), TypeError),
    ],
)
def test_sizes_that_are_none(sizes: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Sizes.of(sizes)


@pytest.mark.parametrize("sizes", [(8,), (8, 16), (8, 16, 32), "pow2"])
def test_a_neighbour_is_another_size(sizes: Any) -> None:
    bounds = Sizes.of(sizes)
    for size in bounds.values or (1, 2, 64):
        neighbour = bounds.neighbour(size)
        assert neighbour != size
        assert len(bounds.values) < 2 or neighbour in bounds.values


def padded_work(lengths: Mapping[int, int], sizes: tuple[int, ...]) -> int:
    return sum(
        min(size for size in sizes if size >= length) * calls for length, calls in lengths.items()
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_no_choice_of_sizes_needs_less_work(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = Counter(rng.geometric(0.1, size=rng.integers(1, 40)).tolist())
    suggested = suggest_sizes(lengths, count)
    assert len(suggested) == min(count, len(lengths))
    longest = max(lengths)
    choices = itertools.combinations(lengths, len(suggested))
    least = min(padded_work(lengths, choice) for choice in choices if longest in choice)
    assert padded_work(lengths, suggested) == least


def test_sizes_are_increasing_integers_for_every_form_of_lengths() -> None:
    for lengths in ([5, 1, 5, 9], {5: 2, 1: 1, 9: 1}, np.array([1, 5, 5, 9]), iter([9, 5, 5, 1])):
        sizes = suggest_sizes(lengths, 2)
        assert sizes == (5, 9)
        assert all(type(size) is int for size in sizes)


def test_more_sizes_than_lengths() -> None:
    assert suggest_sizes([3, 3, 7], 10) == (3, 7)
    assert suggest_sizes([0], 10) == (1,)


def test_sizes_that_are_multiples() -> None:
    lengths = range(1, 200)
    sizes = suggest_sizes(lengths, 4, multiple=16)
    assert all(size % 16 == 0 for size in sizes)
    choices = itertools.combinations(range(16, 209, 16), 4)
    counted = Counter(lengths)
    assert padded_work(counted, sizes) == min(
        padded_work(counted, choice) for choice in choices if choice[-1] >= 199
    )


@pytest.mark.parametrize(
    ("lengths", "options"),
    [
        ([], {"count": 1}),
        ([1], {"count": 0}),
        ([1, -1], {"count": 1}),
        ([1], {"count": 1, "multiple": 0}),
    ],
)
def test_what_cannot_be_suggested(lengths: list[int], options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"length|positive"):
        suggest_sizes(lengths, **options)
    with pytest.raises(TypeError):
        suggest_sizes([1.5], 1)  # type: ignore[list-item]


def test_a_report_says_what_sizes_make_of_lengths() -> None:
    report = LengthReport.of([10, 10, 90, 100, 300], (100, 200))
    assert (report.calls, report.too_long, report.buckets) == (5, 1, {100: 4})
    assert report.padding == pytest.approx(1 - 210 / 400)
    assert report.suggest(2) == (100, 300)
    assert str(report).splitlines() == [
        "5 lengths, 48% padding",
        "     100: 4 lengths, 48% padding",
        "too long: 1 lengths",
    ]
    assert LengthReport.of([], "pow2").padding == 0

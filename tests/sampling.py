"""How much of a product of cases is tested: a sample, or with ``MINIJIT_TEST_DEEP=1`` all of it.

Nearly all time of the tests is spent compiling kernels, so a test whose cases multiply (operation
by dtype, kernel by architecture) takes by default each value of each factor, in turn, instead of
all combinations.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TypeVar

__all__ = ["DEEP", "paired", "sampled"]

DEEP = os.environ.get("MINIJIT_TEST_DEEP") == "1"
"""Whether the long form of the tests is wanted: nightly, or before a release."""

Case = TypeVar("Case")
Other = TypeVar("Other")


def sampled(cases: Iterable[Case], step: int, first: int = 0) -> list[Case]:
    """Every case, or by default each ``step``-th of them, at least one if there is any.

    Args:
        cases: All of them.
        step: How many of them stand behind one that is taken.
        first: Where to start: tests that differ in it share the cases out among them.
    """
    every = list(cases)
    return every if DEEP or not every else every[first % min(step, len(every)) :: step]


def paired(
    cases: Iterable[Case], others: Sequence[Other], first: int = 0
) -> list[tuple[Case, Other]]:
    """Every case with every other, or by default each case with one of the others, in turn.

    Args:
        cases: All of them.
        others: What each case can be tried with.
        first: Which of the others the first case is tried with.
    """
    return [
        (case, other)
        for number, case in enumerate(cases, first)
        for other in (others if DEEP else (others[number % len(others)],))
    ]

"""How an array lies in memory."""

from __future__ import annotations

import dataclasses

__all__ = ["Layout", "contiguous_strides"]


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """How a value lies in memory.

    Attributes:
        strides: In elements, one an axis.
        by_value: Whether it is a scalar that the host passes by value; it has no address then.
    """

    strides: tuple[int, ...]
    by_value: bool = False


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of a C-ordered array."""
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))

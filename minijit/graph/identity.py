"""Equality by identity, for keys."""

from __future__ import annotations

from typing import Any

__all__ = ["Same"]


class Same:
    """Equals what wraps the same object, and keeps it alive, so that its id stays its own."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        """Stand for ``value``."""
        self.value = value

    def __eq__(self, other: object) -> bool:
        """Whether ``other`` stands for the very same object."""
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        """Return the object's id."""
        return id(self.value)

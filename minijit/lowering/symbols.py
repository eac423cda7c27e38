"""Globals of generated code, by where they are found: only a compiler imports Numba."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Hashable, Mapping
from typing import Any

__all__ = ["Symbol", "resolve", "resolve_all"]


@dataclasses.dataclass(frozen=True, slots=True)
class Symbol:
    """A name in a module of ``minijit.kernels``, or what the function of that name makes.

    Equal symbols are one object once they are resolved.

    Attributes:
        module: Name of the module, which is imported when the symbol is resolved.
        name: The name there.
        arguments: What the function is called with; symbols among them are resolved first. None
            when the symbol is what the name stands for.
    """

    module: str
    name: str
    arguments: tuple[Hashable, ...] | None = None


@functools.lru_cache(4096)
def resolve(value: Hashable) -> Any:
    """Return what a symbol stands for; everything else stands for itself."""
    if not isinstance(value, Symbol):
        return value
    found = getattr(importlib.import_module(value.module), value.name)
    return found if value.arguments is None else found(*map(resolve, value.arguments))


def resolve_all(names: Mapping[str, Hashable]) -> dict[str, Any]:
    """Return the globals of a generated module."""
    return {name: resolve(value) for name, value in names.items()}

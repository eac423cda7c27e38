"""How Python functions of scalars become functions of the CPU target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

__all__ = ["device_function", "scalar_function"]


def device_function(function: Callable[..., Any]) -> Any:
    """Return ``function`` compiled by Numba where it is called, and inlined there.

    Divisions by zero give what IEEE 754 says instead of raising.
    """
    return njit(function, forceinline=True, error_model="numpy")


def scalar_function(make: Callable[..., Callable[..., Any]], *arguments: Any) -> Any:
    """Return the device function of what ``make`` makes for ``arguments``, a dtype first."""
    return device_function(make(*arguments))

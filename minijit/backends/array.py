"""The array class that jitted functions return on the CPU: a NumPy array that is ready."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ARRAY_PLACES", "Array"]


class Array(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array in every respect, with what code written for asynchronous devices calls."""

    __slots__ = ()

    def block_until_ready(self) -> Array:
        """Return the array itself: CPU results are complete when a call returns."""
        return self


ARRAY_PLACES: dict[type, str] = {np.ndarray: "cpu", Array: "cpu"}
"""By exact class: on which device arrays of that class live. A backend adds its own."""

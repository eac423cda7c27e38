"""The arrays that jitted functions return on the CPU: NumPy arrays that know they are finished."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np

__all__ = ["ARRAY_PLACES", "Array"]


class Array(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array, with what code written for asynchronous devices calls.

    What NumPy computes from one is NumPy's own: plain arrays and scalars. An array without axes
    stands for a NumPy scalar and behaves as one: it can be hashed and rounded, and ``x += 1`` gives
    a new value instead of changing the old one.
    """

    __slots__ = ()

    def block_until_ready(self) -> Array:
        """Return the array itself: CPU results are complete when a call returns."""
        return self

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Return NumPy's results as NumPy would; an array written in place stays what it is."""
        if array is self:
            return self
        plain = array.view(np.ndarray)
        return plain[()] if return_scalar else plain

    def __hash__(self) -> int:  # type: ignore[override]  # arrays have none
        """Return the scalar's hash.

        Raises:
            TypeError: the array has axes.
        """
        if self.ndim:
            raise TypeError(f"unhashable type: {type(self).__name__!r} with axes")
        return hash(self[()])

    def __round__(self, digits: int | None = None) -> Any:
        """Return the scalar rounded as Python's ``round`` does.

        Raises:
            TypeError: the array has axes.
        """
        if self.ndim:
            raise TypeError("only an array without axes can be rounded by round(); use numpy.round")
        scalar: Any = self[()]
        return round(scalar, digits)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Pickle as a plain NumPy array, which can be read without minijit."""
        return self.view(np.ndarray).__reduce_ex__(protocol)


def _in_place(name: str) -> Callable[[Array, Any], Any]:
    change: Callable[[Any, Any], Any] = getattr(np.ndarray, name)
    compute: Callable[[Any, Any], Any] = getattr(np.ndarray, name.replace("__i", "__", 1))

    def assign(self: Array, other: Any) -> Any:
        return change(self, other) if self.ndim else compute(self, other)

    assign.__name__, assign.__doc__ = name, change.__doc__
    return assign


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Array, f"__i{_name}__", _in_place(f"__i{_name}__"))
for _name in ("and", "or", "xor", "lshift", "rshift"):
    setattr(Array, f"__i{_name}__", _in_place(f"__i{_name}__"))


ARRAY_PLACES: dict[type, str] = {np.ndarray: "cpu", Array: "cpu"}
"""By exact class: on which device arrays of that class live. A backend adds its own."""

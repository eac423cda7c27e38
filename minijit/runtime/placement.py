"""Where arguments and captured arrays lie: moved to the device, then asked for their layout."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from minijit.backends.base import Backend
from minijit.graph.aval import ShapedArray
from minijit.graph.layout import Layout, contiguous_strides

__all__ = ["Placed", "layout_of"]


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """Values on the device that reads them.

    Attributes:
        backend: The device.
        values: Arrays of the device, scalars and abstract arrays are the very objects that were
            given; other arrays are copies, in whatever strides the device's library chose.
        layouts: How they lie in memory there.
        copies: How many of them had to be copied.
    """

    backend: Backend
    values: tuple[Any, ...]
    layouts: tuple[Layout, ...]
    copies: int

    @classmethod
    def on(cls, backend: Backend, values: Iterable[Any]) -> Placed:
        """Bring ``values`` to the device of ``backend``.

        Raises:
            TypeError: one has strides that are no multiples of its element size.
        """
        scattered = [(value, _is_in_place(value, backend)) for value in values]
        placed = tuple(value if there else backend.asarray(value) for value, there in scattered)
        copies = sum(not there for _, there in scattered)
        return cls(backend, placed, tuple(map(layout_of, placed)), copies)


def layout_of(value: Any) -> Layout:
    """Return how an array, or a scalar passed by value, lies in memory; abstract ones in C order.

    Raises:
        TypeError: its strides are no multiples of the element size, as in a packed record.
    """
    if isinstance(value, ShapedArray):
        strides = contiguous_strides(value.shape)
    elif not hasattr(value, "strides") or isinstance(value, np.generic):
        return Layout((), by_value=True)
    else:
        size = value.dtype.itemsize
        if any(stride % size for stride in value.strides):
            raise TypeError(
                f"an array with strides {tuple(value.strides)} of a {size}-byte dtype cannot be "
                "read in place; make a copy first: numpy.ascontiguousarray(x)"
            )
        strides = tuple(stride // size for stride in value.strides)
    # The stride of an axis of one element says nothing, nor does any of an array without elements.
    pairs = zip(value.shape, strides, strict=True)
    empty = 0 in value.shape
    return Layout(tuple(0 if empty or extent == 1 else stride for extent, stride in pairs))


def _is_in_place(value: Any, backend: Backend) -> bool:
    scalars = (bool, int, float, np.generic, ShapedArray)
    return isinstance(value, scalars) or backend.is_array(value)

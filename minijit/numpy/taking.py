"""Elements at positions, as functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.numpy.declare import numpy_function, refuse_out
from minijit.ops.axes import normalize_axis
from minijit.ops.binary import maximum
from minijit.ops.division import remainder
from minijit.ops.index import getitem
from minijit.ops.places import places_of
from minijit.ops.promote import as_operand, broadcast_shapes, broadcast_to, convert
from minijit.ops.shape import reshape
from minijit.ops.sort import along_axis

__all__ = ["take", "take_along_axis"]


@numpy_function(method=True)
def take(
    a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise"
) -> Any:
    """Return the elements at integer ``indices`` along ``axis``, or of the flattened array.

    Args:
        a: An array.
        indices: Integers of any shape, which takes the place of the axis.
        axis: Where.
        out: Refused.
        mode: What becomes of indices outside of the axis: ``"raise"`` as far as they are known
            while tracing, and the first or the last element for traced ones, where those below zero
            count from the end; ``"clip"`` gives the first or the last element for all, also below
            zero; ``"wrap"`` goes around.

    Raises:
        IndexError: an index that is known is out of range, or is no integer.
        ValueError: there is no such mode.
    """
    refuse_out(out)
    a, indices = as_operand(a), as_operand(indices)
    if axis is None:
        a, axis = reshape(a, (-1,)), 0
    axis = normalize_axis(axis, abstractify(a).ndim)
    extent = abstractify(a).shape[axis]
    if mode not in ("raise", "clip", "wrap"):
        raise ValueError(f"take: mode {mode!r} is none of raise, clip, wrap (at {user_line()})")
    if mode == "wrap" and extent:
        wide = np.promote_types(abstractify(indices).dtype, np.min_scalar_type(extent))
        indices = remainder(convert(indices, wide), extent)
    elif mode == "clip":
        indices = maximum(indices, 0)
    return getitem(a, (*(slice(None),) * axis, indices))


@numpy_function()
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """Return for each element of ``indices`` the one at that place in its row along ``axis``.

    Args:
        arr: An array.
        indices: Integers; their shape goes together with that of ``arr``, but along ``axis``.
            Outside of the axis they mean what they do in :func:`take`.
        axis: Where rows lie; None takes ``arr`` flat and one axis of indices.

    Raises:
        IndexError: an index that is known is out of range, or is no integer.
        ValueError: the numbers of axes differ.
    """
    arr, indices = as_operand(arr), as_operand(indices)
    if axis is None:
        arr, axis = reshape(arr, (-1,)), 0
    shape, wanted = abstractify(arr).shape, abstractify(indices).shape
    if len(shape) != len(wanted):
        raise ValueError(
            f"take_along_axis: the array has {len(shape)} axes and the indices {len(wanted)} "
            f"(at {user_line()})"
        )
    axis = normalize_axis(axis, len(shape))
    common = broadcast_shapes((*shape[:axis], wanted[axis], *shape[axis + 1 :]), wanted)
    (places,) = places_of([indices], shape[axis : axis + 1], [0])
    arr = broadcast_to(arr, (*common[:axis], shape[axis], *common[axis + 1 :]))
    return along_axis(arr, broadcast_to(places, common), axis)

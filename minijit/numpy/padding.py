"""Padding: a constant border, or one made of the array's own elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.graph.tracer import Tracer
from minijit.numpy.declare import numpy_function
from minijit.ops import join
from minijit.ops.axes import shape_of
from minijit.ops.promote import as_operand

__all__ = ["pad"]

_MIRRORS = ("edge", "reflect", "symmetric", "wrap")


@numpy_function()
def pad(array: Any, pad_width: Any, mode: str = "constant", **kwargs: Any) -> Any:
    """Surround an array, by NumPy's rules.

    Args:
        array: An array.
        pad_width: A static width, ``(before, after)``, one pair for each axis, or a dict of axes.
        mode: "constant", "edge", "reflect", "symmetric" or "wrap".
        kwargs: ``constant_values`` (a scalar, or pairs as for ``pad_width``; may be traced).

    Raises:
        ValueError: another mode, a negative width, or an option that does not belong to the mode.
        TracerIntegerConversionError: a width is traced.
    """
    array = as_operand(array)
    shape = abstractify(array).shape
    widths = _widths(pad_width, len(shape))
    if mode == "constant":
        values = kwargs.pop("constant_values", 0)
    elif mode not in _MIRRORS:
        raise ValueError(
            f"pad mode {mode!r} cannot be traced (at {user_line()}); 'constant', "
            f"{', '.join(map(repr, _MIRRORS))} can"
        )
    if kwargs:
        raise ValueError(f"pad: mode {mode!r} has no option {', '.join(kwargs)} (at {user_line()})")
    if mode == "constant":
        return _pad_constant(array, widths, values)
    for axis, width in enumerate(widths):
        if any(width):
            # NumPy's own border, of the indices: each straight piece of it is one slice.
            positions = np.pad(np.arange(shape[axis]), width, mode)  # type: ignore[call-overload]
            array = join.static_take(array, positions, axis)
    return array


def _widths(pad_width: Any, ndim: int) -> list[tuple[int, int]]:
    """Return one static ``(before, after)`` an axis."""
    if isinstance(pad_width, dict):
        pairs = [(0, 0)] * ndim
        for axis, width in pad_width.items():
            pairs[axis] = _widths(width, 1)[0]
        return pairs
    pairs = [(before, after) for before, after in _pairs(pad_width, ndim)]
    widths = [(shape_of(before)[0], shape_of(after)[0]) for before, after in pairs]
    if min((n for width in widths for n in width), default=0) < 0:
        raise ValueError(f"pad widths cannot be negative: {pad_width} (at {user_line()})")
    return widths


def _pairs(values: Any, ndim: int) -> list[tuple[Any, Any]]:
    """Broadcast a scalar, a pair or one pair an axis to ``(ndim, 2)``."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, Tracer) or not isinstance(values, (tuple, list)):
        return [(values, values)] * ndim
    rows = [v if isinstance(v, (tuple, list)) else None for v in values]
    if all(row is None for row in rows):
        return [(values[0], values[-1])] * ndim
    pairs = [(row[0], row[-1]) for row in rows if row]
    if len(rows) != len(pairs) or len(pairs) not in (1, ndim):
        raise ValueError(
            f"{values} is not a scalar, a pair or a pair for each of {ndim} axes (at {user_line()})"
        )
    return pairs * ndim if len(pairs) == 1 else pairs


def _pad_constant(array: Any, widths: list[tuple[int, int]], values: Any) -> Any:
    ndim = len(widths)
    low, high = [before for before, _ in widths], [after for _, after in widths]
    if not isinstance(values, (tuple, list, np.ndarray)):
        return join.pad(array, values, low, high)
    # The values differ, and NumPy pads axis after axis: a corner belongs to the last one.
    for axis, (before, after) in enumerate(_pairs(values, ndim)):
        for side, value in ((low, before), (high, after)):
            width = [side[axis] if n == axis else 0 for n in range(ndim)]
            none = [0] * ndim
            array = join.pad(array, value, *((width, none) if side is low else (none, width)))
    return array

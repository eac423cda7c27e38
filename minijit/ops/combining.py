"""Elements combined with updates at positions, by NumPy or CuPy, where a position may stand twice.

CuPy does it by atomic operations: it has none for narrow dtypes, and those for extrema drop NaN and
compare float64 as float32. So narrow dtypes are combined in wider ones, and floats are compared as
integers that lie in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["combined"]

_LEAST = {"b": np.int32, "i": np.int32, "u": np.uint32, "f": np.float32}
"""By kind, the narrowest dtype in which elements are combined; a sum is rounded once."""


def combined(xp: Any, x: Any, places: tuple[Any, ...], updates: Any, how: str) -> Any:
    """Return ``x`` combined with ``updates``.

    Args:
        xp: NumPy or CuPy.
        x: An array.
        places: Integer arrays of one shape, for the first axes of ``x``.
        updates: As many as ``x[places]``, of the same dtype.
        how: ``add``, ``minimum`` or ``maximum``.
    """
    wide = np.promote_types(x.dtype, _LEAST[x.dtype.kind])
    result, updates = xp.array(x, wide), xp.asarray(updates, wide)
    if how == "add" or wide.kind != "f":
        getattr(xp, how).at(result, places, updates)
    else:
        keys = _keys(xp, result, how)
        getattr(xp, how).at(keys, places, _keys(xp, updates, how))
        result = _flipped(keys).view(wide)
    with np.errstate(over="ignore"):  # a sum beyond float16 is infinite
        return result.astype(x.dtype, copy=False)


def _keys(xp: Any, x: Any, how: str) -> Any:
    """Return integers in the order of floats, those of NaN beyond all others."""
    integers = np.dtype(f"int{8 * x.dtype.itemsize}")
    limits = np.iinfo(integers)
    last = limits.max if how == "maximum" else limits.min
    return xp.where(xp.isnan(x), integers.type(last), _flipped(x.view(integers)))


def _flipped(bits: Any) -> Any:
    """Return the bits of floats as integers in their order, and the bits of such integers.

    Those of floats below zero, which have the sign set, are in the reverse order.
    """
    limit = np.iinfo(bits.dtype)
    return bits ^ ((bits >> bits.dtype.type(limit.bits - 1)) & limit.max)

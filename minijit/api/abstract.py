"""Types without arrays: what ``lower``, ``make_jaxpr`` and ``eval_shape`` take in their place."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import DTypeLike, canonical_dtype

__all__ = ["ShapeDtypeStruct"]


def ShapeDtypeStruct(shape: Sequence[int], dtype: DTypeLike) -> ShapedArray:
    """Return the type of an array with ``shape`` and ``dtype``.

    Raises:
        TypeError: minijit does not compute with the dtype, or an extent is no integer.
        ValueError: an extent is negative.
    """
    extents = tuple(map(operator.index, shape))
    if any(extent < 0 for extent in extents):
        raise ValueError(f"negative extent in shape {extents}")
    return ShapedArray(extents, canonical_dtype(dtype))

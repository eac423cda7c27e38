"""Casts: ``astype``, the public face of ``convert_element_type``."""

from __future__ import annotations

from typing import Any

from minijit.graph.dtypes import DTypeLike, canonical_dtype
from minijit.ops.promote import as_operand, convert

__all__ = ["astype"]


def astype(x: Any, dtype: DTypeLike) -> Any:
    """Return ``x`` as ``dtype``: floats lose their fraction, integers wrap, to bool means nonzero.

    Raises:
        TypeError: ``dtype`` is unknown or is one that minijit does not compute with.
    """
    return convert(as_operand(x), canonical_dtype(dtype))

"""What the tracer knows of a value before it exists: its shape, its dtype, its weakness."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from minijit.graph.dtypes import short_name

__all__ = ["ShapedArray"]


@dataclasses.dataclass(frozen=True, slots=True)
class ShapedArray:
    """An abstract array.

    Attributes:
        shape: The extents, concrete Python ints.
        dtype: A canonical NumPy dtype.
        weak_type: True for a Python scalar and what is computed from Python scalars alone: such a
            value takes the dtype of the array that it meets (NEP 50).
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak_type: bool = False

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that the value takes in memory, without gaps."""
        return self.size * self.dtype.itemsize

    def strip_weak_type(self) -> ShapedArray:
        """Return the same aval with a strong dtype."""
        return ShapedArray(self.shape, self.dtype) if self.weak_type else self

    def __str__(self) -> str:
        """Return the form that jaxprs print, for example ``f32[8,3]``; a star marks a weak type."""
        extents = ",".join(map(str, self.shape))
        return f"{short_name(self.dtype)}[{extents}]{'*' if self.weak_type else ''}"

"""GELU, an elementwise chain: eager code moves every step through memory, one kernel moves none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from _report import compare, place


def gelu(x: Any) -> Any:
    """GELU in its tanh form (Hendrycks and Gimpel, 2016)."""
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def main() -> None:
    where = place(__doc__)
    size = 1 << 12 if where.quick else 1 << 22
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        x = rng.standard_normal(size).astype(dtype)
        compare(f"gelu of {size} {x.dtype} numbers", gelu, where, x)


if __name__ == "__main__":
    main()

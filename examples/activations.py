"""Mish and soft capping: two operations of one's own, which fuse like NumPy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from _report import compare, place

from minijit.extend import elementwise


@elementwise
def mish(x: Any) -> Any:
    """x * tanh(log(1 + exp(x))) (Misra, 2019)."""
    return x * math.tanh(math.log1p(math.exp(x)))


@elementwise
def softcap(x: Any, cap: Any) -> Any:
    """cap * tanh(x / cap): x, but never beyond the cap."""
    return cap * math.tanh(x / cap)


def activated(x: Any) -> Any:
    """Both, after a scale that fuses with them."""
    return softcap(mish(1.5 * x) + 0.1, 2.0)


def with_numpy(x: Any) -> Any:
    """The same formula of NumPy's operations."""
    y = 1.5 * x
    return 2.0 * np.tanh((y * np.tanh(np.log1p(np.exp(y))) + 0.1) / 2.0)


def main() -> None:
    where = place(__doc__)
    size = 1 << 12 if where.quick else 1 << 21
    x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    compare(f"mish and softcap of {size} numbers", activated, where, x, eager=with_numpy)


if __name__ == "__main__":
    main()

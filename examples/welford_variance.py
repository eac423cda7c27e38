"""Mean and variance in one pass, of numbers far from zero: a reduction over triples."""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import compare, place

from minijit.extend import reduction


@reduction(
    identity=(np.int64(0), 0.0, 0.0),
    element=lambda x: (1, x, 0.0),
    finish=(lambda n, mean, m2: mean, lambda n, mean, m2: m2 / n),
    dtypes="float",
)
def moments(n: Any, mean: Any, m2: Any, k: Any, other: Any, s2: Any) -> Any:
    """Mean and variance (Chan, Golub and LeVeque, 1979)."""
    total = n + k
    if total == 0:
        return 0, 0.0, 0.0
    delta, share = other - mean, k / total
    return total, mean + delta * share, m2 + s2 + delta * delta * n * share


def standardised(x: Any) -> Any:
    """Rows with mean 0 and variance 1: one kernel, two passes."""
    mean, variance = moments(x, axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance)


def with_numpy(x: Any) -> Any:
    """The same by NumPy's two reductions."""
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True))


def main() -> None:
    where = place(__doc__)
    rows = 64 if where.quick else 4096
    x = np.random.default_rng(0).standard_normal((rows, 512)) + 1e4
    compare(f"{rows} rows of 512 numbers around 10000", standardised, where, x, eager=with_numpy)
    # The sum of squares, less the squared mean, has no digits left in float32.
    single = x.astype(np.float32)
    naive = (single * single).mean(-1) - single.mean(-1) ** 2
    _, variance = moments(where.put(single), axis=-1)
    exact = single.astype(np.float64).var(-1)
    errors = [float(np.abs(v / exact - 1).max()) for v in (where.get(variance), naive)]
    print(f"largest error of the variance {errors[0]:.0e}, by the mean of squares {errors[1]:.0e}")


if __name__ == "__main__":
    main()

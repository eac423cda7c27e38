"""Cross entropy by a reduction over pairs: the largest exponent, and the sum beside it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from _report import compare, place

from minijit.extend import reduction


@reduction(
    identity=(-math.inf, 0.0),
    element=lambda x: (x, 1.0),
    finish=lambda m, s: m + math.log(s),
    dtypes="float",
)
def logsumexp(m: Any, s: Any, n: Any, t: Any) -> Any:
    """Logarithm of the sum of exponentials in one pass (Milakov and Gimelshein, 2018)."""
    if m == n:
        return m, s + t
    return (m, s + t * math.exp(n - m)) if m > n else (n, t + s * math.exp(m - n))


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Negative log-likelihood of each row; ``labels`` has a one in each."""
    return logsumexp(logits, axis=-1) - (logits * labels).sum(-1)


def with_numpy(logits: Any, labels: Any) -> Any:
    """The same with the largest exponent found first."""
    top = logits.max(-1, keepdims=True)
    total = np.log(np.exp(logits - top).sum(-1)) + top[..., 0]
    return total - (logits * labels).sum(-1)


def main() -> None:
    where = place(__doc__)
    rows, classes = (64, 100) if where.quick else (4096, 1000)
    rng = np.random.default_rng(0)
    logits = 30 * rng.standard_normal((rows, classes))
    labels = np.eye(classes)[rng.integers(0, classes, rows)]
    title = f"cross entropy of {rows} rows of {classes} classes"
    compare(title, cross_entropy, where, logits, labels, eager=with_numpy)


if __name__ == "__main__":
    main()

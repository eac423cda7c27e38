"""Layer normalisation: mean, variance and scaling of each row in one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import compare, place


def layernorm(x: Any, gain: Any, bias: Any) -> Any:
    """Normalise each row to mean 0 and variance 1 (Ba, Kiros and Hinton, 2016)."""
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain + bias


def main() -> None:
    where = place(__doc__)
    rng = np.random.default_rng(0)
    rows, columns = (64, 128) if where.quick else (4096, 1024)
    x = rng.standard_normal((rows, columns), dtype=np.float32) * 3 + 1
    gain, bias = (rng.standard_normal(columns, dtype=np.float32) for _ in range(2))
    compare(f"layernorm of {rows} rows of {columns}", layernorm, where, x, gain, bias)


if __name__ == "__main__":
    main()

"""Attention pooling of sequences of any length: a program for each of a few sizes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from _report import place

import minijit
from minijit.bucketing import LengthReport, bucketed, suggest_sizes

WIDTH = 16
PROGRAMS = 4


def weights(sequence: Any, query: Any) -> Any:
    """Plain NumPy for one sequence: how much each of its rows is worth, and their average."""
    scores = (sequence * query).sum(axis=1)
    e = np.exp(scores - scores.max())
    p = e / e.sum()
    return p, (p[:, None] * sequence).sum(axis=0)


def masked_weights(sequence: Any, query: Any, mask: Any) -> Any:
    """The same for a padded sequence: rows of padding are worth nothing."""
    scores = np.where(mask, (sequence * query).sum(axis=1), -np.inf)
    e = np.exp(scores - scores.max())
    p = e / e.sum()
    return p, (p[:, None] * sequence).sum(axis=0)


def main() -> None:
    where = place(__doc__)
    rng = np.random.default_rng(0)
    lengths = rng.geometric(0.02, 100 if where.quick else 2000)
    sizes = suggest_sizes(lengths, PROGRAMS, multiple=8)
    print(f"sizes {sizes} of {len(set(lengths.tolist()))} lengths")
    for candidate in (sizes, "pow2", max(sizes)):
        print(f"  {LengthReport.of(lengths, candidate).padding:.0%} padding with {candidate}")

    pooled = bucketed(sizes=sizes)(minijit.jit(masked_weights))
    query = rng.standard_normal(WIDTH, dtype=np.float32)
    sequences = [rng.standard_normal((n, WIDTH), dtype=np.float32) for n in lengths]
    placed, placed_query = [where.put(each) for each in sequences], where.put(query)

    started = time.perf_counter()
    results = [pooled(each, placed_query) for each in placed]
    first = time.perf_counter() - started
    started = time.perf_counter()
    results = [pooled(each, placed_query) for each in placed]
    again = time.perf_counter() - started

    difference = 0.0
    for sequence, result in zip(sequences, results, strict=True):
        for a, b in zip(weights(sequence, query), result, strict=True):
            difference = max(difference, float(np.abs(a - where.get(b)).max()))
    print(f"{len(sequences)} sequences, programs: {pooled._cache_size()}")
    print(f"  largest difference from NumPy without padding  {difference:.1e}")
    print(f"  with compiling {first:8.3f} s, without {again:8.3f} s")


if __name__ == "__main__":
    main()

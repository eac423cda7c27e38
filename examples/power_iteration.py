"""Power iteration: the first principal component of handwritten digits.

A step is a product with a matrix and a normalisation; all of them run in one kernel, until the
direction stands still. The data are the 1797 digits that scikit-learn's wheel contains.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import compare, optional, place

import minijit
from minijit import lax

TOLERANCE = 1e-10
MOST = 500


def unit(vector: Any) -> Any:
    return vector / np.sqrt((vector * vector).sum())


def start(matrix: Any) -> Any:
    return unit(matrix[0] * 0 + 1)


def component(matrix: Any) -> tuple[Any, Any]:
    """Return the eigenvector of the largest eigenvalue, and the number of steps."""

    def moves(state: Any) -> Any:
        _, change, count = state
        return (change > TOLERANCE) & (count < MOST)

    def step(state: Any) -> Any:
        vector, _, count = state
        following = unit(matrix @ vector)
        return following, np.abs(following - vector).max(), count + 1

    vector, _, count = lax.while_loop(moves, step, (start(matrix), np.inf, np.int32(0)))
    return vector, count


def component_in_python(matrix: Any) -> tuple[Any, Any]:
    vector, change, count = start(matrix), np.inf, 0
    while change > TOLERANCE and count < MOST:
        following = unit(matrix @ vector)
        vector, change, count = following, np.abs(following - vector).max(), count + 1
    return vector, np.int32(count)


def main() -> None:
    datasets = optional("sklearn.datasets")
    where = place(__doc__)
    pixels = datasets.load_digits().data
    covariance = np.cov(pixels, rowvar=False)
    compare("covariance, 64 x 64", component, where, covariance, eager=component_in_python)
    found, count = minijit.jit(component)(where.put(covariance))
    vector = where.get(found)
    values, vectors = np.linalg.eigh(covariance)
    print(f"  {int(count)} steps; with eigh's vector it has the product "
          f"{abs(float(vector @ vectors[:, -1])):.12f}")  # fmt: skip
    print(f"  its share of the variance: {values[-1] / values.sum():.3f}")


if __name__ == "__main__":
    main()

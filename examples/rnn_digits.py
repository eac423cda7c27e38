"""A recurrent network reads handwritten digits row by row: a matrix product in the body of a scan.

The recurrent weights are random and stay so, only what reads the last state is fitted, by least
squares (H. Jaeger, "The echo state approach", 2001). All steps are one kernel, which keeps both
matrices near. The data are the 1797 digits that scikit-learn's wheel contains.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import compare, optional, place

import minijit
from minijit import lax


def cell(state: Any, pixels: Any, weights: Any, inputs: Any, bias: Any) -> Any:
    """Return the state of all digits after one more row of pixels (J. L. Elman, 1990)."""
    return np.tanh(state @ weights + pixels @ inputs + bias)


def read(start: Any, rows: Any, weights: Any, inputs: Any, bias: Any) -> Any:
    """Return the last states. ``rows`` has a row of all digits for each step."""

    def step(state: Any, pixels: Any) -> tuple[Any, None]:
        return cell(state, pixels, weights, inputs, bias), None

    return lax.scan(step, start, rows)[0]


def read_in_python(start: Any, rows: Any, weights: Any, inputs: Any, bias: Any) -> Any:
    state = start
    for pixels in rows:
        state = cell(state, pixels, weights, inputs, bias)
    return state


def main() -> None:
    datasets = optional("sklearn.datasets")
    where = place(__doc__)
    digits = datasets.load_digits()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(digits.target))
    labels = digits.target[order]
    rows = (digits.images[order] / 16).astype(np.float32).transpose(1, 0, 2).copy()
    size = 128
    weights = rng.standard_normal((size, size), dtype=np.float32) / np.float32(np.sqrt(size))
    inputs = rng.standard_normal((8, size), dtype=np.float32) / np.float32(2)
    bias = rng.standard_normal(size, dtype=np.float32) / np.float32(2)
    start = np.zeros((rows.shape[1], size), dtype=np.float32)
    arguments = (start, rows, weights, inputs, bias)
    title = f"{rows.shape[1]} digits, {rows.shape[0]} steps"
    compare(title, read, where, *arguments, eager=read_in_python)
    states = where.get(minijit.jit(read)(*map(where.put, arguments))).astype(np.float64)
    train, test = slice(0, 1400), slice(1400, None)
    penalty = 0.1 * np.eye(size)
    seen, wanted = states[train], np.eye(10)[labels[train]]
    readout = np.linalg.solve(seen.T @ seen + penalty, seen.T @ wanted)
    for name, part in (("training", train), ("test", test)):
        share = np.mean(np.argmax(states[part] @ readout, axis=-1) == labels[part])
        print(f"  accuracy on {len(labels[part])} {name} digits  {float(share):.4f}")


if __name__ == "__main__":
    main()

"""Trains a network of two layers on handwritten digits; minijit derives the gradient.

The same training with a gradient written out in NumPy gives the same network. The data are the 1797
digits of UCI's optical recognition set, which scikit-learn's wheel contains.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import Place, compare, optional, place

import minijit

RATE, WIDTH = 0.3, 32


def loss(w1: Any, b1: Any, w2: Any, b2: Any, x: Any, wanted: Any) -> Any:
    """Return the cross-entropy of a softmax over ten scores."""
    scores = np.tanh(x @ w1 + b1) @ w2 + b2
    largest = scores.max(axis=-1, keepdims=True)
    logarithm = np.log(np.exp(scores - largest).sum(axis=-1, keepdims=True)) + largest
    return np.mean(((logarithm - scores) * wanted).sum(axis=-1))


gradients = minijit.grad(loss, argnums=(0, 1, 2, 3))


def gradients_by_hand(w1: Any, b1: Any, w2: Any, b2: Any, x: Any, wanted: Any) -> Any:
    """Return the same, with each layer's derivative written out."""
    hidden = np.tanh(x @ w1 + b1)
    scores = hidden @ w2 + b2
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    of_scores = (e / e.sum(axis=-1, keepdims=True) - wanted) / np.float32(x.shape[0])
    of_sums = (of_scores @ w2.T) * (1 - hidden * hidden)
    return x.T @ of_sums, of_sums.sum(0), hidden.T @ of_scores, of_scores.sum(0)


def main() -> None:
    datasets = optional("sklearn.datasets")
    where = place(__doc__)
    digits = datasets.load_digits()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(digits.target))
    x = (digits.data[order] / 16).astype(np.float32)
    labels = digits.target[order]
    wanted = np.eye(10, dtype=np.float32)[labels]
    shapes = [(64, WIDTH), (WIDTH,), (WIDTH, 10), (10,)]
    start = [rng.normal(0, 0.2, shape).astype(np.float32) for shape in shapes]
    train, test = slice(0, 1400), slice(1400, None)
    data = x[train], wanted[train]
    compare("one gradient", gradients, where, *start, *data, eager=gradients_by_hand)
    steps = 150 if where.quick else 1000
    derived = fit(minijit.jit(gradients), where, steps, start, data)
    by_hand = fit(gradients_by_hand, where, steps, start, data)
    difference = max(float(np.max(np.abs(a - b))) for a, b in zip(derived, by_hand, strict=True))
    print(f"after {steps} steps, programs: {gradients.stats()['signatures']}")
    print(f"  largest difference of the weights  {difference:.1e}")
    w1, b1, w2, b2 = derived
    for name, part in (("training", train), ("test", test)):
        scores = np.tanh(x[part] @ w1 + b1) @ w2 + b2
        share = np.mean(scores.argmax(axis=-1) == labels[part])
        print(f"  accuracy on {len(labels[part])} {name} digits  {share:.4f}")


def fit(gradients_of: Any, where: Place, steps: int, start: Any, data: Any) -> Any:
    weights = [where.put(w) for w in start]
    arrays = [where.put(each) for each in data]
    for _ in range(steps):
        slopes = gradients_of(*weights, *arrays)
        weights = [w - RATE * slope for w, slope in zip(weights, slopes, strict=True)]
    return [where.get(w) for w in weights]


if __name__ == "__main__":
    main()

"""Trains logistic regression on scikit-learn's handwritten digits, a jitted step at a time.

The data are the 1797 digits of UCI's optical recognition set, which scikit-learn's wheel contains.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import Place, compare, optional, place

import minijit

RATE, MOMENTUM, DECAY = 0.5, 0.9, 1e-4


def softmax(scores: Any) -> Any:
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def step(weights: Any, velocity: Any, x: Any, wanted: Any) -> Any:
    """Return weights and velocity after one step of gradient descent, and the loss before it.

    The gradient of the cross-entropy is written out: x.T @ (softmax(x @ w) - wanted) / n.
    """
    chances = softmax(x @ weights)
    loss = -np.mean(np.log(np.sum(chances * wanted, axis=-1)))
    gradient = x.T @ (chances - wanted) / x.shape[0] + DECAY * weights
    velocity = MOMENTUM * velocity - RATE * gradient
    return weights + velocity, velocity, loss


def accuracy(weights: Any, x: Any, labels: Any) -> Any:
    """Return the share of digits whose largest score is the right one."""
    return np.mean(np.argmax(x @ weights, axis=-1) == labels)


def main() -> None:
    datasets = optional("sklearn.datasets")
    where = place(__doc__)
    digits = datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    pixels = (digits.data[order] / 16).astype(np.float32)
    x = np.concatenate([pixels, np.ones((len(order), 1), dtype=np.float32)], axis=1)  # and a bias
    labels = digits.target[order]
    wanted = np.eye(10, dtype=np.float32)[labels]
    start = np.zeros((x.shape[1], 10), dtype=np.float32)
    train, test = slice(0, 1400), slice(1400, None)
    compare("one step of training", step, where, start, start, x[train], wanted[train])
    steps = 100 if where.quick else 500
    eager = fit(step, where, steps, start, x[train], wanted[train])
    jitted_step = minijit.jit(step)
    weights = fit(jitted_step, where, steps, start, x[train], wanted[train])
    print(f"after {steps} steps, programs: {jitted_step._cache_size()}")
    print(f"  largest difference of the weights  {float(np.max(np.abs(eager - weights))):.1e}")
    right = minijit.jit(accuracy)
    for name, part in (("training", train), ("test", test)):
        share = right(where.put(weights), where.put(x[part]), where.put(labels[part]))
        print(f"  accuracy on {len(labels[part])} {name} digits  {float(share):.4f}")


def fit(one_step: Any, where: Place, steps: int, start: Any, x: Any, wanted: Any) -> Any:
    weights, velocity, x, wanted = map(where.put, (start, start, x, wanted))
    for _ in range(steps):
        weights, velocity, _loss = one_step(weights, velocity, x, wanted)
    return where.get(weights)


if __name__ == "__main__":
    main()

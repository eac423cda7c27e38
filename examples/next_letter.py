"""Learns which letter comes next in Python's own names, from vectors that stand for letters.

The vectors of a context are taken from a table, the score of the letter that follows from a row of
all scores; the gradient adds up what several contexts have taken.
"""

from __future__ import annotations

import builtins
import keyword
from typing import Any

import numpy as np
from _report import compare, place

import minijit

LETTERS = ".abcdefghijklmnopqrstuvwxyz"
CONTEXT, VECTOR, WIDTH, RATE = 3, 8, 64, 0.5


def loss(table: Any, w1: Any, b1: Any, w2: Any, b2: Any, contexts: Any, following: Any) -> Any:
    """Return the mean cross-entropy of the letters that follow contexts of three."""
    vectors = table[contexts].reshape(contexts.shape[0], -1)
    scores = np.tanh(vectors @ w1 + b1) @ w2 + b2
    shifted = scores - scores.max(axis=-1, keepdims=True)
    logarithms = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return -np.take_along_axis(logarithms, following[:, None], axis=-1).mean()


@minijit.jit
def step(weights: Any, contexts: Any, following: Any) -> Any:
    """Return the loss, and weights that are better."""
    both = minijit.value_and_grad(loss, argnums=(0, 1, 2, 3, 4))
    value, slopes = both(*weights, contexts, following)
    return value, [w - RATE * slope for w, slope in zip(weights, slopes, strict=True)]


def examples_of(names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return contexts and the letters that follow, as numbers; a name ends with a dot."""
    rows = []
    for name in names:
        numbers = [LETTERS.index(letter) for letter in "." * CONTEXT + name + "."]
        rows += [numbers[n : n + CONTEXT + 1] for n in range(len(numbers) - CONTEXT)]
    table = np.array(rows)
    return table[:, :CONTEXT], table[:, CONTEXT]


def main() -> None:
    where = place(__doc__)
    words = {name.lower() for name in [*dir(builtins), *keyword.kwlist]}
    names = sorted(word for word in words if set(word) <= set(LETTERS[1:]))
    contexts, following = examples_of(names)
    rng = np.random.default_rng(0)
    letters = len(LETTERS)
    shapes = [(letters, VECTOR), (CONTEXT * VECTOR, WIDTH), (WIDTH,), (WIDTH, letters), (letters,)]
    start = [rng.normal(0, 0.3, shape).astype(np.float32) for shape in shapes]
    compare("one loss", loss, where, *start, contexts, following)
    weights = [where.put(w) for w in start]
    data = where.put(contexts), where.put(following)
    steps = 30 if where.quick else 3000
    losses = []
    for _ in range(steps):
        value, weights = step(weights, *data)
        losses.append(float(value))
    print(f"{len(names)} names, after {steps} steps, programs: {step.stats()['signatures']}")
    print(f"  a letter costs {losses[0]:.2f} nats at first, {losses[-1]:.2f} at last")
    if losses[-1] >= losses[0]:
        raise SystemExit("nothing was learned")


if __name__ == "__main__":
    main()

"""Random programs of smooth operations: forward against reverse, both against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit.numpy as jnp
from minijit import jit, lax
from tests.conftest import Device
from tests.derivatives import assert_differentiable
from tests.sampling import DEEP

Step = Callable[[list[Any]], Any]
SMOOTH = (np.sin, np.tanh, lambda x: np.exp(-x * x), lambda x: x / (1 + x * x), jit(np.cos))


class _Writer:
    """Writes a function of one matrix, operation by operation, each on a result of before."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.shapes = [(3, 4)]
        self.steps: list[Step] = []

    def program(self, length: int) -> Callable[[Any], Any]:
        kinds = (
            self.unary, self.binary, self.reduced, self.turned, self.cut, self.joined, self.padded,
            self.chosen, self.product, self.summed, self.scanned, self.branched,
        )  # fmt: skip
        while len(self.steps) < length:
            kinds[self.rng.integers(len(kinds))]()

        def function(x: Any) -> Any:
            values = [x]
            for step in self.steps:
                values.append(step(values))
            return sum(v.sum() * (n + 1) for n, v in enumerate(values)) * values[-1]

        return function

    def add(self, shape: tuple[int, ...], step: Step) -> None:
        self.shapes.append(shape)
        self.steps.append(step)

    def pick(self) -> tuple[int, tuple[int, ...]]:
        place = int(self.rng.integers(len(self.shapes)))
        return place, self.shapes[place]

    def unary(self) -> None:
        (i, shape), f = self.pick(), SMOOTH[self.rng.integers(len(SMOOTH))]
        self.add(shape, lambda vs: f(vs[i]))

    def binary(self) -> None:
        (i, a), (j, b) = self.pick(), self.pick()
        try:
            shape = np.broadcast_shapes(a, b)
        except ValueError:
            return
        product = self.rng.integers(2)
        self.add(shape, lambda vs: vs[i] * np.sin(vs[j]) if product else vs[i] - vs[j])

    def reduced(self) -> None:
        i, shape = self.pick()
        axis = int(self.rng.integers(2))
        kept = tuple(1 if a == axis else n for a, n in enumerate(shape))
        self.add(kept, lambda vs: np.mean(vs[i] * vs[i], axis=axis, keepdims=True))

    def turned(self) -> None:
        i, shape = self.pick()
        if self.rng.integers(2):
            self.add(shape[::-1], lambda vs: vs[i].T)
        else:
            self.add(shape[::-1], lambda vs: vs[i].reshape(shape[::-1]))

    def cut(self) -> None:
        i, shape = self.pick()
        step = int(self.rng.choice([1, 2, -1, -2]))
        rows = len(range(shape[0])[::step])
        self.add((rows, shape[1]), lambda vs: vs[i][::step])

    def joined(self) -> None:
        (i, a), (j, b) = self.pick(), self.pick()
        if a[1] == b[1] and a[0] + b[0] < 9:
            self.add((a[0] + b[0], a[1]), lambda vs: np.concatenate([vs[i], vs[j]], axis=0))

    def padded(self) -> None:
        i, shape = self.pick()
        if shape[1] < 6:
            wide = (shape[0], shape[1] + 2)
            self.add(wide, lambda vs: jnp.pad(vs[i], ((0, 0), (2, 0)), constant_values=0.5))

    def chosen(self) -> None:
        i, shape = self.pick()
        mask = self.rng.integers(0, 2, shape) > 0
        self.add(shape, lambda vs: np.where(mask, vs[i], np.sin(vs[i])))

    def product(self) -> None:
        (i, a), (j, b) = self.pick(), self.pick()
        if a[1] == b[0]:
            self.add((a[0], b[1]), lambda vs: np.tanh(vs[i] @ vs[j]))

    def summed(self) -> None:
        i, shape = self.pick()
        self.add(shape, lambda vs: np.cumsum(np.sin(vs[i]), axis=1))

    def scanned(self) -> None:
        (i, shape), (j, other) = self.pick(), self.pick()
        if shape[1] == other[1]:
            self.add(
                shape,
                lambda vs: lax.scan(
                    lambda c, x: ((c := np.tanh(c * x + vs[j][0])), c), vs[i][0], vs[i]
                )[1],
            )

    def branched(self) -> None:
        i, shape = self.pick()
        j, _ = self.pick()
        self.add(
            shape,
            lambda vs: lax.cond(
                vs[j].sum() > 0.1, lambda x: np.sin(x) * vs[j][0, 0], lambda x: x * x, vs[i]
            ),
        )


@pytest.mark.parametrize("seed", range(60 if DEEP else 10))
def test_random_programs(seed: int) -> None:
    writer = _Writer(seed)
    function = writer.program(4 + seed % 7)
    x = writer.rng.uniform(-1, 1, (3, 4))
    assert_differentiable(Device("cpu"), function, [x], twice=seed % 3 == 0)

"""Random programs with loops and branches, nested in each other, over bodies that are random too.

Bodies read what they carry, their elements and values around them. Values stay small integers, as
those of random programs without loops do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import minijit
from minijit import lax
from tests.transforms.random_programs import Array, Function, Step, Writer, run_steps

__all__ = ["random_loop_program", "reference"]

Body = Callable[[Sequence[Any]], list[Any]]
"""Takes the inputs of a body, returns these and all that it computes."""


def random_loop_program(seed: int, length: int = 8) -> tuple[Function, list[Array]]:
    """Return a function of arrays that holds loops and branches, and arguments for it."""
    return LoopWriter(np.random.default_rng(seed), depth=2).program(length)


def reference(function: Function, args: Sequence[Any]) -> list[Any]:
    """Return what plain Python makes of ``args``: its own loops and branches, and NumPy."""
    with np.errstate(all="ignore"), minijit.disable_jit():
        return function(*args)


def fitted(value: Any, wanted: Array) -> Any:
    """Return a small value of the shape and dtype of ``wanted``."""
    if value.dtype != bool:
        value = value % 11
    if value.shape != wanted.shape:
        value = np.broadcast_to(np.max(value), wanted.shape)
    return value.astype(wanted.dtype)


class LoopWriter(Writer):
    """Writes loops and branches, ``depth`` of them into each other."""

    def __init__(self, rng: np.random.Generator, depth: int) -> None:
        super().__init__(0)
        self.rng = rng
        self.depth = depth

    def choose(self) -> Step | None:
        if self.depth == 0 or self.rng.random() > 0.3:
            return super().choose()
        kinds = [self.scan, self.scan, self.while_loop, self.fori_loop, self.cond, self.switch]
        return kinds[self.rng.integers(len(kinds))]()

    def add(self, step: Step | None) -> None:
        with minijit.disable_jit():
            super().add(step)

    def body(self, inputs: Sequence[Array]) -> tuple[Body, list[Array]]:
        """Return a random body, and what it computes of ``inputs``."""
        inner = LoopWriter(self.rng, self.depth - 1)
        inner.values = list(inputs)
        for _ in range(self.rng.integers(1, 6)):
            inner.add(inner.choose())
        steps = tuple(inner.steps)
        return lambda values: run_steps(steps, values), inner.values

    def some(self, most: int) -> list[int]:
        return [self.pick()[0] for _ in range(self.rng.integers(1, most + 1))]

    def results(self, values: Sequence[Array], wanted: Sequence[Array]) -> list[int]:
        """Return which value becomes which of ``wanted``: one of the same shape, if there is."""
        places = []
        for each in wanted:
            alike = [n for n, value in enumerate(values) if value.shape == each.shape]
            if not alike or self.rng.random() < 0.1:
                alike = list(range(len(values)))
            places.append(int(alike[int(len(alike) * self.rng.random() ** 0.4)]))
        return places

    def step(self, carried: Sequence[int], around: Sequence[int], row: Array | None) -> Any:
        """Return a step of a loop: its body, which results it carries on, and all its values."""
        first = [self.values[n] for n in carried]
        rows = [] if row is None else [row]
        body, values = self.body([*first, *rows, *(self.values[n] for n in around)])
        return body, self.results(values, first), values

    def scan(self) -> Step:
        carried, around = self.some(3), self.some(2)
        source, xs = self.pick()
        taken = xs.ndim > 0 and self.rng.random() < 0.8
        body, places, values = self.step(carried, around, np.asarray(xs[0]) if taken else None)
        collected = [int(n) for n in self.rng.integers(len(values), size=self.rng.integers(3))]
        reverse = bool(self.rng.integers(2))
        wanted = [self.values[n] for n in carried]

        def run(v: list[Any]) -> tuple[Any, ...]:
            def step(carry: Any, x: Any) -> Any:
                rows = [x] if taken else []
                found = body([*carry, *rows, *(v[n] for n in around)])
                new = tuple(fitted(found[n], w) for n, w in zip(places, wanted, strict=True))
                return new, tuple(found[n] for n in collected)

            carry, ys = lax.scan(
                step,
                tuple(v[n] for n in carried),
                v[source] if taken else None,
                None if taken else 3,
                reverse,
            )
            return (*carry, *ys)

        return run

    def while_loop(self) -> Step:
        carried, around = self.some(2), self.some(2)
        body, places, _ = self.step(carried, around, None)
        wanted = [self.values[n] for n in carried]
        most, asks = int(self.rng.integers(5)), bool(self.rng.integers(2))

        def run(v: list[Any]) -> tuple[Any, ...]:
            def unfinished(state: Any) -> Any:
                return (state[0] < most) & (np.max(state[1]) < 8) if asks else state[0] < most

            def step(state: Any) -> Any:
                found = body([*state[1:], *(v[n] for n in around)])
                pairs = zip(places, wanted, strict=True)
                return (state[0] + 1, *(fitted(found[n], w) for n, w in pairs))

            start = (np.int32(0), *(v[n] for n in carried))
            return lax.while_loop(unfinished, step, start)  # type: ignore[no-any-return]

        return run

    def fori_loop(self) -> Step:
        carried, around = self.some(2), self.some(2)
        body, places, _ = self.step(carried, around, None)
        wanted = [self.values[n] for n in carried]
        source, _ = self.pick()
        known = int(self.rng.integers(4)) if self.rng.integers(2) else None

        def run(v: list[Any]) -> tuple[Any, ...]:
            def step(i: Any, state: Any) -> Any:
                found = body([*state, *(v[n] for n in around)])
                new = [fitted(found[n], w) for n, w in zip(places, wanted, strict=True)]
                return tuple(np.where(i % 2 == 0, a, b) for a, b in zip(new, state, strict=True))

            count = known if known is not None else np.sum(v[source] > 1).astype(np.int32) % 4
            return lax.fori_loop(0, count, step, tuple(v[n] for n in carried))  # type: ignore[no-any-return]

        return run

    def cond(self) -> Step:
        run = self.branches(2)
        source, _ = self.pick()
        known = bool(self.rng.integers(2)) if self.rng.random() < 0.2 else None

        def pick(v: list[Any]) -> tuple[Any, ...]:
            holds = known if known is not None else np.sum(v[source] > 1) % 2 == 0
            functions, operands = run(v)
            return lax.cond(holds, *functions, *operands)  # type: ignore[no-any-return]

        return pick

    def switch(self) -> Step:
        run = self.branches(int(self.rng.integers(1, 4)))
        source, _ = self.pick()

        def pick(v: list[Any]) -> tuple[Any, ...]:
            index = np.sum(v[source] > 1).astype(np.int32) % 5 - 1
            functions, operands = run(v)
            return lax.switch(index, functions, *operands)  # type: ignore[no-any-return]

        return pick

    def branches(self, count: int) -> Callable[[list[Any]], tuple[list[Any], list[Any]]]:
        """Return what makes the functions of a branch and their operands of the values so far."""
        given, around = self.some(2), self.some(2)
        inputs = [self.values[n] for n in (*given, *around)]
        made = [self.body(inputs) for _ in range(count)]
        first = made[0][1]
        number = int(self.rng.integers(1, 3))
        wanted = [first[len(first) - 1 - n % len(first)] for n in range(number)]
        places = [self.results(values, wanted) for _, values in made]

        def run(v: list[Any]) -> tuple[list[Any], list[Any]]:
            def function(body: Body, own: list[int]) -> Callable[..., Any]:
                def branch(*operands: Any) -> Any:
                    found = body([*operands, *(v[n] for n in around)])
                    return tuple(fitted(found[n], w) for n, w in zip(own, wanted, strict=True))

                return branch

            functions = [function(body, own) for (body, _), own in zip(made, places, strict=True)]
            return functions, [v[n] for n in given]

        return run

"""Random programs: elementwise operations, views, joins, reductions and products, all exact.

Values are small integers in every dtype, so that no rounding hides in the order of a sum and every
way to run a program must return the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from minijit.graph.jaxpr import Jaxpr
from minijit.graph.trace import abstractify, trace_function

__all__ = [
    "Array",
    "Function",
    "Step",
    "Writer",
    "assert_equal",
    "random_program",
    "run_steps",
    "trace",
]

Array = npt.NDArray[Any]
Function = Callable[..., list[Any]]
Step = Callable[[list[Any]], Any]

_DTYPES = ("float32", "float64", "int32", "int64", "bool", "uint8", "float16")
_EXTENTS = (1, 2, 3, 4, 6)


def random_program(seed: int, length: int = 12) -> tuple[Function, list[Array]]:
    """Return a function of arrays, written with NumPy alone, and arguments for it."""
    return Writer(seed).program(length)


def trace(function: Function, args: Sequence[Any], name: str = "f") -> Jaxpr:
    """Return the program of ``function`` on arguments like ``args``."""
    names = [f"x{position}" for position in range(len(args))]
    return trace_function(lambda ts: function(*ts), list(map(abstractify, args)), names, name).jaxpr


def assert_equal(got: Sequence[Any], want: Sequence[Any]) -> None:
    """Assert that two lists of arrays agree in number, shape, dtype and every value."""
    assert len(got) == len(want)
    for position, (a, b) in enumerate(zip(got, want, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), position
        np.testing.assert_array_equal(a, b, err_msg=f"result {position}")


def run_steps(steps: Sequence[Step], inputs: Sequence[Any]) -> list[Any]:
    """Return the inputs and the results of all steps; a step may have several, as a tuple."""
    values = list(inputs)
    for step in steps:
        values += tupled(step(values))
    return values


def tupled(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


class Writer:
    """Chooses steps while it runs them on the arguments: NumPy says what fits."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.steps: list[Step] = []
        self.values: list[Array] = []

    def program(self, length: int) -> tuple[Function, list[Array]]:
        args = [self.argument() for _ in range(self.rng.integers(1, 4))]
        self.values = list(args)
        while len(self.steps) < length:
            self.add(self.choose())
        count = min(len(self.steps), int(self.rng.integers(1, 5)))
        own = range(len(args), len(self.values))
        results = [len(self.values) - 1, *self.rng.choice(own, count - 1, replace=False).tolist()]
        steps = tuple(self.steps)

        def run(*inputs: Any) -> list[Any]:
            values = run_steps(steps, inputs)
            return [values[position] for position in results]

        return run, args

    def argument(self) -> Array:
        shape = tuple(self.rng.choice(_EXTENTS, self.rng.integers(1, 4)).tolist())
        dtype = np.dtype(str(self.rng.choice(_DTYPES)))
        values = self.rng.integers(0, 2 if dtype.kind == "b" else 8, shape)
        return values.astype(dtype)

    def add(self, step: Step | None) -> None:
        if step is None:
            return
        with np.errstate(all="ignore"):
            results = [np.asarray(value) for value in tupled(step(list(self.values)))]
        if all(value.size <= 400 for value in results):
            self.steps.append(step)
            self.values += results

    def pick(self) -> tuple[int, Array]:
        """Choose a value, a late one rather than an early one."""
        position = int(len(self.values) * self.rng.random() ** 0.6)
        return position, self.values[position]

    def choose(self) -> Step | None:
        kinds = {
            self.unary: 3,
            self.binary: 6,
            self.view: 5,
            self.join: 2,
            self.reduce: 3,
            self.product: 0.5,
        }
        weights = np.array(list(kinds.values()), float)
        choice = self.rng.choice(len(kinds), p=weights / weights.sum())
        return list(kinds)[choice]()

    def unary(self) -> Step:
        i, _ = self.pick()
        scalar = int(self.rng.integers(1, 5))
        choices: list[Step] = [
            lambda v: np.abs(v[i]),
            lambda v: np.clip(v[i] + scalar, 0, 9),
            lambda v: v[i] * scalar % 7 if v[i].dtype != bool else v[i] ^ True,
            lambda v: np.where(v[i] > scalar, v[i], scalar),
            lambda v: v[i] + np.arange(v[i].shape[-1]) if v[i].shape else v[i] + scalar,
            lambda v: v[i].astype(np.float32),
            lambda v: v[i] != scalar,
        ]
        return choices[self.rng.integers(len(choices))]

    def binary(self) -> Step | None:
        i, x = self.pick()
        j, y = self.pick()
        try:
            np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            return None
        choices: list[Step] = [
            lambda v: (v[i] + v[j]) % 11,
            lambda v: v[i] * v[j] % 11,
            lambda v: np.maximum(v[i], v[j]),
            lambda v: np.minimum(v[i], v[j]),
            lambda v: np.where(v[i] > v[j], v[i], v[j]),
            lambda v: v[i] <= v[j],
        ]
        if bool in (x.dtype, y.dtype):
            choices = choices[2:]  # bool + bool is logical, and % of bool is int8
        return choices[self.rng.integers(len(choices))]

    def view(self) -> Step | None:
        i, x = self.pick()
        kind = self.rng.integers(7)
        if kind == 0:
            axes = tuple(self.rng.permutation(x.ndim).tolist())
            return lambda v: np.transpose(v[i], axes)
        if kind == 1:
            shape = self.factors(x.size)
            return lambda v: np.reshape(v[i], shape)
        if kind == 2:
            axis = int(self.rng.integers(x.ndim + 1))
            return lambda v: np.expand_dims(v[i], axis)
        if x.ndim == 0:
            return None
        axis = int(self.rng.integers(x.ndim))
        if kind == 3:
            return lambda v: np.flip(v[i], axis)
        if kind == 4:
            extent = x.shape[axis]
            step = int(self.rng.choice([1, 1, 2, -1, -2]))
            cut = slice(int(extent > 2), None, step) if step > 0 else slice(None, None, step)
            index = (*(slice(None),) * axis, cut)
            return lambda v: v[i][index]
        if kind == 5:
            shape = (int(self.rng.integers(1, 4)), *x.shape)
            return lambda v: np.broadcast_to(v[i], shape)
        position = int(self.rng.integers(x.shape[axis]))
        index = (*(slice(None),) * axis, position)
        return lambda v: v[i][index]

    def factors(self, size: int) -> tuple[int, ...]:
        extents = []
        while size > 1:
            extents.append(int(self.rng.choice([d for d in range(2, size + 1) if size % d == 0])))
            size //= extents[-1]
        return tuple(extents)

    def join(self) -> Step | None:
        i, x = self.pick()
        j, y = self.pick()
        if x.ndim == 0:
            return None
        axis = int(self.rng.integers(x.ndim))
        if self.rng.random() < 0.4:
            width = [(0, 0)] * x.ndim
            width[axis] = (int(self.rng.integers(3)), int(self.rng.integers(3)))
            return lambda v: np.pad(v[i], width)
        if x.ndim != y.ndim or any(
            a != b for d, (a, b) in enumerate(zip(x.shape, y.shape, strict=True)) if d != axis
        ):
            j = i
        return lambda v: np.concatenate([v[i], v[j]], axis)

    def reduce(self) -> Step | None:
        i, x = self.pick()
        if x.ndim == 0:
            return None
        count = int(self.rng.integers(1, x.ndim + 1))
        axes = tuple(sorted(self.rng.choice(x.ndim, count, replace=False).tolist()))
        keep = bool(self.rng.integers(2))
        choices: list[Step] = [
            lambda v: np.sum(v[i], axis=axes, keepdims=keep) % 13,
            lambda v: np.max(v[i], axis=axes, keepdims=keep),
            lambda v: np.min(v[i], axis=axes, keepdims=keep),
            lambda v: np.any(v[i] > 2, axis=axes, keepdims=keep),
            lambda v: np.argmax(v[i], axis=axes[0], keepdims=keep),
        ]
        return choices[self.rng.integers(len(choices))]

    def product(self) -> Step | None:
        i, x = self.pick()
        if x.ndim != 2 or x.dtype == bool:
            return None
        return lambda v: np.matmul(v[i], v[i].T) % 17

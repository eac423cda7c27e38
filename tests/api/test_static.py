"""Static arguments: told apart by type and value, by any way of passing them; refused by name."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from tests.conftest import Device

X = np.arange(4, dtype=np.float32)


def numbered(device: Device, values: Any) -> list[float]:
    """Which of its traces answers for each value, asked twice."""
    seen: list[Any] = []

    def f(x: Any, value: Any) -> Any:
        seen.append(value)
        return x * 0 + len(seen)

    g = minijit.jit(f, static_argnums=1)
    answers = [float(device.get(g(device.put(np.float32(0)), value))) for value in values * 2]
    assert answers[: len(values)] == answers[len(values) :]
    return answers[: len(values)]


@pytest.mark.parametrize(
    "values",
    [
        [1, True, 1.0],
        [0.0, -0.0],
        [(1, True), (True, 1), (1, 1)],
        [(1, (2.0,)), (1, (2,))],
        [frozenset({1}), frozenset({True})],
        [-1, -2],  # equal hashes
        [1, 1 + 2**61 - 1],
        ["", 0, None, ()],
        [np.float32(1), np.float64(1), 1.0],
        [np.float32(0), np.float32(-0.0)],
        ["a", b"a"],
    ],
    ids=repr,
)
def test_values_that_are_told_apart(device: Device, values: list[Any]) -> None:
    assert numbered(device, values) == list(range(1, len(values) + 1))


class Mode(enum.Enum):
    SUM = 1
    MAX = 2


@dataclasses.dataclass(frozen=True)
class Shape:
    rows: int
    cols: int


@pytest.mark.parametrize(
    "make",
    [
        lambda: Shape(2, 3),
        lambda: Mode.SUM,
        lambda: (1, "a", None, 2.5),
        lambda: math.nan,
        lambda: np.float64("nan"),
        lambda: "text" * 2,
        lambda: jnp.sin,
    ],
)
def test_equal_values_are_one_entry(device: Device, counts: Counter[str], make: Any) -> None:
    f = minijit.jit(lambda x, s: x + 1, static_argnames="s")
    for _ in range(3):
        f(device.put(X), s=make())
    assert counts["trace"] == f._cache_size() == 1


def test_by_number_by_negative_number_and_by_name(device: Device) -> None:
    def f(x: Any, n: int) -> Any:
        return jnp.concatenate([x] * n)

    for options in ({"static_argnums": 1}, {"static_argnums": (-1,)}, {"static_argnames": ["n"]}):
        g = minijit.jit(f, **options)
        for _ in range(2):
            assert g(device.put(X), 3).shape == (12,)
            assert g(device.put(X), n=2).shape == (8,)
        assert g._cache_size() == 2


def test_defaults_are_static_too(device: Device) -> None:
    f = minijit.jit(lambda x, n=3: jnp.concatenate([x] * n), static_argnums=1)
    for _ in range(2):
        assert [f(device.put(X)).shape, f(device.put(X), 1).shape] == [(12,), (4,)]


def test_variadic_arguments(device: Device) -> None:
    def f(*args: Any, **options: Any) -> Any:
        return args[0] * args[1] + len(options) * (2 if options.get("double") else 1)

    g = minijit.jit(f, static_argnums=1, static_argnames="double")
    for _ in range(2):
        for n in (2, 3, 4):
            np.testing.assert_array_equal(device.get(g(device.put(X), n)), X * n)
        np.testing.assert_array_equal(device.get(g(device.put(X), 2, double=True)), X * 2 + 2)
        np.testing.assert_array_equal(device.get(g(device.put(X), 2, double=False, y=1)), X * 2 + 2)


def test_functions_and_modules(device: Device) -> None:
    f = minijit.jit(lambda x, fn, xp: xp.sqrt(fn(x)), static_argnums=(1, 2))
    square, double = (lambda v: v * v), (lambda v: v * 2)
    for _ in range(2):
        np.testing.assert_array_equal(device.get(f(device.put(X), square, jnp)), X)
        np.testing.assert_array_equal(device.get(f(device.put(X), double, np)), np.sqrt(X * 2))


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ([1], "list; pass a tuple"),
        ({"a": 1}, "dict; pass a tuple"),
        ({1}, "set; pass a tuple"),
        (np.ones(2), "leave it dynamic"),
        (([1],), "tuple; pass something hashable"),
        (bytearray(b"x"), "pass something hashable"),
    ],
)
def test_unhashable_values_are_refused_by_name(device: Device, value: Any, advice: str) -> None:
    f = minijit.jit(lambda x, shape: x, static_argnames="shape")
    with pytest.raises(TypeError, match=f"static argument 'shape' is not hashable: .*{advice}"):
        f(device.put(X), value)
    assert f._cache_size() == 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"static_argnames": "nonsense"}, ValueError),
        ({"static_argnums": 5}, ValueError),
        ({"static_argnums": -3}, ValueError),
        ({"static_argnums": "x"}, TypeError),
        ({"static_argnums": 1.0}, TypeError),
        ({"static_argnums": True}, TypeError),
        ({"static_argnames": (1,)}, TypeError),
    ],
)
def test_options_that_make_no_sense(options: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="static_arg"):
        minijit.jit(lambda x, y: x, **options)


@dataclasses.dataclass(frozen=True)
class Scale:
    factor: float

    @minijit.jit
    def apply(self, x: Any) -> Any:
        return x * self.factor


def test_fields_of_static_objects_are_told_apart_by_type(device: Device) -> None:
    """``Scale(2) == Scale(2.0)``, but they are other programs: int64 and float64."""
    x = device.put(np.arange(3))
    scaled = minijit.jit(lambda x, scale: x * scale.factor, static_argnames="scale")
    for _ in range(2):
        for factor, dtype in ((2, np.int64), (2.0, np.float64), (-0.0, np.float64)):
            assert scaled(x, Scale(factor)).dtype == dtype
            assert Scale(factor).apply(x).dtype == dtype
    assert scaled._cache_size() == 3

"""What can be jitted, how it can be called, and what comes back."""

from __future__ import annotations

import collections
import copy
import functools
import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit.graph.tree import flatten
from tests.conftest import Device

X = np.arange(6, dtype=np.float32)
Pair = collections.namedtuple("Pair", "low high")


@minijit.jit
def doubled(x: Any) -> Any:
    """Twice as much."""
    return x * 2


def added(a: Any, b: Any) -> Any:
    return a + b


class Model:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    @minijit.jit
    def apply(self, x: Any) -> Any:
        return x * self.scale

    @functools.partial(minijit.jit, static_argnames="power")
    def powered(self, x: Any, power: int = 2) -> Any:
        return self.scale * x**power

    @minijit.jit
    @staticmethod
    def shifted(x: Any) -> Any:
        return x + 1

    @classmethod
    @minijit.jit
    def named(cls, x: Any) -> Any:
        return x + len(cls.__name__)


class Distracting:
    """Its attributes have the names of ours."""

    def __init__(self) -> None:
        self._cache = self._function = self._binder = self.lower = None

    def __call__(self, x: Any) -> Any:
        return x - 1


def same(device: Device, got: Any, want: Any) -> None:
    got_leaves, got_tree = flatten(device.get(got))
    want_leaves, want_tree = flatten(want)
    assert got_tree == want_tree
    for a, b in zip(got_leaves, want_leaves, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("function", "want"),
    [
        (abs, X),
        (np.sqrt, np.sqrt(X)),
        (jnp.sqrt, np.sqrt(X)),
        (len, 6),
        (functools.partial(added, b=2.0), X + 2),
        (functools.partial(added, 3.0), X + 3),
        (doubled, X * 2),
        (Distracting(), X - 1),
        (Model(3.0).apply, X * 3),
    ],
)
def test_callables_of_every_kind(device: Device, function: Any, want: Any) -> None:
    for _ in range(2):
        same(device, minijit.jit(function)(device.put(X)), want)


def test_names_and_documentation_are_the_functions() -> None:
    assert (doubled.__name__, doubled.__doc__) == ("doubled", "Twice as much.")
    assert doubled.__wrapped__(3) == 6
    assert minijit.jit(functools.partial(added, 1.0))(2.0) == 3
    with pytest.raises(TypeError, match="jit takes a function, not 3"):
        minijit.jit(3)


def test_unused_arguments_are_left_alone(device: Device) -> None:
    """One of them must not be taken for the result's memory."""
    x, unused = X.copy(), X.copy()
    for function in (lambda a, b: a.shape[0], lambda a, b: a * 2, lambda a, b: b + 1):
        f = minijit.jit(function)
        for _ in range(3):
            same(device, f(device.put(x), device.put(unused)), function(X, X))
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(unused, X)


def test_methods(device: Device, counts: Counter[str]) -> None:
    first, second = Model(2.0), Model(3.0)
    x = device.put(X)
    for _ in range(2):
        same(device, first.apply(x), X * 2)
        same(device, second.apply(x), X * 3)
        same(device, first.powered(x, power=3), 2 * X**3)
        same(device, first.powered(x), 2 * X**2)
    assert counts["trace"] == 4
    same(device, Model.shifted(x), X + 1)
    same(device, first.shifted(x), X + 1)
    same(device, Model.named(x), X + 5)


def test_signatures_with_everything(device: Device, counts: Counter[str]) -> None:
    def f(a: Any, /, b: Any, c: Any = 1.0, *rest: Any, d: Any, e: Any = 2.0, **more: Any) -> Any:
        total = a + 2 * b + 3 * c + 5 * d + 7 * e
        for k, value in enumerate(rest):
            total = total + 11 * (k + 1) * value
        for name in sorted(more):
            total = total + ord(name[0]) * more[name]
        return total

    g = minijit.jit(f)
    x = device.put(X)
    for args, kwargs in [
        ((x, 2.0), {"d": 3.0}),
        ((x,), {"d": 3.0, "b": 2.0}),
        ((x, 2.0, 4.0, 5.0, 6.0), {"d": 3.0, "e": 1.0}),
        ((x, 2.0), {"d": 3.0, "z": 1.0, "y": 2.0}),
        ((x, 2.0), {"y": 2.0, "d": 3.0, "z": 1.0}),
        ((x, 2.0), {"d": 3.0, "a": 4.0}),  # goes to **more, since `a` is by position only
    ]:
        plain = [X if arg is x else arg for arg in args]
        same(device, g(*args, **kwargs), f(*plain, **kwargs).astype(np.float32))
    assert counts["trace"] == 4


def test_calls_that_do_not_fit(device: Device) -> None:
    f = minijit.jit(added)
    for args, kwargs in [((X,), {}), ((X, X, X), {}), ((X, X), {"b": X}), ((X,), {"c": X})]:
        with pytest.raises(TypeError, match=r"added\(\)"):
            f(*args, **kwargs)
    assert f._cache_size() == 0


def test_containers_come_back_as_they_were_built(device: Device) -> None:
    def f(x: Any) -> Any:
        return {"z": x, "a": [x + 1, (None, 2)]}, Pair(x.min(), high=x.max()), x.shape[0], ()

    f2 = minijit.jit(f)
    for _ in range(2):
        tree, pair, count, empty = f2(device.put(X))
        same(device, (tree, pair, count, empty), f(X))
        assert list(tree) == ["z", "a"]
        assert type(pair) is Pair
    assert minijit.jit(lambda x: None)(device.put(X)) is None


def test_results_are_arrays_of_the_library(device: Device) -> None:
    f = minijit.jit(lambda x: (x, 1.5, x.sum()))
    results = f(device.put(X))
    for result in results:
        assert result.block_until_ready() is result
        if device.name == "cpu":
            assert isinstance(result, np.ndarray)
    assert minijit.block_until_ready(results) is results


def test_results_share_memory_with_nothing(device: Device) -> None:
    """Neither with arguments nor with each other: writing to one changes no other."""
    functions = [
        lambda x: (x, x),
        lambda x: (x * 2, x * 2),
        lambda x: (x.reshape(3, 2), x.reshape(2, 3).reshape(3, 2)),
        lambda x: (x.reshape(2, 3).T, x[::-1]),
        lambda x: (x.reshape(2, 3).T.reshape(2, 3), x[2:4]),
        lambda x: (np.broadcast_to(x, (2, 6)), x),
    ]
    for function in functions:
        x = X.copy()
        a, b = minijit.jit(function)(x if device.name == "cpu" else device.put(x))
        want = function(X)
        same(device, (a, b), want)
        a[...] = -1
        same(device, b, want[1])
        np.testing.assert_array_equal(x, X)


def test_results_survive_later_calls(device: Device) -> None:
    f = minijit.jit(lambda x: (x * 2, x.sum()))
    kept = [f(device.put(np.full(1000, k, np.float32))) for k in range(5)]
    for k, (y, total) in enumerate(kept):
        same(device, y, np.full(1000, 2 * k, np.float32))
        assert device.get(total) == 1000 * k


def test_one_array_as_two_arguments(device: Device) -> None:
    f = minijit.jit(lambda a, b: (a - b, a * b))
    x = device.put(X)
    for _ in range(2):
        same(device, f(x, x), (X - X, X * X))
    same(device, f(x, device.put(X + 1)), (X - (X + 1), X * (X + 1)))


def test_results_as_arguments(device: Device) -> None:
    f = minijit.jit(lambda a, b: (b, a + b))
    state: Any = (device.put(np.float64(0)), device.put(np.float64(1)))
    for _ in range(50):
        state = f(*state)
    assert device.get(state[0]) == 12586269025


def test_captured_arrays_are_read_at_each_call(device: Device, counts: Counter[str]) -> None:
    weights = device.put(X.copy())
    f = minijit.jit(lambda x: x + weights)
    same(device, f(device.put(X)), X + X)
    weights[:] = 5
    same(device, f(device.put(X)), X + 5)
    assert counts["trace"] == 1
    assert "5.0" not in f.lower(device.put(X)).as_text()


def test_pickling_and_copying() -> None:
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert copy.deepcopy(doubled) is doubled
    again = pickle.loads(pickle.dumps(minijit.jit(functools.partial(added, 1.0))))
    np.testing.assert_array_equal(again(X), X + 1)
    powered = minijit.jit(functools.partial(pow), static_argnums=1)
    assert copy.deepcopy(powered)(3.0, 2) == 9
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(minijit.jit(lambda x: x))


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ((i for i in range(3)), TypeError, "argument p: a value of type 'generator'"),
        ({"w": (X, "text")}, TypeError, r"argument p\['w'\]\[1\]: a value of type 'str'"),
        ([np.array([None])], TypeError, r"argument p\[0\]: .*object array"),
        (Pair(X, X.astype(">f4")), TypeError, r"argument p\.high: .*byte order"),
        (np.ones(2, complex), TypeError, "argument p: .*complex"),
        ({1}, TypeError, "argument p: a value of type 'set'"),
        ({"k": 2**70}, OverflowError, r"argument p\['k'\]: .*out of bounds"),
        (np.zeros(3, "i1,f4")["f1"], TypeError, "cannot be read in place"),
    ],
)
def test_refused_arguments_are_named(value: Any, error: type[Exception], message: str) -> None:
    f = minijit.jit(lambda p: p)
    for _ in range(2):
        with pytest.raises(error, match=message):
            f(value)
    assert f._cache_size() == 0


def test_shapes_that_do_not_broadcast(device: Device) -> None:
    f = minijit.jit(added)
    with pytest.raises((TypeError, ValueError), match=r"broadcast.*test_calls\.py"):
        f(device.put(np.ones(3)), device.put(np.ones(4)))
    assert f._cache_size() == 0


def test_misaligned_arrays_are_read_right() -> None:
    raw = np.zeros(4 * 1000 + 1, np.uint8)
    x = raw[1:].view(np.float32)
    x[:] = np.arange(1000)
    got, total = minijit.jit(lambda v: (v * 2 + 1, v.sum()))(x)
    np.testing.assert_array_equal(got, x * 2 + 1)
    assert total == x.sum()


SCALARS = [
    (lambda s: s.astype(np.int32), np.float32(2.7)),
    (lambda s: s.astype(np.int8), np.int64(300)),
    (lambda s: s.astype(np.uint64), np.int64(-1)),
    (lambda s: s.astype(np.float32), np.int64(2**54 + 2**30 + 1)),
    (lambda s: s.astype(np.float16), np.float64(1.00048828125001)),
    (lambda s: s.astype(bool), np.float64("nan")),
    (lambda s: s * np.float32(2), np.float16(1.5)),
    (lambda s: s + np.uint8(1), np.uint8(255)),
]


@pytest.mark.parametrize(("function", "value"), SCALARS)
def test_scalars_convert_as_arrays_do(device: Device, function: Any, value: Any) -> None:
    want = function(np.array([value]))[0]
    for argument in (value, device.put(np.array(value))):
        got = device.get(minijit.jit(function)(argument))
        assert (got.dtype, got[()]) == (want.dtype, want)


def test_a_python_float_becomes_an_integer(device: Device) -> None:
    assert device.get(minijit.jit(lambda s: jnp.asarray(s).astype(np.int32))(-2.7)) == -2

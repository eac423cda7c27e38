"""Jitted methods: what a bound one offers, and how long an instance lives."""

from __future__ import annotations

import dataclasses
import gc
import inspect
import pickle
import weakref
from collections import Counter
from typing import Any

import numpy as np
import pytest

import minijit

X = np.arange(6, dtype=np.float32)


class Model:
    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.weights = np.full(6, scale, np.float32)

    @minijit.jit
    def apply(self, x: Any, shift: Any = 0.0) -> Any:
        """Scale."""
        return x * self.scale + shift

    @minijit.jit
    def weighted(self, x: Any) -> Any:
        return x * self.weights

    @minijit.jit
    def total(*args: Any) -> Any:
        return args[0].scale * args[1]


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    scale: float

    @minijit.jit
    def apply(self, x: Any) -> Any:
        return x * self.scale


@dataclasses.dataclass(frozen=True)
class ByValue:
    scale: float

    @minijit.jit
    def apply(self, x: Any) -> Any:
        return x * self.scale


def test_a_bound_method_has_what_a_function_has(counts: Counter[str]) -> None:
    model = Model(2.0)
    Model.apply._as_method.clear_cache()
    lowered = model.apply.lower(X, shift=1.0)
    assert "mul" in lowered.as_text()
    np.testing.assert_array_equal(lowered.compile()(X, shift=3.0), X * 2 + 3)
    np.testing.assert_array_equal(model.apply(X, 5.0), X * 2 + 5)
    assert (counts["trace"], model.apply._cache_size()) == (1, 1)
    assert model.apply.stats()["kernels"] == 1
    model.apply.clear_cache()
    assert model.apply._cache_size() == 0


def test_a_bound_method_is_one() -> None:
    model = Model(2.0)
    bound = model.apply
    assert (bound.__name__, bound.__doc__, bound.__self__) == ("apply", "Scale.", model)
    assert list(inspect.signature(bound).parameters) == ["x", "shift"]
    np.testing.assert_array_equal(bound.__wrapped__(X), X * 2)
    assert bound == model.apply
    assert hash(bound) == hash(model.apply)
    assert bound != Model(2.0).apply
    assert bound != model.weighted
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(bound))(X), X * 2)
    np.testing.assert_array_equal(Model(3.0).total(X), X * 3)
    with minijit.disable_jit():
        np.testing.assert_array_equal(bound(X), X * 2)


def test_methods_inside_other_functions() -> None:
    model = Model(2.0)
    f = minijit.jit(lambda x: model.apply(x) + model.weighted(x))
    np.testing.assert_array_equal(f(X), X * 2 + X * 2)
    np.testing.assert_array_equal(minijit.jit(Model(3.0).apply)(X), X * 3)


@pytest.mark.parametrize("kind", [Model, ByValue])
def test_an_instance_and_its_programs_go_when_nothing_else_holds_it(kind: Any) -> None:
    method = kind.apply._as_method
    method.clear_cache()
    first, second = kind(2.0), kind(3.0)
    outer = minijit.jit(lambda x, model: model.apply(x), static_argnames="model")
    for _ in range(3):
        first.apply(X)
        second.apply(x=X)
    outer.lower(X, first)
    outer.clear_cache()  # its own static argument is held
    dead = weakref.ref(first)
    del first
    gc.collect()
    assert dead() is None
    assert method._cache_size() == 1
    np.testing.assert_array_equal(second.apply(X), X * 3)
    np.testing.assert_array_equal(kind(2.0).apply(X), X * 2)


def test_captured_arrays_of_a_dead_instance_go_as_well() -> None:
    model = Model(2.0)
    model.weighted(X)
    weights = weakref.ref(model.weights)
    del model
    gc.collect()
    Model.weighted._as_method._cache_size()  # where dead programs are dropped
    gc.collect()
    assert weights() is None


def test_equal_instances_share_programs(counts: Counter[str]) -> None:
    kept = [ByValue(5.0) for _ in range(3)]
    for instance in kept:
        np.testing.assert_array_equal(instance.apply(X), X * 5)
    assert counts["trace"] == 1
    for scale in (1.0, 2.0, 1.0):
        np.testing.assert_array_equal(Slotted(scale).apply(X), X * scale)
    assert counts["trace"] == 3


def test_instances_that_cannot_be_hashed_are_refused() -> None:
    @dataclasses.dataclass
    class Open:
        scale: float

        @minijit.jit
        def apply(self, x: Any) -> Any:
            return x * self.scale

    for _ in range(2):
        with pytest.raises(TypeError, match="static argument 'self' is not hashable"):
            Open(1.0).apply(X)

"""What jitted functions return: NumPy arrays, and values without axes that behave as scalars."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.backends.array import Array

double = minijit.jit(lambda x: x * 2)
mean = minijit.jit(lambda x: x.mean())
X = np.arange(8, dtype=np.float32)


def test_results_are_numpy_arrays_that_can_be_waited_for() -> None:
    result = double(X)
    assert isinstance(result, np.ndarray)
    assert result.block_until_ready() is result
    assert isinstance(mean(X), np.ndarray)


def test_what_numpy_computes_is_its_own() -> None:
    result = double(X)
    for value in (result + 1, np.exp(result), result > 3, np.concatenate([result, result])):
        assert type(value) is np.ndarray
    assert type(result.sum()) is np.float32
    assert type(result[1]) is np.float32
    assert type(mean(X) + 1) is np.float32


def test_an_array_is_changed_in_place() -> None:
    result = alias = double(X)
    result += 1
    result[0] = 7
    assert result is alias
    assert type(result) is Array
    np.testing.assert_array_equal(result, [7, 3, 5, 7, 9, 11, 13, 15])
    np.exp(X, out=result)
    np.testing.assert_array_equal(result, np.exp(X))


CHANGES: list[Callable[[Any, Any], Any]] = [
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.itruediv,
    operator.ifloordiv,
    operator.imod,
    operator.ipow,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_total_kept_in_a_list_does_not_change(change: Callable[[Any, Any], Any]) -> None:
    total: Any = mean(X)
    scalar: Any = np.float32(3.5)
    kept = []
    for _ in range(3):
        kept.append((total, scalar))
        total, scalar = change(total, 2), change(scalar, 2)
    assert [ours for ours, _ in kept] == [theirs for _, theirs in kept]
    assert type(total) is type(scalar)


@pytest.mark.parametrize(
    "change", [operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift]
)
def test_integer_totals_too(change: Callable[[Any, Any], Any]) -> None:
    total = minijit.jit(lambda x: x.sum())(np.arange(4))
    assert change(total, 3) == change(np.int64(6), 3)
    assert total == 6


def test_a_value_without_axes_is_hashed_rounded_and_formatted_like_a_scalar() -> None:
    value, scalar = mean(X), np.float32(3.5)
    assert hash(value) == hash(scalar)
    assert {value: "found"}[scalar] == "found"  # type: ignore[index]
    assert round(value, 1) == round(scalar, 1)
    assert round(value) == round(scalar)
    assert f"{value:.2f}" == "3.50"
    assert float(value) == 3.5


def test_an_array_with_axes_is_neither_hashed_nor_rounded() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(double(X))
    with pytest.raises(TypeError, match=r"numpy\.round"):
        round(double(X))


def test_pickles_need_no_minijit() -> None:
    result = double(X)
    data = pickle.dumps(result)
    assert b"minijit" not in data
    np.testing.assert_array_equal(pickle.loads(data), result)
    assert type(copy.deepcopy(result)) is Array

"""Promotion is NumPy's: the loops of its ufuncs, weak Python scalars, integers that must fit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import minijit.numpy.elementwise as mnp
from minijit.graph.aval import ShapedArray
from minijit.graph.evaluate import evaluate
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.trace import abstractify, trace_function
from minijit.ops.promote import convert, loop_dtypes
from tests.ops.samples import DTYPES

Function = Any


def traced(function: Function, *args: Any) -> Jaxpr:
    avals = [abstractify(arg) for arg in args]
    return trace_function(lambda xs: [function(*xs)], avals, ["x"] * len(args), "f").jaxpr


def assert_as_numpy(function: Function, *args: Any) -> None:
    jaxpr = traced(function, *args)
    (got,) = evaluate(jaxpr, args)
    with np.errstate(all="ignore"):
        want = function(*args)
    assert jaxpr.out_avals[0].dtype == np.asarray(got).dtype == want.dtype
    assert jaxpr.out_avals[0].shape == np.shape(got) == want.shape
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)), ids=str)
def test_two_arrays(a: np.dtype[Any], b: np.dtype[Any]) -> None:
    x, y = np.array([1, 0, 3], a), np.array([1, 1, 2], b)
    assert_as_numpy(lambda x, y: x + y, x, y)
    assert_as_numpy(lambda x, y: x / y, x, y)
    assert_as_numpy(lambda x, y: x < y, x, y)
    assert_as_numpy(lambda x, y: np.where(x > 1, x, y), x, y)


WITH_SCALARS = (
    lambda v: v + 2,
    lambda v: v * 2.5,
    lambda v: 7 - v,
    lambda v: v / 2,
    lambda v: v // 2,
    lambda v: v % 2,
    lambda v: v > 1,
    lambda v: v**2,
    lambda v: 2.0**v,
    lambda v: True + v,
    lambda v: np.maximum(v, 1),
    lambda v: np.where(v > 1, v, 0),
    lambda v: np.where(v > 1, 1.5, v),
    lambda v: np.clip(v, 1, 2),
    lambda v: v + np.float32(1.5),
    lambda v: v * np.int8(3),
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("position", range(len(WITH_SCALARS)))
def test_array_with_scalar(dtype: np.dtype[Any], position: int) -> None:
    assert_as_numpy(WITH_SCALARS[position], np.array([1, 0, 3], dtype))


def test_traced_python_scalars_stay_weak() -> None:
    single = np.ones(3, np.float32)
    for scalar in (2, 2.5):
        jaxpr = traced(lambda x, s: (s * 2 + 1.0) * x, single, scalar)
        assert jaxpr.out_avals[0].dtype == np.float32
    assert traced(lambda s: s + 1, 2).out_avals[0] == ShapedArray((), np.dtype(np.int64), True)
    assert traced(lambda s: s / 2, 2).out_avals[0] == ShapedArray((), np.dtype(np.float64), True)


def test_python_integers_must_fit() -> None:
    for bad in (300, -1, 2**40, 2**70):
        with pytest.raises(OverflowError, match="out of bounds for uint8"):
            traced(lambda x, bad=bad: x + bad, np.array([1, 2], np.uint8))
    assert_as_numpy(lambda x: x + 2**63, np.array([1, 2], np.uint64))
    assert_as_numpy(lambda x: x * 2**70, np.array([1, 2], np.float32))


COMPARISONS = ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__")


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparison_with_integers_out_of_range(name: str) -> None:
    for dtype, value in ((np.uint8, -1), (np.uint8, 300), (np.int64, 2**70), (np.uint64, -(2**70))):
        x = np.array([[0, 7, 127]], dtype)
        assert_as_numpy(lambda x, value=value: getattr(x, name)(value), x)


@pytest.mark.parametrize(
    "name", ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]
)
def test_int64_against_uint64_is_exact(name: str) -> None:
    signed = np.array([-1, -(2**63), 0, 2**63 - 1, 5, 2**63 - 1], np.int64)
    unsigned = np.array([2**64 - 1, 2**63, 0, 2**63, 5, 2**63 - 1], np.uint64)
    function = getattr(mnp, name)
    for x, y in ((signed, unsigned), (unsigned, signed)):
        (got,) = evaluate(traced(function, x, y), (x, y))
        np.testing.assert_array_equal(got, getattr(np, name)(x, y))


def test_result_dtype_option() -> None:
    x = np.array([1, 2, 3], np.int32)
    assert_as_numpy(lambda x: np.add(x, x, dtype=np.float32), x)
    assert_as_numpy(lambda x: np.exp(x, dtype=np.float32), x)


def test_refusals_name_the_line() -> None:
    bools = np.array([True, False])
    for bad in (lambda x: -x, lambda x: x - x):
        with pytest.raises(TypeError, match=r"test_promote\.py"):
            traced(bad, bools)
    with pytest.raises(ValueError, match=r"do not broadcast together \(at test_promote\.py"):
        traced(lambda x, y: x + y, np.ones(3), np.ones(4))


def test_constants_are_cast_once() -> None:
    assert convert(3, np.dtype(np.float32)).dtype == np.float32
    assert type(convert(3, np.dtype(np.float64), weak_type=True)) is float
    assert loop_dtypes(np.sqrt, [ShapedArray((), np.dtype(np.int8))])[0] == np.float16

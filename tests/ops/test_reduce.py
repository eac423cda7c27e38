"""Reductions: NumPy's results over any axes, and monoids that combine in any grouping."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from numpy.exceptions import AxisError

import minijit
import minijit.numpy as mnp
from minijit.graph.check import check_jaxpr
from minijit.graph.evaluate import evaluate
from minijit.graph.primitive import Monoid, Primitive, all_primitives
from minijit.graph.trace import abstractify, trace_function
from minijit.ops.define import reduction
from minijit.ops.reduce import argmax_p, argmin_p
from tests.conftest import Device, on_each_device
from tests.ops.samples import DTYPES, assert_near, reduction_primitives, special_values
from tests.sampling import sampled

Function = Callable[..., Any]


def run(function: Function, *args: Any) -> Any:
    """Trace, check, evaluate; the declared type must be that of the value."""
    avals = [abstractify(arg) for arg in args]
    names = ["x"] * len(args)
    jaxpr = trace_function(lambda xs: [function(*xs)], avals, names, "f").jaxpr
    check_jaxpr(jaxpr)
    (got,) = evaluate(jaxpr, args)
    aval = jaxpr.out_avals[0]
    assert (aval.shape, aval.dtype) == (np.shape(got), np.asarray(got).dtype)
    return got


def assert_as_numpy(function: Function, *args: Any, rtol: float = 1e-6) -> None:
    got = run(function, *args)
    with np.errstate(all="ignore"):
        want = np.asarray(function(*args))
    assert (np.shape(got), np.asarray(got).dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=rtol)


X = (np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5) * 7) % 31 - 15
AXES = (None, 0, 1, -1, -4, (0, 1), (1, 0), (-1, 0), (1, 3), (3, 1), (0, 1, 2, 3), ())
NAMES = ("sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "ptp")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_axes_and_keepdims(name: str, axis: Any) -> None:
    for keepdims in (False, True):
        function = getattr(np, name)
        assert_as_numpy(functools.partial(function, axis=axis, keepdims=keepdims), X, rtol=1e-5)
        if name != "ptp":  # no longer a method in NumPy 2
            assert_as_numpy(operator.methodcaller(name, axis=axis, keepdims=keepdims), X, rtol=1e-5)


@pytest.mark.parametrize("name", ["argmax", "argmin", "cumsum", "cumprod"])
def test_one_axis(name: str) -> None:
    for axis in (None, 0, 1, -1):
        assert_as_numpy(functools.partial(getattr(np, name), axis=axis), X, rtol=1e-5)
    assert_as_numpy(operator.methodcaller(name), np.float32(3))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [*NAMES, "argmax", "argmin", "count_nonzero", "cumsum", "nansum"])
def test_result_types(name: str, dtype: np.dtype[Any]) -> None:
    if name == "ptp" and dtype.kind == "b":
        with pytest.raises(TypeError):
            run(np.ptp, np.ones((2, 3), dtype))
        return
    x = np.array([[1, 0, 3], [1, 1, 2]], dtype)
    function = getattr(np, name)
    assert_as_numpy(functools.partial(function, axis=1), x, rtol=2e-3)
    assert_as_numpy(function, x, rtol=2e-3)


@on_each_device("dtype", DTYPES, emulated=sampled(DTYPES, 2, 1))
def test_compiled_result_types(device: Device, dtype: np.dtype[Any]) -> None:
    """What the sweeps of tests/test_numerics.py leave out, all in one program."""
    x = np.array([[1, 0, 3], [1, 1, 2]], dtype)
    names = ["std", "count_nonzero", "cumsum", "cumprod", "nansum", *["ptp"] * (dtype.kind != "b")]

    def function(x: Any) -> dict[str, Any]:
        return {
            f"{name} {axis}": getattr(np, name)(x, axis=axis)
            for name in names
            for axis in (1, None)
        }

    want = function(x)
    for name, got in device.get(minijit.jit(function)(device.put(x))).items():
        assert_near(got, want[name])


@pytest.mark.parametrize("axis", [(0, 0), (1, -3), 4, -5, (0, 7)], ids=str)
def test_bad_axes_are_refused(axis: Any) -> None:
    with pytest.raises((ValueError, IndexError)):
        run(lambda v: v.sum(axis=axis), X)


def test_options() -> None:
    mask = X > 0
    assert_as_numpy(lambda v: np.sum(v, 1, initial=3), X)
    assert_as_numpy(lambda v: np.prod(v / 8, 1, initial=2), X)
    assert_as_numpy(lambda v: np.max(v, 1, initial=4), X)
    assert_as_numpy(lambda v: np.min(v, initial=-100), X)
    assert_as_numpy(lambda v: np.sum(v, axis=1, dtype=np.float64), X)
    assert_as_numpy(lambda v, m: np.sum(v, axis=1, where=m), X, mask)
    assert_as_numpy(lambda v, m: np.max(v, axis=1, where=m, initial=-1), X, mask)
    assert_as_numpy(lambda v, m: np.mean(v, axis=1, where=m), X, mask)
    assert_as_numpy(lambda v, m: np.var(v, axis=(0, 1), where=m, ddof=1), X, mask, rtol=1e-5)
    assert_as_numpy(lambda v, m: np.any(v, axis=1, where=m), X, mask)
    assert_as_numpy(lambda v: np.std(v, 1, ddof=1), X, rtol=1e-5)
    assert_as_numpy(lambda v: np.var(v, 1, mean=np.mean(v, 1, keepdims=True)), X, rtol=1e-5)
    with pytest.raises(ValueError, match="initial"):
        run(lambda v, m: np.max(v, axis=1, where=m), X, mask)
    with pytest.raises(TypeError, match="out="):
        run(lambda v: v.sum(None, None, np.zeros(())), X)


def test_ufunc_reductions() -> None:
    assert_as_numpy(lambda v: np.add.reduce(v), X)
    assert_as_numpy(lambda v: np.add.reduce(v, axis=None, dtype=np.float64), X)
    assert_as_numpy(lambda v: np.maximum.reduce(v, axis=(1, 2), keepdims=True), X)
    assert_as_numpy(lambda v: np.multiply.reduce(v, axis=-1), X)
    assert_as_numpy(lambda v: np.logical_or.reduce(v, axis=-1), X)


def test_average_and_logsumexp() -> None:
    x = X[0, 0]
    weights = np.array([1, 2, 3, 4, 5], np.float32)
    assert_as_numpy(lambda v: np.average(v), x)
    assert_as_numpy(lambda v, w: np.average(v, -1, w), x, weights)
    assert_as_numpy(lambda v, w: np.average(v, 0, w), x, weights[:4])
    assert_as_numpy(lambda v: np.average(v, 0, np.arange(4), keepdims=True), x)
    rows = np.array([[1000, 1000], [-np.inf, -np.inf], [np.inf, 1], [np.nan, 1]], np.float32)
    got = run(lambda v: mnp.logsumexp(v, axis=1), rows)
    np.testing.assert_allclose(got, [1000 + np.log(2), -np.inf, np.inf, np.nan], rtol=1e-6)
    assert run(lambda v: mnp.logsumexp(v, axis=0, keepdims=True), rows).shape == (1, 2)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_functions() -> None:
    x = np.array([[1, np.nan, 3], [np.nan, -5, 2], [np.nan] * 3], np.float32)
    for name in ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd"):
        function = getattr(np, name)
        for axis in (None, 0, 1):
            assert_as_numpy(functools.partial(function, axis=axis), x)
            assert_as_numpy(functools.partial(function, axis=axis, keepdims=True), x)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_empty() -> None:
    for name in ("sum", "prod", "any", "all", "mean"):
        function = getattr(np, name)
        for shape, axis in (((3, 0), 1), ((0, 3), 1), ((0,), None), ((0, 0), 0)):
            assert_as_numpy(functools.partial(function, axis=axis), np.zeros(shape, np.float32))
    assert_as_numpy(lambda v: np.max(v, axis=1), np.zeros((0, 3)))
    assert_as_numpy(lambda v: np.max(v, axis=1, initial=5), np.zeros((3, 0)))
    for name in ("max", "min", "argmax", "argmin"):
        for shape in ((3, 0), (0, 0)):
            with pytest.raises(ValueError, match=r"zero-size|empty"):
                run(functools.partial(getattr(np, name), axis=1), np.zeros(shape))


def test_nan_and_first_position() -> None:
    x = np.array([[1, np.nan, 3, np.nan], [2, 5, 5, 1]], np.float32)
    for name in ("max", "min", "argmax", "argmin"):
        function = getattr(np, name)
        assert_as_numpy(functools.partial(function, axis=1), x)
        assert_as_numpy(function, x)


@functools.cache
def combiner(primitive: Primitive, dtype: np.dtype[Any]) -> Any:
    assert primitive.monoid is not None
    return numba.njit(error_model="numpy")(primitive.monoid.combine(dtype))


ACCUMULATED = tuple(map(np.dtype, ("bool", "int8", "int64", "uint64", "float32", "float64")))
TYPES = {"reduce_any": ("bool",), "reduce_all": ("bool",)}
TYPES |= dict.fromkeys(("reduce_sum", "reduce_prod"), ("int64", "uint64", "float32", "float64"))


@pytest.mark.parametrize("primitive", reduction_primitives(), ids=str)
def test_monoid_in_any_grouping(primitive: Primitive) -> None:
    """Fold compiled code over chunks, combined in random order where positions allow it."""
    monoid = primitive.monoid
    assert monoid is not None
    rng = np.random.default_rng(0)
    for name in TYPES.get(primitive.name, tuple(d.name for d in ACCUMULATED)):
        dtype = np.dtype(name)
        combine = combiner(primitive, dtype)
        start = monoid.identity(dtype)
        assert start[0].dtype == dtype
        for values in _rows(rng, dtype, primitive.name):
            positions = np.arange(values.size)
            cells = (
                [tuple(part) for part in zip(values, positions, strict=True)]
                if monoid.position
                else [(value,) for value in values]
            )
            order = rng.permutation(values.size) if monoid.position else positions
            chunks = [
                _fold(combine, [start, *(cells[i] for i in chunk)], dtype)
                for chunk in np.array_split(order, 4)
            ]
            got = _fold(combine, [start, *chunks], dtype)[monoid.result]
            with np.errstate(all="ignore"):
                want = primitive.eager(np, values, axes=(0,))
            assert got == want or (got != got and want != want), (values, got, want)


def _rows(rng: np.random.Generator, dtype: np.dtype[Any], name: str) -> list[Any]:
    """Few distinct values, so that there are ties; sums and products of small exact numbers."""
    if name in ("reduce_sum", "reduce_prod"):
        return [rng.integers(1, 3, size).astype(dtype) for size in (1, 5, 17)]
    corners = special_values(dtype)
    rows = [rng.choice(rng.choice(corners, 3), size) for size in (1, 5, 17) for _ in range(12)]
    return [*rows, *(np.full(9, value, dtype) for value in corners)]


def _fold(combine: Any, parts: list[Any], dtype: np.dtype[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        result = combine(*total, *part)
        if len(total) == 1:
            with np.errstate(over="ignore"):
                total = (np.asarray(result).astype(dtype)[()],)
        else:
            total = (dtype.type(result[0]), np.int64(result[1]))
    return total


FOLDS = ("sum", "prod", "max", "min", "any", "all", "ptp", "count_nonzero", "nansum", "nanmax")
POSITIONS = ("argmax", "argmin", "cumsum", "cumprod")


@pytest.mark.parametrize("name", [*FOLDS, *POSITIONS])
@pytest.mark.parametrize("axis", [0, -1])
def test_arrays_without_axes_have_two_names_for_none(name: str, axis: int) -> None:
    function = functools.partial(getattr(np, name), axis=axis)
    assert_as_numpy(function, np.array(3.0, np.float32))
    if name in FOLDS:
        assert_as_numpy(functools.partial(function, keepdims=True), np.array(3.0, np.float32))


@pytest.mark.parametrize(
    ("name", "axis"), [("sum", 1), ("sum", (0,)), ("argmax", 1), ("mean", 0), ("var", -1)]
)
def test_other_axes_of_arrays_without_axes_are_refused_as_in_numpy(name: str, axis: Any) -> None:
    function = functools.partial(getattr(np, name), axis=axis)
    for call in (function, functools.partial(run, function)):
        with pytest.raises(AxisError):
            call(np.array(3.0, np.float32))


@pytest.mark.parametrize("primitive", [argmax_p, argmin_p], ids=str)
def test_eager_positions_of_no_rows(primitive: Primitive) -> None:
    assert primitive.eager(np, np.zeros((0, 3)), axes=(1,)).shape == (0,)
    assert primitive.eager(np, np.zeros((2, 0, 3, 4)), axes=(2, 3)).shape == (2, 0)


def test_a_monoid_has_its_name_for_itself() -> None:
    subtle = Monoid("sum", lambda dtype: lambda x, y: x + y + 1, lambda dtype: (dtype.type(0),))
    with pytest.raises(ValueError, match="another monoid named 'sum'"):
        reduction(
            "reduce_subtly",
            monoid=subtle,
            result_dtype=lambda dtype: dtype,
            doc="Not a sum.",
            eager=lambda xp, x, axes: x,
        )
    assert "reduce_subtly" not in {primitive.name for primitive in all_primitives()}

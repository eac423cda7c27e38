"""Functions composed of primitives, and NumPy's and CuPy's spellings of them."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as mnp
from minijit.graph.check import check_jaxpr
from minijit.graph.evaluate import evaluate
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.trace import abstractify, trace_function
from tests.conftest import Device
from tests.ops.samples import assert_near, special_values

Function = Callable[..., Any]
F32 = special_values(np.dtype(np.float32))
F64 = special_values(np.dtype(np.float64))
F16 = special_values(np.dtype(np.float16))
I32 = special_values(np.dtype(np.int32))
U8 = special_values(np.dtype(np.uint8))
BOOLS = np.array([False, True])


def traced(function: Function, *args: Any) -> Jaxpr:
    def flat(tracers: list[Any]) -> list[Any]:
        result = function(*tracers)
        return list(result) if isinstance(result, tuple) else [result]

    avals = [abstractify(arg) for arg in args]
    jaxpr = trace_function(flat, avals, ["x"] * len(args), "f").jaxpr
    check_jaxpr(jaxpr)
    return jaxpr


@pytest.fixture
def assert_as_numpy(device: Device) -> Callable[..., None]:
    """``check(f, *args)``: ``f`` traced, and compiled for the device, gives what NumPy gives."""

    def check(function: Function, *args: Any, ulp: int = 0, signs: bool = True) -> None:
        with np.errstate(all="ignore"):
            want = function(*args)
            compiled = minijit.jit(lambda *values: function(*values))
            ways = [compiled(*map(device.put, args))]
            if device.name == "cpu":
                ways.append(evaluate(traced(function, *args), args))
        for got in map(device.get, ways):
            for g, w in zip(
                *(r if isinstance(r, (tuple, list)) else (r,) for r in (got, want)), strict=True
            ):
                assert_near(g, w, ulp)
                w = np.asarray(w)
                if w.dtype.kind == "f" and signs:
                    numbers = ~np.isnan(w)
                    np.testing.assert_array_equal(np.signbit(g)[numbers], np.signbit(w)[numbers])

    return check


def operations(jaxpr: Jaxpr) -> list[str]:
    return [eqn.primitive.name for eqn in jaxpr.eqns]


BOUNDS = ((0, 1), (None, 1), (0, None), (3, 1), (np.nan, 1), (0, np.nan), (-np.inf, np.inf))


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_clip(assert_as_numpy: Any, low: Any, high: Any) -> None:
    signs = low != 0  # which zero is the larger NumPy leaves open
    assert_as_numpy(
        lambda v, w: (np.clip(v, low, high), v.clip(low, high), np.clip(w, min=low, max=high)),
        F32,
        F64,
        signs=signs,
    )


def test_clip_of_integers(assert_as_numpy: Any) -> None:
    assert_as_numpy(lambda v: np.clip(v, -1, 300), U8)
    assert_as_numpy(lambda v: np.clip(v, 1, 1.5), U8)
    assert_as_numpy(lambda v, low: np.clip(v, low, 10), I32, np.int64(2))
    with pytest.raises(OverflowError):
        traced(lambda v: np.clip(v, 300, None), U8)


@pytest.mark.parametrize("decimals", [0, 1, 3, -1, -2])
def test_round(assert_as_numpy: Any, decimals: int) -> None:
    values = (F32[np.abs(F32) < 1e30], F64[np.abs(F64) < 1e200], I32 // 2, U8)
    assert_as_numpy(
        lambda *vs: tuple(each for v in vs for each in (np.round(v, decimals), v.round(decimals))),
        *(np.resize(v, F64.size) for v in values),
    )


def test_whole_numbers(assert_as_numpy: Any) -> None:
    assert_as_numpy(lambda v: (np.rint(v), np.trunc(v), np.fix(v), np.floor(v), np.ceil(v)), F32)


def test_quotients_with_rest(assert_as_numpy: Any) -> None:
    for x, y in ((F32[:, None], F32), (I32[:, None], I32), (U8[:, None], U8), (F16[:, None], F16)):
        assert_as_numpy(lambda x, y: (*np.divmod(x, y), x // y, x % y, np.fmod(x, y)), x, y)
    assert_as_numpy(lambda v: divmod(v, 3), I32)
    assert_as_numpy(np.modf, F32)


def test_nan_to_num_and_tests(assert_as_numpy: Any) -> None:
    assert_as_numpy(np.nan_to_num, F32)
    assert_as_numpy(lambda v: np.nan_to_num(v, nan=1.0, posinf=2.0, neginf=-3.0), F64)
    assert_as_numpy(np.nan_to_num, I32)
    assert_as_numpy(lambda v: (np.isposinf(v), np.isneginf(v)), F32)
    assert_as_numpy(lambda a, b: np.isclose(a, b), F32[:, None], F32)
    assert_as_numpy(lambda a, b: np.isclose(a, b, equal_nan=True, rtol=0.1), F32[:, None], F32)
    assert_as_numpy(lambda a, b: np.isclose(a, b), I32[:, None], I32)
    assert_as_numpy(np.sinc, np.linspace(-3, 3, 13), ulp=4)
    assert_as_numpy(lambda v: (v.real, np.imag(v), np.conj(v), v.conj()), F32)


POWERS = (0, 1, 2, 3, 5, 10, 0.5, -1, 2.0, True, np.float32(2), np.float64(0.5), np.int8(2))


@pytest.mark.parametrize("exponent", POWERS, ids=repr)
def test_constant_powers(assert_as_numpy: Any, exponent: Any) -> None:
    compared: list[Any] = []
    for values in (F16, F32, F64, I32, U8, BOOLS):
        if values.dtype.kind in "iub" and exponent == -1:
            continue
        with np.errstate(all="ignore"):
            want = values**exponent
        assert traced(lambda v: v**exponent, values).out_avals[0].dtype == want.dtype
        exact = (0, 1, 2, 0.5, -1) if values.dtype.kind == "f" else range(100)
        if exponent in exact:
            compared.append(np.resize(values, F64.size))  # of one length: one kernel
    assert_as_numpy(lambda *vs: tuple(v**exponent for v in vs), *compared)
    # np.power(-inf, 0.5) is inf in float16 alone.
    compared = [values for values in compared if values.dtype != np.float16]
    assert_as_numpy(lambda *vs: tuple(np.power(v, exponent) for v in vs), *compared)


def test_powers_as_the_user_hopes() -> None:
    single = np.ones(3, np.float32)
    assert operations(traced(lambda v: v**2, single)) == ["square"]
    assert operations(traced(lambda v: v**0.5, single)) == ["sqrt"]
    assert operations(traced(lambda v: v**3, single)) == ["square", "mul"]
    assert operations(traced(lambda v: 2.0**v, single)) == ["exp2"]
    assert operations(traced(lambda v: 3.0**v, single)) == ["pow"]
    for bad in (-2, np.int32(-2)):
        with pytest.raises(ValueError, match="negative integer powers"):
            traced(lambda v, bad=bad: v**bad, np.array([1, 2], np.int32))
    with pytest.raises(OverflowError):
        traced(lambda v: v**300, U8)


def test_where(assert_as_numpy: Any) -> None:
    mask = np.array([[True], [False]])
    assert_as_numpy(lambda m, v: np.where(m, v, 0), mask, F32)
    assert_as_numpy(lambda m, v: np.where(m, np.inf, v), mask, F32)
    assert_as_numpy(lambda m, v: np.where(v, v, m), mask, F32)
    assert_as_numpy(lambda m: np.where(m, 1, 2), mask)
    with pytest.raises(TypeError, match=r"where\(condition, x, y\)"):
        traced(np.where, mask)


def test_casts(assert_as_numpy: Any) -> None:
    values = np.array([-1.9, -0.5, 0.0, 0.5, 2.7, 100.0], np.float32)
    for name in ("int32", "bool", "float16", "float64", "int8"):
        assert_as_numpy(operator.methodcaller("astype", name), values)
    assert_as_numpy(lambda v: (v.astype(np.uint8), np.astype(v, np.int8)), I32)
    with pytest.raises(TypeError, match="safe"):
        traced(lambda v: v.astype(np.int32, casting="safe"), values)
    with pytest.raises(TypeError, match="complex"):
        traced(lambda v: v.astype(np.complex64), values)


def test_sigmoid_and_erf_against_their_definitions() -> None:
    x = np.linspace(-20, 20, 101)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(mnp.sigmoid(x), 1 / (1 + np.exp(-x)), rtol=1e-14)
    special = pytest.importorskip("scipy.special")
    np.testing.assert_allclose(mnp.erf(x), special.erf(x), rtol=1e-15)
    np.testing.assert_allclose(mnp.erfc(x), special.erfc(x), rtol=1e-13)
    for function in (mnp.erf, mnp.erfc, mnp.sigmoid, mnp.rsqrt):
        assert function(np.float32(0.5)).dtype == np.float32
        assert function(np.array([1, 2], np.int32)).dtype == np.float64


def test_nothing_is_traced_outside_of_a_trace() -> None:
    assert type(mnp.add(np.ones(2), 1)) is np.ndarray
    out = np.zeros(2)
    assert mnp.add(np.ones(2), 1, out=out) is out
    assert mnp.add(1, 2, dtype=np.float32).dtype == np.float32
    assert mnp.sum([1, 2, 3]) == 6
    assert mnp.max(np.ones((2, 2)), axis=0).shape == (2,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isnan(mnp.mean(np.zeros(0)))


def test_options_that_cannot_be_traced() -> None:
    for options in ({"out": np.zeros(2)}, {"where": np.ones(2, bool)}):
        with pytest.raises(TypeError, match=next(iter(options))):
            traced(lambda v, o=options: mnp.add(v, 1, **o), np.ones(2))
    assert operations(traced(lambda v: mnp.add(v, 1, out=None), np.ones(2))) == ["add"]


def test_cupy_spellings() -> None:
    cp = pytest.importorskip("cupy")
    single = np.ones((2, 3), np.float32)
    assert operations(traced(cp.exp, single)) == ["exp"]
    assert operations(traced(cp.deg2rad, single)) == ["radians"]
    assert operations(traced(cp.true_divide, single, single)) == ["div"]
    assert operations(traced(lambda v: cp.where(v > 0, v, 0), single)) == ["gt", "select"]
    assert operations(traced(lambda v: cp.clip(v, 0, 1), single)) == ["max", "min"]
    assert operations(traced(lambda v: cp.sum(v), single)) == ["reduce_sum"]
    assert operations(traced(lambda v: cp.max(v, axis=1), single)) == ["reduce_max"]
    assert operations(traced(lambda v: cp.argmax(v, axis=1), single)) == ["argmax"]
    assert operations(traced(lambda v: cp.mean(v, axis=0), single)) == ["reduce_sum", "div"]
    for name in ("var", "std", "prod", "min", "ptp"):
        assert traced(functools.partial(getattr(cp, name), axis=0), single).out_avals[0].shape == (
            3,
        )

"""Traced Python numbers: what their array's dtype cannot hold is compared, or refused."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
from tests.conftest import Device, on_each_device
from tests.sampling import sampled

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


def around_limits(dtype: str) -> list[int]:
    limits = np.iinfo(dtype)
    numbers = {limits.min - 1, limits.min, -1, 0, 5, limits.max, limits.max + 1, 2**40, -(2**63)}
    return sorted(number for number in numbers if -(2**63) <= number < 2**63)


@on_each_device("dtype", INTEGERS, emulated=sampled(INTEGERS, 3))
def test_comparisons(device: Device, dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.array([limits.min, 0, 5, limits.max], dtype)

    def apply(x: Any, s: Any) -> list[Any]:
        return [compare(*pair) for compare in COMPARISONS for pair in ((x, s), (s, x))]

    f = minijit.jit(apply)
    for number in around_limits(dtype):
        for got, want in zip(device.get(f(device.put(x), number)), apply(x, number), strict=True):
            np.testing.assert_array_equal(got, want, err_msg=str(number))
    assert f._cache_size() == 1


@pytest.mark.parametrize("dtype", INTEGERS)
def test_arithmetic(device: Device, dtype: str) -> None:
    x = np.array([1, 2], dtype)
    f = minijit.jit(lambda x, s: x + s)
    for number in around_limits(dtype):
        try:
            want = x + number
        except OverflowError as error:
            with pytest.raises(OverflowError, match=str(error)):
                f(device.put(x), number)
        else:
            np.testing.assert_array_equal(device.get(f(device.put(x), number)), want)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_floats_become_infinite(device: Device, dtype: str) -> None:
    got = device.get(minijit.jit(lambda x, s: x + s)(device.put(np.ones(2, dtype)), -1e300))
    assert got.dtype == dtype
    assert (got == -np.inf).all()


def test_a_constant_beyond_int64_decides_the_comparison_with_a_traced_number() -> None:
    got = minijit.jit(lambda s: (s < 2**70, s == 2**64))(3)
    assert [bool(value) for value in got] == [True, False]


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x == None,  # noqa: E711 - what is tested
        lambda x: None != x,  # noqa: E711, SIM300
        lambda x: "ab" * x,
        lambda x: x + "ab",
        lambda x: np.maximum(x, b"ab"),
    ],
)
def test_what_is_no_number_is_refused_with_the_line(operation: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"no operand .* \(at test_scalars\.py:\d+"):
        minijit.jit(operation)(np.ones(3, np.float32))


def test_round_of_python() -> None:
    x = np.array([1.26, 2.5], np.float32)
    np.testing.assert_array_equal(minijit.jit(lambda x: round(x, 1))(x), x.round(1))


def test_leaked_values_are_named_before_their_shapes_matter() -> None:
    kept: list[Any] = []
    minijit.jit(lambda x: (kept.append(x), x)[1])(np.ones(3, np.float32))
    uses: list[Callable[[Any], Any]] = [
        lambda x: x + kept[0],
        lambda x: np.where(x > 0, x, kept[0]),
        lambda x: np.concatenate([x[None], kept[0]]),
        lambda x: x @ kept[0],
        lambda x: kept[0].reshape(7),
        lambda x: kept[0][5],
        lambda x: kept[0].sum(3),
    ]
    for use in uses:
        with pytest.raises(minijit.UnexpectedTracerError, match="outlived"):
            minijit.jit(use)(np.ones(4, np.float32))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_roots_are_those_of_the_spelling(dtype: str) -> None:
    """NumPy's operator takes square roots, and so do its loops except that of float16."""
    x = np.array([-np.inf, -0.0, 4, -1, np.nan, np.inf], dtype)

    def apply(x: Any) -> list[Any]:
        half = np.dtype(dtype).type(0.5)
        return [x**0.5, np.power(x, 0.5), x**half, np.power(x, half)]

    with np.errstate(all="ignore"):
        for got, want in zip(minijit.jit(apply)(x), apply(x), strict=True):
            np.testing.assert_array_equal(got, want)
            number = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_zeros_of_float16(name: str) -> None:
    x = np.array([-0.0, 0.0, -0.0, 0.0, np.nan, 1], np.float16)
    y = np.array([0.0, -0.0, -0.0, 0.0, 1, np.nan], np.float16)
    got, want = minijit.jit(getattr(np, name))(x, y), getattr(np, name)(x, y)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[:4]), np.signbit(want[:4]))

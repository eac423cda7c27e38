"""Functions made for float16 results, at every number of that type."""

from __future__ import annotations

import numpy as np
import pytest

import minijit
from minijit.kernels.math import HALF_FUNCTIONS
from minijit.lowering.symbols import Symbol, resolve
from tests.kernels.math.reference import library, loop

EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
OPERATIONS = {"exp": np.exp, "sigmoid": minijit.lax.logistic}
OPERATIONS |= {name: getattr(np, name) for name in ("sin", "cos", "tan", "log2", "log10")}


def units(value: np.ndarray) -> np.ndarray:
    """The unit of the last place that a float16 next to each value has."""
    return np.ldexp(1.0, np.clip(np.frexp(value)[1] - 1, -14, 15) - 10)


@pytest.mark.parametrize("name", HALF_FUNCTIONS)
def test_is_hardly_more_than_half_a_unit_from_the_exact_value(name: str) -> None:
    x = EVERY.astype(np.float32)
    out = np.empty_like(x)
    loop(resolve(Symbol(*HALF_FUNCTIONS[name])), 1)(x, out)
    with np.errstate(all="ignore"):
        got, value = out.astype(np.float16), library(name)(EVERY.astype(np.float64))
    nan = np.isnan(value)
    np.testing.assert_array_equal(np.isnan(got), nan)
    # Infinity counts as the power of two that follows the largest finite number.
    result, value = (np.clip(y[~nan].astype(np.float64), -65536.0, 65536.0) for y in (got, value))
    assert (np.abs(result - value) <= 0.52 * units(value)).all()


@pytest.mark.parametrize("name", HALF_FUNCTIONS)
def test_operations_in_float16_are_computed_by_them(name: str) -> None:
    jitted = minijit.jit(OPERATIONS[name])
    with np.errstate(all="ignore"):
        wanted = library(name)(EVERY.astype(np.float64)).astype(np.float16)
    got = jitted(EVERY)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=2.0**-10, atol=2.0**-24)
    (kernel,) = jitted.lower(EVERY).compile().kernels()
    assert f"{name}_float16(" in kernel.source


def test_float32_results_of_float16_arguments_keep_their_precision() -> None:
    x = EVERY[np.isfinite(EVERY)]
    with np.errstate(all="ignore"):
        wanted = np.exp(x, dtype=np.float32)
        got = minijit.jit(lambda x: np.exp(x, dtype=np.float32))(x)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-44)

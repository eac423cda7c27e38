"""Every function in both types is at most 3 units of the last place from the exact value."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.kernels.math.reference import (
    CASES,
    apply,
    arguments_of,
    exact,
    library,
    ulp_error_exact,
    ulp_error_float32,
)
from tests.sampling import DEEP

LIMIT = 3.0


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES}))
def test_float32_is_within_3_ulp_of_the_float64_library(name: str) -> None:
    arguments = arguments_of(name, "float32", 100_000)
    got = apply(name, "float32", *arguments)
    with np.errstate(all="ignore"):
        value = library(name)(*(argument.astype(np.float64) for argument in arguments))
    error = ulp_error_float32(got, value)
    worst = int(np.argmax(error))
    assert error[worst] <= LIMIT, [argument[worst] for argument in arguments]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_is_within_3_ulp_of_the_exact_value(name: str, dtype: str) -> None:
    # Exact values take their time.
    count = 6_000 if DEEP else 2_000
    arguments = arguments_of(name, dtype, 1_500 if dtype == "float32" else count, seed=7)
    got = apply(name, dtype, *arguments)
    compared = 0
    for i in range(got.size):
        point = tuple(float(argument[i]) for argument in arguments)
        value = exact(name, point)
        if value is None:
            continue
        compared += 1
        error = ulp_error_exact(float(got[i]), value, dtype)
        if name.startswith("logaddexp") and dtype == "float64" and error > LIMIT:
            # Where the larger argument and the logarithm added to it cancel, only an error that
            # is small beside the argument can be had, as in NumPy.
            largest = min(max(map(abs, point)), sys.float_info.max / 2)
            error = float(abs(float(got[i]) - value) / np.spacing(largest))
        assert error <= LIMIT, (point, float(got[i]), float(value))
    # At a random bit pattern most functions are undefined, zero or infinite.
    assert compared > (300 if dtype == "float32" else count // 6)

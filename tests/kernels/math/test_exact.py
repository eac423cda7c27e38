"""Exact functions of floats have NumPy's bits, for any numbers and in whole vectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

import minijit
from minijit.kernels.math import BRANCHING, EXACT_FUNCTIONS
from minijit.kernels.math.device import called
from minijit.lowering.symbols import Symbol, resolve
from tests.kernels.math.reference import FLOATS, border_values, loop

RANDOM = np.random.default_rng(3)
INTEGERS = {"float32": np.uint32, "float64": np.uint64}
COUNT = 20_003  # no whole number of vectors


def any_bits(dtype: str) -> Any:
    integer = INTEGERS[dtype]
    most = np.iinfo(integer).max
    return RANDOM.integers(0, most, COUNT, dtype=integer, endpoint=True).view(dtype)


def usual(dtype: str) -> Any:
    return (10 * RANDOM.standard_normal(COUNT)).astype(dtype)


def whole(dtype: str) -> Any:
    return np.round(usual(dtype))


def far(dtype: str) -> Any:
    return usual(dtype) * FLOATS[dtype](1e9)


def borders(dtype: str) -> tuple[Any, Any]:
    values = border_values(dtype)
    left, right = np.meshgrid(values, values)
    return left.ravel(), right.ravel()


PAIRS: dict[str, Callable[[str], tuple[Any, Any]]] = {
    "any bits": lambda dtype: (any_bits(dtype), any_bits(dtype)),
    "usual": lambda dtype: (usual(dtype), usual(dtype)),
    "whole": lambda dtype: (whole(dtype), whole(dtype)),
    "far": lambda dtype: (far(dtype), usual(dtype)),
    "borders": borders,
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(("name", "dtype"), EXACT_FUNCTIONS)
def test_bits_are_those_of_numpy(name: str, dtype: str, pair: str) -> None:
    x, y = PAIRS[pair](dtype)
    function = getattr(np, name)
    with np.errstate(all="ignore"):
        want = function(x, y)
        got = np.asarray(minijit.jit(lambda x, y: function(x, y))(x, y))
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


@pytest.mark.parametrize(("name", "dtype"), sorted(BRANCHING.intersection(EXACT_FUNCTIONS)))
def test_vectors_are_computed_at_once(name: str, dtype: str) -> None:
    function = resolve(Symbol(*EXACT_FUNCTIONS[name, dtype]))
    compiled = loop(called(function), 2)
    compiled.compile((numba.types.Array(numba.from_dtype(np.dtype(dtype)), 1, "C"),) * 3)
    (text,) = compiled.inspect_asm().values()
    assert re.search(rf"minijit\.{name}_{dtype}\.\d", text)


def test_kernels_call_them() -> None:
    x = usual("float32")
    (kernel,) = minijit.jit(lambda x: np.fmod(x, 1.5) + x % 2).lower(x).compile().kernels()
    assert "# fmod_float32: called" in kernel.source
    assert "# remainder_float32: called" in kernel.source

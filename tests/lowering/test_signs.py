"""What is nowhere above zero takes an exponential that cannot overflow; all else does not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import minijit

Program = Callable[[np.ndarray], np.ndarray]


def by_rows(x: np.ndarray) -> np.ndarray:
    return np.exp(x - x.max(axis=-1, keepdims=True))


def by_columns(x: np.ndarray) -> np.ndarray:
    return np.exp(x - x.max(axis=0))


def masked(x: np.ndarray) -> np.ndarray:
    x = np.where(x > -1, x, -np.inf).astype(x.dtype)
    return np.exp(x - x.max(axis=-1, keepdims=True))


def below_zero(x: np.ndarray) -> np.ndarray:
    return np.exp(x - np.abs(x) - np.abs(x) - x * x)


NONPOSITIVE: dict[str, Program] = {
    "row less its maximum": by_rows,
    "column less its maximum": by_columns,
    "masked row less its maximum": masked,
    "minimum less the row": lambda x: np.exp(x.min(axis=-1, keepdims=True) - x),
    "size": lambda x: np.exp(-np.abs(x)),
    "bell": lambda x: np.exp(-x * x / 2),
    "square": lambda x: np.exp(np.square(x) * x.dtype.type(-0.5)),
    "root": lambda x: np.exp(-(np.sqrt(np.abs(x)) + np.abs(x))),
    "cut at zero": lambda x: np.exp(np.minimum(x, 0)),
    "product of two": lambda x: np.exp(np.minimum(x, 0) * np.maximum(x, 0)),
    "choice of two": lambda x: np.exp(np.where(x > 0, -np.abs(x), np.minimum(x, 0))),
}
ANY: dict[str, Program] = {
    "element": np.exp,
    "negated": lambda x: np.exp(-x),
    "row less the maximum of another": lambda x: np.exp(x - np.sin(x).max(axis=-1, keepdims=True)),
    "row less its minimum": lambda x: np.exp(x - x.min(axis=-1, keepdims=True)),
    "row less its mean": lambda x: np.exp(x - x.mean(axis=-1, keepdims=True)),
    "maximum less the row": lambda x: np.exp(x.max(axis=-1, keepdims=True) - x),
    "quotient by what may be a negative zero": lambda x: np.exp(-np.abs(x) / np.maximum(x, 0)),
    "sum of both signs": lambda x: np.exp(np.minimum(x, 0) + np.abs(x) * 3),
    "larger one": lambda x: np.exp(np.maximum(-np.abs(x), x)),
    "choice of one": lambda x: np.exp(np.where(x > 0, -np.abs(x), x + 1)),
}
DTYPES = (np.float32, np.float64)


def numbers(dtype: type) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal((37, 65)).astype(dtype)
    x[3] *= 40
    x[5, 1:5] = [-np.inf, 0.0, -0.0, -90.0]
    x[6, 2] = np.nan
    x[7, 3] = np.inf
    x[8] = -np.inf
    return x


def check(program: Program, dtype: type) -> str:
    """Compare with NumPy and return the source of the kernels."""
    x = numbers(dtype)
    with np.errstate(all="ignore"):
        wanted = program(x)
    jitted = minijit.jit(program)
    got = jitted(x)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    info = np.finfo(dtype)
    np.testing.assert_allclose(got, wanted, rtol=32 * info.eps, atol=4 * info.smallest_subnormal)
    return "".join(kernel.source for kernel in jitted.lower(x).compile().kernels())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NONPOSITIVE)
def test_what_is_nowhere_above_zero_is_known(name: str, dtype: type) -> None:
    assert "exp_nonpositive" in check(NONPOSITIVE[name], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ANY)
def test_what_may_be_above_zero_is_not_taken_for_it(name: str, dtype: type) -> None:
    source = check(ANY[name], dtype)
    assert "exp_" in source
    assert "nonpositive" not in source


def test_sizes_of_integers_may_be_negative() -> None:
    least = np.array([-128, 3], dtype=np.int8)
    got = minijit.jit(lambda x: np.exp(-np.abs(x).astype(np.float64)))(least)
    np.testing.assert_allclose(got, np.exp([128.0, -3.0]), rtol=1e-15)

"""Arrays from lists, shapes and ranges: values are NumPy's, default dtypes are minijit's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit.numpy as jnp
from minijit import lax
from minijit.graph.config import config
from minijit.graph.errors import ConcretizationTypeError, TracerIntegerConversionError

F4, I4 = np.dtype(np.float32), np.dtype(np.int32)

DEFAULTS: dict[str, tuple[Callable[[], Any], np.dtype[Any], Any]] = {
    "zeros": (lambda: jnp.zeros((2, 3)), F4, np.zeros((2, 3))),
    "zeros-int": (lambda: jnp.zeros(3), F4, np.zeros(3)),
    "ones": (lambda: jnp.ones((2,), bool), np.dtype(bool), [True, True]),
    "empty": (lambda: jnp.empty((0, 2)), F4, np.zeros((0, 2))),
    "full-int": (lambda: jnp.full((2,), 7), I4, [7, 7]),
    "full-float": (lambda: jnp.full((2,), 7.5), F4, [7.5, 7.5]),
    "full-bool": (lambda: jnp.full(2, True), np.dtype(bool), [True, True]),
    "full-array": (
        lambda: jnp.full((2, 2), np.array([1.0, 2.0])),
        np.dtype(float),
        [[1, 2], [1, 2]],
    ),
    "full-scalar": (lambda: jnp.full((), np.int8(3)), np.dtype(np.int8), 3),
    "arange": (lambda: jnp.arange(4), I4, [0, 1, 2, 3]),
    "arange-float": (lambda: jnp.arange(1.0, 2.0, 0.25), F4, [1, 1.25, 1.5, 1.75]),
    "arange-down": (lambda: jnp.arange(5, 0, -2), I4, [5, 3, 1]),
    "arange-empty": (lambda: jnp.arange(3, 3), I4, []),
    "arange-dtype": (lambda: jnp.arange(3, dtype=np.uint8), np.dtype(np.uint8), [0, 1, 2]),
    "linspace": (lambda: jnp.linspace(0, 1, 7), F4, np.linspace(0, 1, 7, dtype=F4)),
    "linspace-open": (lambda: jnp.linspace(3, 1, 4, endpoint=False), F4, [3, 2.5, 2, 1.5]),
    "linspace-one": (lambda: jnp.linspace(2.0, 5.0, 1), F4, [2]),
    "linspace-none": (lambda: jnp.linspace(2.0, 5.0, 0), F4, []),
    "eye": (lambda: jnp.eye(2, 3, 1), F4, np.eye(2, 3, 1)),
    "identity": (lambda: jnp.identity(2, int), np.dtype(int), np.eye(2)),
    "tri": (lambda: jnp.tri(3, 4, -1), F4, np.tri(3, 4, -1)),
    "indices": (lambda: jnp.indices((2, 3)), I4, np.indices((2, 3))),
    "fromfunction": (
        lambda: jnp.fromfunction(lambda i, j: i * 2 + j, (2, 2)),
        F4,
        [[0, 1], [2, 3]],
    ),
    "array": (lambda: jnp.array([1.0, 2.0]), F4, [1, 2]),
    "array-int": (lambda: jnp.array([[1, 2], [3, 4]]), I4, [[1, 2], [3, 4]]),
    "array-mixed": (lambda: jnp.array([1, 2.5, True]), F4, [1, 2.5, 1]),
    "array-bool": (lambda: jnp.asarray([True, False]), np.dtype(bool), [True, False]),
    "array-scalar": (lambda: jnp.array(2), I4, 2),
    "array-empty": (lambda: jnp.array([]), F4, []),
    "array-numpy": (lambda: jnp.asarray(np.array([1.0])), np.dtype(float), [1]),
    "array-scalars": (lambda: jnp.array([np.float64(1), 2.0]), np.dtype(float), [1, 2]),
    "array-dtype": (lambda: jnp.array([1, 2], np.float16), np.dtype(np.float16), [1, 2]),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_default_dtype_and_values(name: str, traced: Any) -> None:
    make, dtype, wanted = DEFAULTS[name]
    for result in (make(), traced(make)):
        assert isinstance(result, (np.ndarray, np.generic))
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, np.asarray(wanted, dtype))
    assert isinstance(make(), np.ndarray)


def test_eager_results_can_be_written_to() -> None:
    for result in (jnp.zeros(3), jnp.full((2, 2), np.ones(2)), jnp.arange(3), jnp.array([1, 2, 3])):
        result[0] = 5
        assert np.all(result[0] == 5)


def test_defaults_follow_the_configuration() -> None:
    with config.override(default_float="float64", default_int="int64"):
        kinds = [x.dtype.name for x in (jnp.zeros(1), jnp.arange(2), jnp.array([1.0]), jnp.eye(2))]
    assert kinds == ["float64", "int64", "float64", "float64"]


RANGES = [
    (0.0, 1.0, 0.1),
    (0.1, 5.0, 0.3),
    (1.0, 1.0 + 1e-6, 1e-7),
    (-1.5, 40.0, 0.7),
    (5.0, -3.0, -0.3),
    (-0.0, 2.0, 0.5),
    (0.0, -2.0, -0.25),
    (1e6, 1e6 + 10, 0.3),
    (0, 50000, 7),
    (10, -10, -3),
]


# float16 ends at 65504 and NumPy's casts of negative floats to unsigned integers are undefined.
RANGE_CASES = [
    (bounds, dtype)
    for bounds in RANGES
    for dtype in ("float16", "float32", "float64", "int16", "int64", "uint8")
    if np.dtype(dtype).kind == "f" or 0 <= min(bounds) <= max(bounds) <= 127 or dtype == "int64"
]


@pytest.mark.parametrize(("bounds", "dtype"), RANGE_CASES, ids=str)
def test_arange_is_numpys_bit_for_bit(bounds: Any, dtype: str, traced: Any) -> None:
    with np.errstate(all="ignore"):
        wanted = np.arange(*bounds, dtype=dtype)
        got = traced(lambda: jnp.arange(*bounds, dtype=dtype))
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


def test_arrays_of_traced_scalars(traced: Any) -> None:
    x = np.float32(3)
    np.testing.assert_array_equal(
        traced(lambda v: jnp.array([[v, 1], [2, v * v]]), x), [[3, 1], [2, 9]]
    )
    assert traced(lambda v: jnp.array([v, 1.5]), x).dtype == np.float32
    assert traced(lambda v: jnp.array([v, 1.5]), 2.0).dtype == np.float32  # all Python numbers
    assert traced(lambda v: jnp.asarray(v, np.float64), x).dtype == np.float64


def test_full_of_a_traced_value(traced: Any) -> None:
    got = traced(lambda v: jnp.full((2, 2), v), np.array([1, 2], np.int8))
    assert got.dtype == np.int8
    np.testing.assert_array_equal(got, [[1, 2], [1, 2]])


def test_linspace_returns_its_step(traced: Any) -> None:
    values, step = traced(lambda v: jnp.linspace(v, 3.0, 5, retstep=True), np.float64(1))
    np.testing.assert_array_equal(values, np.linspace(1, 3, 5))
    assert step == 0.5


@pytest.mark.parametrize(
    "function",
    [
        lambda n: jnp.zeros(n),
        lambda n: jnp.ones((2, n)),
        lambda n: jnp.full((n,), 1.0),
        lambda n: jnp.arange(n),
        lambda n: jnp.arange(0, 1.0, n),
        lambda n: jnp.eye(n),
        lambda n: jnp.tri(2, n),
        lambda n: jnp.linspace(0, 1, n),
        lambda n: jnp.zeros(6).reshape(n, -1),
        lambda n: jnp.broadcast_to(jnp.zeros(()), (n,)),
        lambda n: np.zeros_like(n, shape=(n,)),
        lambda n: jnp.repeat(jnp.zeros(3), n),
        lambda n: jnp.tile(jnp.zeros(3), n),
        lambda n: jnp.roll(jnp.zeros(3), n),
        lambda n: jnp.pad(jnp.zeros(3), n),
        lambda n: jnp.split(jnp.zeros(4), n),
        lambda n: jnp.expand_dims(jnp.zeros(4), n),
        lambda n: jnp.squeeze(jnp.zeros((1, 4)), n),
    ],
)
def test_traced_sizes_name_line_argument_and_remedy(function: Any, traced: Any) -> None:
    with pytest.raises(ConcretizationTypeError) as caught:
        traced(function, np.int32(2))
    text = str(caught.value)
    assert "static_argnames" in text
    assert "argument x0 of 'function'" in text
    assert "test_creation.py:" in text


def test_traced_sizes_are_integer_conversions(traced: Any) -> None:
    with pytest.raises(TracerIntegerConversionError):
        traced(lambda n: jnp.zeros(n), np.int32(2))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: jnp.zeros(-1), ValueError),
        (lambda: jnp.zeros(2.5), TypeError),
        (lambda: jnp.zeros(2, "nonsense"), TypeError),
        (lambda: jnp.zeros(2, complex), TypeError),
        (lambda: jnp.array([object()]), TypeError),
        (lambda: jnp.array([2**40]), OverflowError),
        (lambda: jnp.array([1], ">i4"), TypeError),
        (lambda: jnp.arange(0, 1, 0), ZeroDivisionError),
        (lambda: jnp.linspace(0, 1, -1), ValueError),
        (lambda: jnp.full((2,), np.ones(3)), ValueError),
        (lambda: jnp.meshgrid(np.ones(2), indexing="no"), ValueError),
    ],
)
def test_bad_requests_are_refused_alike(make: Any, error: type[Exception], traced: Any) -> None:
    with pytest.raises(error):
        make()
    with pytest.raises(error):
        traced(make)


@pytest.mark.parametrize(
    "make",
    [
        lambda: jnp.zeros((2, -1)),
        lambda: jnp.eye(-1),
        lambda: lax.iota(np.int32, -1),
        lambda: lax.broadcast(np.ones(3), (-1,)),
        lambda: lax.broadcast_in_dim(np.ones(3), (-1, 3), (1,)),
    ],
)
def test_negative_extents_are_refused_by_their_line(make: Any, traced: Any) -> None:
    with pytest.raises(ValueError, match=r"negative dimensions .*test_creation\.py:"):
        traced(make)

"""Padding one array to a bucket: values, mask, dtype, place; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit
from minijit.bucketing import pad_to_bucket
from tests.conftest import Device

DTYPES = ["bool", "int8", "uint16", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("length", [0, 1, 5, 8])
def test_padding_is_that_of_numpy(device: Device, dtype: str, axis: int, length: int) -> None:
    shape = [2, 3, 4]
    shape[axis] = length
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    padded, mask = pad_to_bucket(device.put(x), (4, 8), axis=axis, fill=1)
    size = 4 if length <= 4 else 8
    widths = [(0, 0)] * 3
    widths[axis] = (0, size - length)
    expected = np.pad(x, widths, constant_values=1)
    assert padded.dtype == x.dtype
    assert mask.dtype == np.bool_
    np.testing.assert_array_equal(device.get(padded), expected)
    np.testing.assert_array_equal(device.get(mask), np.arange(size) < length)


def test_padded_arrays_are_where_the_array_is(device: Device) -> None:
    x = device.put(np.ones(5, np.float32))
    padded, mask = pad_to_bucket(x, 8)
    assert type(padded) is type(mask) is type(x)
    # A program that takes them has nothing to copy.
    f = minijit.jit(lambda x, mask: x.sum(where=mask))
    assert float(device.get(f(padded, mask))) == 5
    assert f.stats()["copies"] == 0


@pytest.mark.parametrize("order", ["C", "F"])
def test_what_fits_is_not_copied(device: Device, order: Any) -> None:
    x = device.put(np.ones((4, 8), np.float32, order=order))
    padded, mask = pad_to_bucket(x, (4, 8), axis=1)
    assert padded is x
    assert device.get(mask).all()


def test_any_strides_become_c_order(device: Device) -> None:
    x = np.arange(40, dtype=np.float32).reshape(8, 5)[::-2].T
    padded, _ = pad_to_bucket(device.put(x), 8, axis=0)
    np.testing.assert_array_equal(device.get(padded), np.pad(x, ((0, 3), (0, 0))))
    assert padded.flags.c_contiguous


def test_lists_and_arrays_of_other_libraries() -> None:
    padded, mask = pad_to_bucket([[1, 2, 3], [4, 5, 6]], "pow2", axis=1, fill=-1)
    np.testing.assert_array_equal(padded, [[1, 2, 3, -1], [4, 5, 6, -1]])
    np.testing.assert_array_equal(mask, [True] * 3 + [False])

    class Other:
        def __dlpack__(self, **options: Any) -> Any:
            return np.arange(3.0).__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    np.testing.assert_array_equal(pad_to_bucket(Other(), 4)[0], [0, 1, 2, 0])


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("int32", np.inf),
        ("int32", np.nan),
        ("int64", 0.5),
        ("uint8", 256),
        ("uint8", -1),
        ("bool", 2),
        ("bool", np.nan),
        ("float16", 1e6),
    ],
)
def test_a_dtype_must_have_the_fill(dtype: str, fill: float) -> None:
    with pytest.raises(ValueError, match=f"is no value of {dtype}"):
        pad_to_bucket(np.ones(3, dtype), 4, fill=fill)


@pytest.mark.parametrize(
    ("dtype", "fill"), [("float16", -np.inf), ("float32", np.nan), ("float32", 0.1), ("bool", True)]
)
def test_fills_that_a_dtype_has(dtype: str, fill: float) -> None:
    padded, _ = pad_to_bucket(np.ones(3, dtype), 4, fill=fill)
    np.testing.assert_array_equal(padded[3], np.asarray(fill, dtype))


def test_what_is_refused() -> None:
    x = np.ones((2, 5), np.float32)
    with pytest.raises(ValueError, match="length 5 along axis 1, more than the largest size 4"):
        pad_to_bucket(x, (2, 4), axis=-1)
    with pytest.raises(ValueError, match="2 axes has no axis 2"):
        pad_to_bucket(x, 8, axis=2)
    with pytest.raises(ValueError, match="no axis 0"):
        pad_to_bucket(3.0, 8)
    with pytest.raises(TypeError, match="is no number"):
        pad_to_bucket(x, 8, fill="0")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="before the jitted function is called"):
        minijit.jit(lambda x: pad_to_bucket(x, 8)[0])(x)

"""Abstract arrays and the dtypes they may have."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest

from minijit.graph.aval import ShapedArray
from minijit.graph.config import config
from minijit.graph.dtypes import (
    canonical_dtype,
    default_dtype,
    is_floating,
    is_integer,
    python_scalar_dtype,
    short_name,
)
from minijit.graph.trace import abstractify

F32 = np.dtype(np.float32)


def test_sizes() -> None:
    aval = ShapedArray((2, 3, 4), F32)
    assert (aval.ndim, aval.size, aval.nbytes) == (3, 24, 96)
    assert (ShapedArray((), F32).size, ShapedArray((3, 0), F32).size) == (1, 0)


def test_text_and_weakness() -> None:
    weak = ShapedArray((), np.dtype(np.int64), weak_type=True)
    assert (str(weak), str(weak.strip_weak_type())) == ("i64[]*", "i64[]")
    assert str(ShapedArray((8, 3), F32)) == "f32[8,3]"
    assert weak != weak.strip_weak_type()
    strong = ShapedArray((1,), F32)
    assert strong.strip_weak_type() is strong
    assert hash(strong) == hash(ShapedArray((1,), F32))


class Number(enum.IntEnum):
    TWO = 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "bool[]"),
        (2, "i64[]*"),
        (2.5, "f64[]*"),
        (Number.TWO, "i64[]*"),
        (np.float64(2), "f64[]"),
        (np.int8(2), "i8[]"),
        (np.bool_(1), "bool[]"),
        (np.ones((2, 1), np.float16), "f16[2,1]"),
        (np.ones((), np.uint16), "u16[]"),
    ],
)
def test_values_and_their_types(value: Any, text: str) -> None:
    assert str(abstractify(value)) == text


@pytest.mark.parametrize("value", [None, "text", 1j, [1.0], object(), {1: 2}, range(3)])
def test_what_is_no_array_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"is not an array: .*static_argnames"):
        abstractify(value)


def test_integers_must_fit() -> None:
    assert abstractify(2**63 - 1).dtype == np.int64
    for value in (2**63, -(2**63) - 1):
        with pytest.raises(OverflowError, match="out of bounds for int64"):
            abstractify(value)


@pytest.mark.parametrize(
    ("array", "advice"),
    [
        (np.array([1, None], object), "an object array holds Python objects"),
        (np.ones(2, complex), "the real and the imaginary part"),
        (np.array(["a"]), "bool, integer or float"),
        (np.array(["2020-01-01"], "M8[D]"), "bool, integer or float"),
        (np.zeros(1, [("a", "i4")]), "bool, integer or float"),
        (np.ones(2, ">f4"), r"wrong byte order.*x\.astype\('<f4'\)"),
        (np.ones(2, ">i8"), "wrong byte order"),
        (np.ma.array([1.0], mask=[True]), "rules of its own"),
        (np.ones((1, 1)).view(np.matrix), "rules of its own"),
    ],
)
def test_arrays_that_are_refused(array: Any, advice: str) -> None:
    with pytest.raises(TypeError, match=advice):
        abstractify(array)


def test_canonical_dtype() -> None:
    assert canonical_dtype("float32") == canonical_dtype(np.float32) == canonical_dtype("=f4")
    assert canonical_dtype(bool) == np.bool_
    with pytest.raises(TypeError, match="'nonsense' is not a dtype"):
        canonical_dtype("nonsense")
    with pytest.raises(TypeError, match=r"longdouble|float128"):
        canonical_dtype(np.longdouble)


def test_kinds() -> None:
    short = [short_name(np.dtype(dtype)) for dtype in ("u1", "f2", "?", "i8")]
    assert short == ["u8", "f16", "bool", "i64"]
    assert is_floating(F32)
    assert is_integer(np.dtype("u4"))
    assert not is_integer(np.dtype(bool))
    assert python_scalar_dtype(np.float64(1)) is None  # though it is a subclass of float
    assert python_scalar_dtype(True) == np.bool_


def test_default_dtypes_follow_the_configuration() -> None:
    assert (default_dtype(float), default_dtype(int)) == (F32, np.int32)
    with config.override(default_float="float64", default_int="int64"):
        assert (default_dtype(float), default_dtype(int)) == (np.float64, np.int64)
    assert default_dtype(bool) == np.bool_

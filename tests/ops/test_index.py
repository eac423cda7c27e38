"""Indexing of traced arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy
from minijit.graph.errors import (
    ConcretizationTypeError,
    NonConcreteBooleanIndexError,
    TracerIntegerConversionError,
)
from minijit.graph.evaluate import evaluate
from minijit.graph.trace import abstractify, trace_function
from tests.conftest import Device

X = np.arange(60, dtype=np.int32).reshape(3, 4, 5)


def traced(function: Any, *args: Any) -> Any:
    avals = [abstractify(arg) for arg in args]
    names = ["x", "y"][: len(args)]
    jaxpr = trace_function(lambda ts: [function(*ts)], avals, names, "pick").jaxpr
    return evaluate(jaxpr, args)[0]


INDICES = {
    "int": np.s_[1],
    "negative": np.s_[-1],
    "ints": np.s_[0, -2, 3],
    "slice": np.s_[1:],
    "step": np.s_[:, ::3],
    "negative-step": np.s_[::-1, 3:0:-2],
    "out-of-range-slice": np.s_[1:99, -99:2],
    "empty": np.s_[2:2],
    "empty-reversed": np.s_[0:2:-1, 9:],
    "ellipsis": np.s_[..., 2],
    "ellipsis-alone": np.s_[...],
    "ellipsis-middle": np.s_[1, ..., None, 0],
    "newaxis": np.s_[None, :, None, 1],
    "many-newaxes": np.s_[:, None, ..., None],
    "all": np.s_[()],
    "numpy-int": (np.int64(2), np.array(1)),
    "list": np.s_[[2, 0, 1]],
    "list-axis": np.s_[:, [0, 3, 3, 1]],
    "array-matrix": (slice(None), np.array([[0, 1], [-1, 2]])),
    "array-and-int": np.s_[1, [0, 2]],
    "array-and-slices": np.s_[::2, [0, 2], ::-1],
    "array-newaxis": np.s_[None, [2, 0]],
    "empty-list": np.s_[[]],
    "two-arrays": np.s_[[0, 2, -1], [1, 3, 0]],
    "two-that-broadcast": np.s_[[[0], [2]], :, [4, -5, 1]],
    "apart": np.s_[[0, 1], :, [2, 3]],
    "apart-with-an-int": np.s_[0, :, [2, 3]],
    "apart-by-a-new-axis": np.s_[[0, 1], None, [2, 3]],
    "arrays-and-slice": np.s_[::2, [1, 1], [0, 4]],
    "arrays-and-new-axes": np.s_[None, [1, 1], [0, 3], None],
    "irregular": np.s_[:, np.random.default_rng(0).integers(-4, 4, 200)],
}


@pytest.mark.parametrize("name", INDICES)
def test_index_is_numpys(name: str) -> None:
    index = INDICES[name]
    got = np.asarray(traced(lambda x: x[index], X))
    assert got.dtype == X.dtype
    assert got.shape == X[index].shape
    np.testing.assert_array_equal(got, X[index])


def test_compiled_indices_are_numpys(device: Device) -> None:
    f = minijit.jit(lambda x: {name: x[index] for name, index in INDICES.items()})
    for name, got in device.get(f(device.put(X))).items():
        assert got.shape == X[INDICES[name]].shape, name
        np.testing.assert_array_equal(got, X[INDICES[name]], err_msg=name)


@pytest.mark.parametrize(
    ("index", "error", "words"),
    [
        (3, IndexError, "index 3 is out of bounds for axis 0 with size 3"),
        ((0, -5), IndexError, "index -5 is out of bounds for axis 1 with size 4"),
        (([0, 7],), IndexError, "index 7 is out of bounds"),
        ((0, 0, 0, 0), IndexError, "too many indices"),
        ((..., 0, ...), IndexError, "single ellipsis"),
        (1.5, IndexError, "not a valid index"),
        ("a", IndexError, "not a valid index"),
        (([0, 1], [0, 9]), IndexError, "index 9 is out of bounds for axis 1"),
        (([0, 1], [0, 1, 2]), ValueError, "broadcast"),
        (np.ones((3, 4, 5), bool), NonConcreteBooleanIndexError, "where"),
        (True, NonConcreteBooleanIndexError, "where"),
    ],
)
def test_wrong_index_is_refused(index: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        traced(lambda x: x[index], X)
    assert "test_index.py:" in str(caught.value)


def test_traced_mask_says_what_to_use_instead() -> None:
    with pytest.raises(NonConcreteBooleanIndexError, match=r"minijit\.numpy\.where.*sum") as caught:
        traced(lambda x: x[x > 3], X)
    assert isinstance(caught.value, IndexError)
    assert isinstance(caught.value, ConcretizationTypeError)


def test_traced_floats_are_no_positions() -> None:
    with pytest.raises(IndexError, match=r"must be of integer type, not f64\[2\].*test_index.py:"):
        traced(lambda x, i: x[i], X, np.array([0.0, 1.0]))


def test_traced_slice_bound_names_the_argument() -> None:
    with pytest.raises(TracerIntegerConversionError, match=r"argument y of 'pick'"):
        traced(lambda x, y: x[:y], X, np.int32(1))
    with pytest.raises(ConcretizationTypeError):
        traced(lambda x: x[: int(x[0, 0, 0])], X)


def test_iteration_unpacks_rows() -> None:
    def total(x: Any) -> Any:
        first, second, third = x
        return first + second * 2 + third

    np.testing.assert_array_equal(traced(total, X), X[0] + X[1] * 2 + X[2])


def test_a_taken_element_is_not_asked_whether_it_exists() -> None:
    jaxpr = str(minijit.make_jaxpr(lambda x, i: x[i])(np.ones(3), np.array([1, 2])))
    assert [name for name in ("ge", "le", "bitwise_and") if f"= {name} " in jaxpr] == []

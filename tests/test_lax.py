"""The facade with jax.lax's names, against NumPy."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import minijit
from minijit import lax
from minijit.graph.check import check_jaxpr
from minijit.graph.evaluate import evaluate
from minijit.graph.trace import abstractify, trace_function
from tests.conftest import Device
from tests.ops.samples import assert_near

X = np.arange(12, dtype=np.float32).reshape(3, 4)
I = np.array([7, -7, 6, 0], np.int32)  # noqa: E741


def run(function: Any, *args: Any) -> Any:
    avals = [abstractify(arg) for arg in args]
    names = [f"x{i}" for i in range(len(args))]
    jaxpr = trace_function(lambda ts: [function(*ts)], avals, names, "f").jaxpr
    check_jaxpr(jaxpr)
    return evaluate(jaxpr, args)[0]


CASES: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "add": (lax.add, np.add, (X, X)),
    "div": (lax.div, np.divide, (X, X + 1)),
    "div-int": (lambda x: lax.div(x, np.int32(2)), lambda x: np.trunc(x / 2).astype("i4"), (I,)),
    "div-negative": (
        lambda x: lax.div(x, np.int32(-3)),
        lambda x: np.trunc(x / -3).astype("i4"),
        (I,),
    ),
    "rem": (lambda x: lax.rem(x, np.int32(4)), lambda x: np.fmod(x, np.int32(4)), (I,)),
    "clamp": (lambda x: lax.clamp(2.0, x, 5.0), lambda x: np.clip(x, 2, 5), (X,)),
    "select": (lambda x: lax.select(x > 3, x, -x), lambda x: np.where(x > 3, x, -x), (X,)),
    "integer_pow": (lambda x: lax.integer_pow(x, 3), lambda x: x**3, (X,)),
    "convert": (lambda x: lax.convert_element_type(x, np.int8), lambda x: x.astype("i1"), (X,)),
    "broadcast": (lambda x: lax.broadcast(x, (2,)), lambda x: np.stack([x, x]), (X,)),
    "broadcast_in_dim": (
        lambda x: lax.broadcast_in_dim(x, (3, 2, 4), (0, 2)),
        lambda x: np.stack([x, x], 1),
        (X,),
    ),
    "collapse": (lambda x: lax.collapse(x, 0, 2), np.ravel, (X,)),
    "slice": (lambda x: lax.slice(x, (0, 1), (3, 4), (2, 1)), lambda x: x[::2, 1:], (X,)),
    "slice_in_dim": (lambda x: lax.slice_in_dim(x, -3, -1, axis=1), lambda x: x[:, 1:3], (X,)),
    "index_in_dim": (lambda x: lax.index_in_dim(x, -1, 0, False), lambda x: x[-1], (X,)),
    "concatenate": (lambda x: lax.concatenate([x, x], 1), lambda x: np.hstack([x, x]), (X,)),
    "pad": (
        lambda x: lax.pad(x, -1.0, ((1, 2, 0), (0, 1, 0))),
        lambda x: np.pad(x, ((1, 2), (0, 1)), constant_values=-1),
        (X,),
    ),
    "pad-negative": (
        lambda x: lax.pad(x, 0.0, ((-1, 0, 0), (0, -2, 0))),
        lambda x: x[1:, :2],
        (X,),
    ),
    "pad-interior": (
        lambda x: lax.pad(x, 9.0, ((0, 0, 1), (1, 0, 2))),
        lambda x: np.array(
            [
                [9, *np.insert(row, [1, 1, 2, 2, 3, 3], 9)] if row is not None else [9.0] * 11
                for row in (x[0], None, x[1], None, x[2])
            ],
            np.float32,
        ),
        (X,),
    ),
    "iota": (lambda: lax.iota(np.uint8, 4), lambda: np.arange(4, dtype=np.uint8), ()),
    "broadcasted_iota": (
        lambda: lax.broadcasted_iota(np.int32, (2, 3), 1),
        lambda: np.indices((2, 3), np.int32)[1],
        (),
    ),
    "full_like": (lambda x: lax.full_like(x, 2), lambda x: np.full_like(x, 2), (X,)),
    "dot": (lambda x: lax.dot(x, x.T), lambda x: x @ x.T, (X,)),
    "dot_general": (
        lambda x: lax.dot_general(x, x, (((1,), (1,)), ((0,), (0,)))),
        lambda x: (x * x).sum(1),
        (X,),
    ),
    "dot_general-wide": (
        lambda x: lax.dot_general(x, x, (((0,), (0,)), ((), ())), np.float64),
        lambda x: x.T.astype(float) @ x,
        (X,),
    ),
    "argmax": (lambda x: lax.argmax(x, 1), lambda x: x.argmax(1).astype("i4"), (X,)),
    "reduce_sum": (
        lambda x: lax.reduce_sum(x, (0,)),
        lambda x: x.sum(0, dtype="i4"),
        (I[:, None],),
    ),
    "reduce_max": (lambda x: lax.reduce_max(x, (0, 1)), np.max, (X,)),
    "reduce_and": (lambda x: lax.reduce_and(x > 0, (1,)), lambda x: (x > 0).all(1), (X,)),
    "rev": (lambda x: lax.rev(x, (1,)), lambda x: x[:, ::-1], (X,)),
    "bitwise_not": (lax.bitwise_not, np.invert, (I,)),
}


@pytest.mark.parametrize("name", CASES)
def test_operation_is_numpys(name: str) -> None:
    function, reference, args = CASES[name]
    wanted = np.asarray(reference(*args))
    for got in (run(function, *args), function(*args)):
        assert (np.shape(got), np.asarray(got).dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_array_equal(got, wanted)


def test_compiled_operations_are_numpys(device: Device) -> None:
    def function(arguments: dict[str, Any]) -> dict[str, Any]:
        return {name: CASES[name][0](*args) for name, args in arguments.items()}

    arguments = {name: list(map(device.put, args)) for name, (_, _, args) in CASES.items()}
    for name, got in device.get(minijit.jit(function)(arguments)).items():
        _, reference, args = CASES[name]
        assert_near(got, reference(*args))


def test_slices_must_stay_inside() -> None:
    with pytest.raises(ValueError, match=r"leaves shape \(3, 4\)"):
        run(lambda x: lax.slice(x, (0, 0), (3, 5)), X)


def test_all_names_exist_and_are_documented() -> None:
    assert list(lax.__all__) == sorted(set(lax.__all__))
    for name in lax.__all__:
        value = getattr(lax, name)
        assert not inspect.isfunction(value) or value.__doc__

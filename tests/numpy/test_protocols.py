"""Plain NumPy and CuPy code on tracers, ndarray's methods, and what they refuse."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import numpy as np
import pytest

import minijit.numpy as jnp
from minijit.graph.errors import (
    ConcretizationTypeError,
    NonConcreteBooleanIndexError,
    UnexpectedTracerError,
)
from minijit.graph.tracer import Tracer, functions, methods

M = np.arange(12, dtype=np.float32).reshape(3, 4) - 4


def test_numpy_functions_meet_tracers(same_as_numpy: Any) -> None:
    same_as_numpy(lambda n, t: np.where(t > 0, t, 0), M)
    same_as_numpy(lambda n, t: np.concatenate([t, np.zeros((1, 4), np.float32), t]), M)
    same_as_numpy(lambda n, t: np.stack([t, t * 2]).reshape(2, -1).T, M)
    same_as_numpy(lambda n, t: np.reshape(np.exp(t), -1)[::2], M)
    same_as_numpy(lambda n, t: np.matmul(t, t.T) @ t, M)


def test_arrays_on_the_left_give_way(same_as_numpy: Any) -> None:
    same_as_numpy(lambda n, t: (M + t, M @ t.T, np.float32(2) * t, 3 - t), M)


def test_python_scalars_become_arrays_as_numpy_makes_them(same_as_numpy: Any) -> None:
    same_as_numpy(lambda n, t, s: (n.expand_dims(s, 0) * t, n.reshape(s, (1, 1)) * t), M, 2.0)
    same_as_numpy(lambda n, t, s: (n.broadcast_to(s, (4,)) * t, n.stack([s, s]) + t[:, :2]), M, 2.0)
    same_as_numpy(lambda n, t, s: (n.atleast_1d(s) + t, n.outer(s, t), n.dot(s, t)), M, 2)


def test_shape_functions_give_python_values(traced: Any) -> None:
    def check(t: Any) -> Any:
        for n in (np, jnp):
            assert n.shape(t) == (3, 4)
            assert (n.ndim(t), n.size(t), n.size(t, 1)) == (2, 12, 4)
            assert n.result_type(t, np.float64) == np.float64
            assert n.result_type(t, 1.0) == np.float32
            assert not n.iscomplexobj(t)
            assert n.isrealobj(t)
        assert np.can_cast(t, np.float64)
        assert not jnp.can_cast(t, np.int8)
        assert (len(t), t.itemsize, t.nbytes) == (3, 4, 48)
        return t

    traced(check, M)


@pytest.mark.parametrize("n", [np, jnp], ids=["plain", "minijit"])
def test_comparing_whole_arrays(n: Any, traced: Any) -> None:
    other = np.where(M == 3, np.float32(np.nan), M)
    assert traced(lambda t: n.array_equal(t, t), M)
    assert not traced(lambda t: n.array_equal(t, other), M)
    assert not traced(lambda t: n.array_equal(t, t[0]), M)
    assert traced(lambda t: n.array_equal(t, t, equal_nan=True), other)
    assert traced(lambda t: n.array_equiv(t, t[None]), M)
    assert not traced(lambda t: n.array_equiv(t, t[:, :3]), M)
    assert traced(lambda t: n.allclose(t, t * np.float32(1.000001)), M)
    assert not traced(lambda t: n.allclose(t, t + 1), M)


def test_array_namespace_is_minijits(traced: Any) -> None:
    def f(t: Any) -> Any:
        xp = t.__array_namespace__()
        assert xp is jnp
        return xp.concat([xp.permute_dims(t, (1, 0)), xp.astype(t.T, xp.float32)])

    np.testing.assert_array_equal(traced(f, M), np.concatenate([M.T, M.T]))


@pytest.mark.parametrize(
    "function",
    [
        lambda cp, t: cp.exp(t),
        lambda cp, t: cp.maximum(t, 0),
        lambda cp, t: cp.where(t > 0, t, 0),
        lambda cp, t: cp.sum(t, axis=0),
        lambda cp, t: cp.mean(t, axis=1, keepdims=True),
        lambda cp, t: cp.max(t),
        lambda cp, t: cp.clip(t, 0, 2),
        lambda cp, t: cp.reshape(t, (2, 6)),
        lambda cp, t: cp.transpose(t),
        lambda cp, t: cp.permute_dims(t, (1, 0)),
        lambda cp, t: cp.swapaxes(t, 0, 1),
        lambda cp, t: cp.ravel(t),
        lambda cp, t: cp.squeeze(t[:1]),
        lambda cp, t: cp.repeat(t, 2, 1),
        lambda cp, t: cp.take(t, [0, 2], 0),
        lambda cp, t: cp.flip(t, 0),
        lambda cp, t: cp.dot(t, t.T),
        lambda cp, t: cp.trace(t),
        lambda cp, t: cp.diagonal(t, 1),
        lambda cp, t: cp.isnan(t),
        lambda cp, t: cp.linalg.norm(t),
    ],
)
def test_cupy_functions_meet_tracers(function: Any, traced: Any) -> None:
    cupy = pytest.importorskip("cupy")
    wanted = np.asarray(function(np, M))
    got = np.asarray(traced(lambda t: function(cupy, t), M))
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


METHODS = {
    "fill": (0,),
    "sort": (),
    "put": (0, 1),
    "resize": (3,),
    "view": (np.int32,),
    "tobytes": (),
    "get": (),
    "partition": (1,),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_without_a_traced_form_say_what_to_write(name: str, traced: Any) -> None:
    with pytest.raises(TypeError, match=rf"{name}\(\).*test_protocols\.py:"):
        traced(lambda t: getattr(t, name)(*METHODS[name]), M)


def test_attributes_of_memory_do_not_exist(traced: Any) -> None:
    def f(t: Any) -> Any:
        for name in ("strides", "flags", "data", "base", "ctypes", "flat", "nonsense"):
            assert not hasattr(t, name)
        with pytest.raises(AttributeError, match=r"ravel"):
            _ = t.flat
        return t.block_until_ready()

    np.testing.assert_array_equal(traced(f, M), M)


NAMES = ("nonzero", "argwhere", "flatnonzero", "unique", "extract", "compress", "union1d")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [np, jnp], ids=["plain", "minijit"])
def test_data_dependent_shapes_say_what_to_use_instead(n: Any, name: str, traced: Any) -> None:
    two = name in ("extract", "compress", "union1d")
    with pytest.raises(
        NonConcreteBooleanIndexError, match=rf"{name}.*where.*test_protocols|where"
    ) as e:
        traced(lambda t: getattr(n, name)(*(t, t) if two else (t,)), M)
    assert isinstance(e.value, ConcretizationTypeError)
    assert "test_protocols.py:" in str(e.value)


def test_data_dependent_shapes_are_fine_on_arrays() -> None:
    np.testing.assert_array_equal(jnp.unique(np.array([3, 1, 3])), [1, 3])
    np.testing.assert_array_equal(jnp.nonzero(np.array([0, 2]))[0], [1])


def test_leaked_tracers_are_refused_by_every_door(traced: Any) -> None:
    kept: list[Tracer] = []

    def f(t: Any) -> Any:
        kept.append(t * 2)
        return t

    traced(f, M)
    leaked = kept[0]
    uses = [
        lambda: jnp.concatenate([leaked, leaked]),
        lambda: np.stack([leaked]),
        lambda: leaked.T,
        lambda: leaked[0],
        lambda: leaked @ leaked.T,
        lambda: jnp.reshape(leaked, -1),
        lambda: jnp.zeros_like(leaked) + leaked,
    ]
    for use in uses:
        with pytest.raises(UnexpectedTracerError):
            use()


def test_functions_without_a_traced_form_are_named(traced: Any) -> None:
    with pytest.raises(TypeError, match=r"np\.convolve cannot be traced \(at test_protocols\.py:"):
        traced(lambda t: np.convolve(t[0], t[1]), M)


def test_eager_functions_are_the_librarys_own() -> None:
    x = np.arange(6.0)
    result = jnp.expand_dims(x, 0)
    result[0, 0] = 9  # a view that can be written to, as NumPy's
    assert x[0] == 9
    assert isinstance(jnp.split(x, 2), list)
    with pytest.raises(ValueError, match="cannot reshape"):
        jnp.reshape(x, (4, 4))


def test_all_names_exist_and_are_documented() -> None:
    assert len(set(jnp.__all__)) == len(jnp.__all__)
    for name in jnp.__all__:
        value = getattr(jnp, name)
        if inspect.isfunction(value) and value.__module__.startswith("minijit"):
            assert value.__doc__, name


def test_what_numpy_code_can_call_can_be_imported() -> None:
    hidden = {name for name in functions if "." not in name and "_with_dtype" not in name}
    assert hidden - set(jnp.__all__) <= {"round_"}


def test_names_of_every_module_are_exported() -> None:
    for module in pkgutil.iter_modules(jnp.__path__, "minijit.numpy."):
        if module.name.endswith((".linalg", ".methods", ".declare")):
            continue
        assert set(importlib.import_module(module.name).__all__) <= set(jnp.__all__)


def test_namespace_has_the_constants_and_dtypes() -> None:
    assert (jnp.pi, jnp.e, jnp.newaxis) == (np.pi, np.e, None)
    assert np.isnan(jnp.nan)
    assert jnp.inf == np.inf
    assert jnp.float32 is np.float32
    assert jnp.bool is np.bool_
    assert jnp.finfo(jnp.float16).max == 65504


def test_methods_are_those_of_arrays() -> None:
    ours = {"block_until_ready", "get", "ptp"}  # the last two are CuPy's
    old = {"itemset", "choose"}  # itemset left NumPy in 2.0; its refusal stays useful
    unknown = {name for name in methods if not hasattr(np.ndarray, name)}
    assert unknown <= ours | old

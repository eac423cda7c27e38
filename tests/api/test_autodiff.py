"""grad, value_and_grad, jvp, vjp, linearize: how they are called, what they return and refuse."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from tests.conftest import Device

X = np.array([0.3, -1.2, 2.0], np.float32)
COUNT = np.arange(3)


def close(got: Any, want: Any) -> None:
    """Assert values, and shape and dtype of the wanted array."""
    got, want = np.asarray(got), np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def loss(x: Any, y: Any = 2.0, *, power: int = 2) -> Any:
    return (np.sin(x) * y**power).sum()


def test_gradient_of_one_and_of_several_arguments() -> None:
    y = np.float32(3)
    close(minijit.grad(loss)(X, y), np.cos(X) * 9)
    close(minijit.grad(loss, 1)(X, y), np.float32(np.sin(X).sum() * 6))
    close(minijit.grad(loss, -1)(X, y), np.float32(np.sin(X).sum() * 6))
    several = minijit.grad(loss, argnums=(1, 0))(X, y)
    assert isinstance(several, tuple)
    close(several[0], np.float32(np.sin(X).sum() * 6))
    close(several[1], np.cos(X) * 9)
    (only,) = minijit.grad(loss, argnums=(0,))(X, y)
    close(only, np.cos(X) * 9)


def test_arguments_by_keyword_and_by_default() -> None:
    close(minijit.grad(loss)(X), np.cos(X) * np.float32(4))
    close(minijit.grad(loss)(X, power=1), np.cos(X) * np.float32(2))
    close(minijit.grad(loss)(x=X, y=np.float32(3)), np.cos(X) * 9)
    close(minijit.jit(lambda x: minijit.grad(loss)(y=x[0], x=x))(X), np.cos(X) * X[0] ** 2)


def test_value_and_gradient_with_something_else() -> None:
    def f(x: Any) -> Any:
        return (x * x).sum(), {"doubled": x * 2, "count": x.astype(np.int32)}

    (value, aux), slope = minijit.value_and_grad(f, has_aux=True)(X)
    close(value, np.float32((X * X).sum()))
    close(aux["doubled"], 2 * X)
    close(aux["count"], X.astype(np.int32))
    close(slope, 2 * X)
    slope, aux = minijit.grad(f, has_aux=True)(X)
    close(slope, 2 * X)
    close(aux["doubled"], 2 * X)


def test_pytrees_with_unused_parts() -> None:
    tree = {"w": X, "unused": np.ones((2, 2), np.float32), "b": (np.float32(3), np.float64(4))}
    slope = minijit.grad(lambda t: (t["w"] * t["b"][0]).sum())(tree)
    close(slope["w"], np.full(3, 3, np.float32))
    close(slope["b"][0], X.sum())
    close(slope["b"][1], np.float64(0))
    close(slope["unused"], np.zeros((2, 2), np.float32))


def test_python_numbers_are_arguments_too() -> None:
    assert float(minijit.grad(lambda x: x**3)(2.0)) == 12
    assert float(minijit.grad(lambda x, n: x**n)(2.0, 3)) == 12


def test_a_second_call_traces_and_compiles_nothing(device: Device, counts: Counter[str]) -> None:
    def f(x: Any) -> Any:
        return np.sin(x).sum()

    x, other = device.put(X), device.put(2 * X)
    close(device.get(minijit.grad(f)(x)), np.cos(X))
    assert (counts["trace"], counts["compile"]) == (1, 1)
    close(device.get(minijit.grad(f)(other)), np.cos(2 * X))
    assert (counts["trace"], counts["compile"]) == (1, 1)
    slope = minijit.grad(f)
    assert slope is minijit.grad(f)
    assert slope.stats()["signatures"] == 1


def test_jit_and_grad_in_any_order(counts: Counter[str]) -> None:
    inner = minijit.jit(lambda x: np.exp(x).sum())
    close(minijit.grad(inner)(X), np.exp(X))
    close(minijit.jit(minijit.grad(inner))(X), np.exp(X))
    close(minijit.grad(lambda x: inner(x) * inner(2 * x))(X), _product_slope(X))
    assert minijit.grad(inner) is minijit.grad(inner)


def _product_slope(x: Any) -> Any:
    a, b = np.exp(x), np.exp(2 * x)
    return (a * b.sum() + 2 * b * a.sum()).astype(np.float32)


def test_flags_texts_and_functions_are_static(counts: Counter[str]) -> None:
    def f(x: Any, inner: Any, *, twice: bool = False, how: str = "sum") -> Any:
        y = inner(x)
        y = y * 2 if twice else y
        return y.sum() if how == "sum" else y.max()

    slope = minijit.grad(f)
    close(slope(X, np.sin), np.cos(X))
    close(slope(X, np.sin, twice=True, how="max"), 2 * np.cos(X) * (X[2] == X))
    before = counts["trace"], counts["compile"]
    close(slope(2 * X, np.sin, twice=True, how="max"), 2 * np.cos(2 * X) * (X[0] == X))
    assert (counts["trace"], counts["compile"]) == before
    with pytest.raises(TypeError, match="argument x: a value of type 'str'"):
        slope("x", np.sin)


def test_static_arguments_of_a_jitted_function(counts: Counter[str]) -> None:
    powered = minijit.jit(lambda x, n: (x**n).sum(), static_argnames="n")
    close(minijit.jit(lambda x: minijit.grad(powered)(x, 3))(X), 3 * X**2)
    slope = minijit.grad(powered)
    close(slope(X, 3), 3 * X**2)
    close(slope(X, n=2), 2 * X)
    close(minijit.hessian(powered)(X, 2), np.diag([2] * 3).astype(np.float32))
    curve = minijit.grad(minijit.jit(lambda x, n: slope(x, n)[0], static_argnums=1))
    close(curve(X, 3), 6 * X * np.eye(3, dtype=np.float32)[0])
    before = counts["trace"]
    close(slope(2 * X, n=3), 12 * X**2)
    assert counts["trace"] == before


def test_an_operation_is_transformed_once(counts: Counter[str]) -> None:
    for _ in range(2):
        close(minijit.jvp(jnp.sin, (X,), (X,))[1], np.cos(X) * X)
        close(minijit.vjp(jnp.sin, X)[1](X)[0], np.cos(X) * X)
        close(minijit.vmap(jnp.sin)(X), np.sin(X))
        traces, counts["trace"] = counts["trace"], 0
    assert traces == 0


def test_a_traced_value_is_not_static() -> None:
    powered = minijit.jit(lambda x, n: x**n, static_argnames="n")
    with pytest.raises(TypeError, match=r"'n' \(at test_autodiff.*it is traced already.*a lambda"):
        minijit.jit(lambda x, n: minijit.grad(powered)(x[0], n))(X, 1)


def test_derivatives_of_derivatives() -> None:
    def f(x: Any) -> Any:
        return x**3 + np.sin(x)

    x = np.float32(0.5)
    second = minijit.grad(minijit.grad(f))
    close(second(x), np.float32(3 - np.sin(0.5)))
    close(minijit.jit(second)(x), np.float32(3 - np.sin(0.5)))
    close(minijit.grad(second)(x), np.float32(6 - np.cos(0.5)))
    forward = minijit.jvp(lambda x: minijit.jvp(f, (x,), (np.float32(1),))[1], (x,), (x,))
    close(forward[1], np.float32((3 - np.sin(0.5)) * 0.5))


def test_closures_over_traced_values_and_arrays() -> None:
    weights = np.array([1, 2, 3], np.float32)

    @minijit.jit
    def outer(x: Any) -> Any:
        inner = minijit.grad(lambda y: (y * x * weights).sum())
        return inner(x) + inner(2 * x)

    close(outer(X), 2 * X * weights)
    close(minijit.grad(lambda x: outer(x).sum())(X), 2 * weights)
    close(minijit.grad(lambda x: (x * weights).sum())(X), weights)


def test_without_jit(counts: Counter[str]) -> None:
    with minijit.disable_jit():
        close(minijit.grad(loss)(X, np.float32(3)), np.cos(X) * 9)
        close(minijit.jit(minijit.grad(loss))(X, np.float32(3)), np.cos(X) * 9)
        _, pullback = minijit.vjp(np.sin, X)
        close(pullback(X)[0], X * np.cos(X))
    assert not counts["compile"]


def test_derivatives_at_points_of_many_functions_are_no_recompiles() -> None:
    """Each has programs of its own, which end with the function."""
    functions = [
        lambda x: x * 2, np.sin, np.cos, np.exp, np.tanh, lambda x: x * x, np.arctan, np.expm1,
        np.sinh, lambda x: 1 / (1 + x * x),
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in functions:
            _, pullback = minijit.vjp(function, X)
            close(pullback(np.ones_like(X))[0], minijit.jvp(function, (X,), (np.ones_like(X),))[1])
    assert repr(pullback) == "<pullback of <lambda>>"


def test_forward(device: Device) -> None:
    def f(x: Any, y: Any) -> Any:
        return {"a": x * y, "n": x.astype(np.int32)}

    x, y, ones = device.put(X), device.put(X + 1), device.put(np.ones(3, np.float32))
    value, tangent = device.get(minijit.jvp(f, (x, y), (ones, x)))
    close(value["a"], X * (X + 1))
    close(tangent["a"], (X + 1) + X * X)
    close(tangent["n"], np.zeros(3, np.int32))
    value, tangent, aux = minijit.jvp(lambda x: (x * x, x + 1), (X,), (X,), has_aux=True)
    close(tangent, 2 * X * X)
    close(aux, X + 1)


def test_reverse(device: Device) -> None:
    def f(x: Any, y: Any) -> Any:
        return np.exp(x) * y, y.sum()

    x, y = device.put(X), device.put(X + 1)
    (a, _), pullback = minijit.vjp(f, x, y)
    close(device.get(a), np.exp(X) * (X + 1))
    for scale in (1, 2):
        cotangent = (device.put(np.full(3, scale, np.float32)), device.put(np.float32(scale)))
        of_x, of_y = device.get(pullback(cotangent))
        close(of_x, scale * np.exp(X) * (X + 1))
        close(of_y, scale * (np.exp(X) + 1))


def test_a_pullback_leaves_a_jitted_function_and_enters_one(counts: Counter[str]) -> None:
    value, pullback = minijit.jit(lambda x: minijit.vjp(np.sin, x))(X)
    close(value, np.sin(X))
    apply = minijit.jit(lambda pullback, c: pullback(c)[0] * 2)
    close(apply(pullback, X), 2 * X * np.cos(X))
    before = counts["trace"], counts["compile"]
    close(apply(pullback, 2 * X), 4 * X * np.cos(X))
    assert (counts["trace"], counts["compile"]) == before
    assert repr(pullback) == "<pullback of sin>"


def test_linearized_once_for_many_tangents(counts: Counter[str]) -> None:
    value, pushforward, aux = minijit.linearize(lambda x: (np.exp(x), x), X, has_aux=True)
    close(value, np.exp(X))
    close(aux, X)
    close(pushforward(X), X * np.exp(X))
    before = counts["trace"], counts["compile"]
    close(pushforward(2 * X), 2 * X * np.exp(X))
    assert (counts["trace"], counts["compile"]) == before


def test_what_is_stopped_is_a_constant() -> None:
    close(minijit.grad(lambda x: (x * lax.stop_gradient(x)).sum())(X), X)
    stopped = minijit.grad(lambda x: (x * lax.stop_gradient({"a": x * x})["a"]).sum())
    close(stopped(X), X * X)
    close(minijit.grad(lambda x: stopped(x).sum())(X), np.zeros(3, np.float32))  # still one
    close(minijit.jit(lax.stop_gradient)(X), X)
    assert lax.stop_gradient(X) is X


def line_of(function: Any, offset: int = 0) -> str:
    return rf"test_autodiff.py:{function.__code__.co_firstlineno + offset} "


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: minijit.grad(lambda x: x * 2)(X), r"returns float32\[3\].*not one float scalar"),
        (lambda: minijit.grad(lambda x: (x > 0).sum())(X), r"returns int64\[\].*is no float"),
        (lambda: minijit.grad(lambda x: (x.sum(), x))(X), r"has_aux=True"),
        (lambda: minijit.grad(lambda x: None)(X), r"not one float scalar"),
        (lambda: minijit.grad(lambda x: x * 2)(3), r"x is int64\[\].*only floats have derivatives"),
        (
            lambda: minijit.grad(lambda t: t["n"].sum())({"n": np.arange(3)}),
            r"t\['n'\] is int64\[3\]",
        ),
        (lambda: minijit.grad(lambda x: x.sum())(X.astype(complex)), r"complex128"),
        (lambda: minijit.grad(loss, 3)(X), r"argnums has 3, but loss\(\) was called with 1"),
        (lambda: minijit.grad(loss, "x"), r"argnums='x' is no position"),
        (lambda: minijit.grad(3), r"grad takes a function, not 3"),
        (lambda: minijit.grad(lambda x: x.sum(), has_aux=True)(X), r"has to return a pair"),
        (lambda: minijit.jvp(np.sin, X, X), r"primals is ndarray.*give a tuple"),
        (
            lambda: minijit.jvp(np.sin, (X,), (X[:2],)),
            r"float32\[3\], and its tangent float32\[2\]",
        ),
        (lambda: minijit.jvp(np.sin, (X,), (X.astype(np.float64),)), r"its tangent float64\[3\]"),
        (lambda: minijit.jvp(np.sin, (X,), (X, X)), r"tangents have another structure"),
        (lambda: minijit.vjp(np.sin, X)[1](X[:2]), r"result is float32\[3\], and its cotangent"),
        (lambda: minijit.vjp(np.sin, X)[1]((X, X)), r"cotangents have another structure"),
        (lambda: minijit.grad(lambda x: print_of(x))(X), r"concrete float.*argument x.*lambda"),
        (lambda: minijit.grad(counted)(np.float32(1), 2), r"integer.*is the argument n.*a lambda"),
        (
            lambda: minijit.grad(lambda x, n: lax.fori_loop(0, n, lambda i, v: v * x, x))(2.0, 3),
            r"fori_loop with traced bounds.*no arguments",
        ),
    ],
)
def test_refusals_name_the_line(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        call()
    where = "test_autodiff.py:" in str(caught.value)
    assert where or "complex" in message or "takes a function" in message


def counted(x: Any, n: Any) -> Any:
    return x * len(range(n))


def print_of(x: Any) -> Any:
    return float(x.sum())


def test_a_gradient_of_python_control_flow_says_what_jit_says() -> None:
    with pytest.raises(minijit.TracerBoolConversionError, match=re.escape("lax.cond")):
        minijit.grad(lambda x: x if x > 0 else -x)(np.float32(1))


def test_equations_keep_the_line_of_the_user() -> None:
    def f(x: Any) -> Any:
        y = jnp.exp(x)
        return (y * y).sum()

    text = str(minijit.make_jaxpr(minijit.grad(f))(X))
    first = f.__code__.co_firstlineno
    lines = {int(found) for found in re.findall(r"# test_autodiff.py:(\d+) \(f\)", text)}
    assert lines == {first + 1, first + 2}

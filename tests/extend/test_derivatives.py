"""Derivatives of users' operations: their rules, those of their functions, and the check."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import DeclarationError
from minijit.extend import (
    LINEAR,
    check_primitive,
    custom_call,
    elementwise,
    reduction,
    scope,
    unsupported,
)
from tests.conftest import Device
from tests.derivatives import assert_differentiable

X = np.array([0.3, -1.2, 2.5, 0.7])


@pytest.fixture(autouse=True)
def _scope() -> Iterator[None]:
    with scope():
        yield


def test_a_function_is_differentiated_by_itself(device: Device) -> None:
    @elementwise
    def bent(x, a):  # type: ignore[no-untyped-def]
        size = math.sqrt(x * x + 0.5) if -1 < x <= 2 and not x > 1.5 else math.pi * abs(x)
        total = 0
        for k in range(3):
            total += min(size, a) ** k
        return total / float(max(a, 1))

    assert_differentiable(device, bent, [X, np.array([0.6, 3.0, 1.5, 2.0])], twice=False)


def test_declared_partial_derivatives_come_first() -> None:
    @elementwise(jvp=(lambda y, x: 7.0 * y,))
    def odd(x):  # type: ignore[no-untyped-def]
        return x * x

    np.testing.assert_allclose(minijit.grad(lambda x: odd(x).sum())(X), 7 * X * X)
    np.testing.assert_allclose(minijit.jvp(odd, (X,), (X,))[1], 7 * X**3)


def test_a_function_that_branches_asks_for_a_rule() -> None:
    @elementwise
    def stepped(x):  # type: ignore[no-untyped-def]
        if x > 0:
            return x
        return -x

    message = r"^test_derivatives.py:\d+ \(stepped\).*\(at test_derivatives.py.*Give.*jvp="
    with pytest.raises(TypeError, match=message):
        minijit.grad(lambda x: stepped(x).sum())(X)
    report = check_primitive(stepped, dtypes=("float64",), devices=("cpu",))
    assert "none: its code is more than arithmetic" in str(report)


def test_reductions_take_rules(device: Device) -> None:
    def squares(primals: Any, tangents: Any, *, axes: tuple[int, ...]) -> Any:
        (x,), (moved,) = primals, tangents
        return total(x, axes), (2 * x * moved).sum(axes)

    @reduction(identity=0, element=lambda x: x * x, jvp=squares)
    def total(a, b):  # type: ignore[no-untyped-def]
        return a + b

    assert_differentiable(device, lambda x: total(x, 1), [X.reshape(2, 2)])
    report = check_primitive(total, dtypes=("float64",), devices=("cpu",))
    assert "float64, forward and reverse against differences" in str(report)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"vjp": lambda cotangent, result, x, *, axes: (cotangent,)},
            r"vjp rule of total .*test.* a cotangent f64\[\] for operand 0, which is f64\[4",
        ),
        (
            {"vjp": lambda cotangent, result, x, *, axes: x * cotangent},
            r"a tuple of 1 cotangents, one for each operand, None for zero, not Tracer",
        ),
        (
            {"vjp": lambda cotangent, result, x, *, axes: (x, x)},
            r"a tuple of 1 cotangents, one for each operand, None for zero, not 2",
        ),
        (
            {"jvp": lambda primals, tangents, *, axes: tangents[0]},
            r"jvp rule of total \(at .*has to return \(result, tangent\), not Tracer",
        ),
    ],
)
def test_rules_that_return_something_else_are_refused(
    options: dict[str, Any], message: str
) -> None:
    total = reduction(identity=0, name="total", **options)(lambda a, b: a + b)
    with pytest.raises(TypeError, match=message):
        minijit.grad(lambda x: total(x))(X)


def test_what_a_reverse_rule_says_of_a_number_beside_arrays_is_summed(device: Device) -> None:
    @elementwise(vjp=lambda cotangent, z, x, y: (cotangent * y, cotangent * x))
    def product(x, y):  # type: ignore[no-untyped-def]
        return x * y

    slopes = minijit.grad(lambda x, y: product(x, y).sum(), argnums=(0, 1))(X, 2.0)
    np.testing.assert_allclose(slopes[0], np.full(4, 2.0))
    assert slopes[1].shape == ()
    np.testing.assert_allclose(slopes[1], X.sum())


def test_there_is_a_partial_derivative_for_each_operand() -> None:
    with pytest.raises(DeclarationError, match=r"takes 2 operands, and jvp= has 1 .*test_deriv"):

        @elementwise(jvp=(lambda z, x, y: y,))
        def product(x, y):  # type: ignore[no-untyped-def]
            return x * y


def test_reductions_without_rules_are_refused() -> None:
    @reduction(identity=0)
    def plain(a, b):  # type: ignore[no-untyped-def]
        return a + b

    with pytest.raises(TypeError, match=r"plain cannot be differentiated \(at .*give jvp= or vjp="):
        minijit.grad(lambda x: plain(x))(X)

    @reduction(identity=0, jvp=unsupported("nobody has worked it out"))
    def other(a, b):  # type: ignore[no-untyped-def]
        return a + b

    with pytest.raises(TypeError, match="nobody has worked it out"):
        minijit.grad(lambda x: other(x))(X)
    assert (
        float(minijit.grad(lambda x: other(minijit.lax.stop_gradient(x)) * x[0])(X)[0]) == X.sum()
    )


def scaled(name: str, **rules: Any) -> Any:
    return custom_call(name, abstract_eval=lambda x, *, by: x, cpu=lambda x, *, by: x * by, **rules)


def test_custom_calls_take_linear_rules() -> None:
    def back(cotangent: Any, x: Any, *, by: float) -> Any:
        return (cotangent * by,)

    twice = scaled("twice", jvp=LINEAR, transpose=back)
    np.testing.assert_allclose(minijit.grad(lambda x: (twice(x, by=2.0) * x).sum())(X), 4 * X)
    np.testing.assert_allclose(minijit.jvp(lambda x: twice(x, by=2.0), (X,), (X,))[1], 2 * X)
    check_primitive(twice, X, params={"by": 2.0}, devices=("cpu",))


@pytest.mark.parametrize("wrong", [lambda c: c, lambda c: (c, c)])
def test_linear_rules_that_return_no_value_for_each_operand_are_refused(wrong: Any) -> None:
    twice = scaled("twice", jvp=LINEAR, transpose=lambda c, x, *, by: wrong(c))
    message = r"transpose= of twice \(at test_derivatives\.py:\d+ .* return 1 values, a cotangent"
    with pytest.raises(DeclarationError, match=message):
        minijit.grad(lambda x: twice(x, by=2.0).sum())(X)


def test_custom_calls_take_reverse_rules() -> None:
    def back(cotangent: Any, result: Any, x: Any, *, by: float) -> Any:
        return (cotangent * by + 0 * result * x,)

    twice = scaled("twice", vjp=back)
    np.testing.assert_allclose(minijit.grad(lambda x: (twice(x, by=2.0) * x).sum())(X), 4 * X)
    with pytest.raises(TypeError, match=r"twice has a reverse rule alone \(at test_derivatives.py"):
        minijit.jvp(lambda x: twice(x, by=2.0), (X,), (X,))
    report = check_primitive(twice, X, params={"by": 2.0}, devices=("cpu",))
    assert "float64, reverse against differences" in str(report)


def test_reverse_rules_of_two_parts_keep_what_they_say() -> None:
    def forward(x: Any, *, by: float) -> Any:
        return pair(x, by=by), [jnp.full((), by, np.float64)]

    def backward(kept: Any, cotangent: Any, *, by: float) -> Any:
        return (cotangent * kept[0],)

    pair = scaled("pair", vjp=(forward, backward))
    np.testing.assert_allclose(minijit.grad(lambda x: pair(x, by=3.0).sum())(X), 3 + 0 * X)


def test_the_check_finds_wrong_rules() -> None:
    @elementwise(jvp=(lambda y, x: x,))
    def wrong(x):  # type: ignore[no-untyped-def]
        return x * x

    with pytest.raises(AssertionError, match=r"derivatives, cpu +FAILED\s+the tangent is"):
        check_primitive(wrong, dtypes=("float64",), devices=("cpu",))
    upside_down = scaled("upside_down", vjp=lambda c, y, x, *, by: (-by * c,))
    with pytest.raises(AssertionError, match=r"derivatives, cpu +FAILED\s+reverse mode"):
        check_primitive(upside_down, X, params={"by": 2.0}, devices=("cpu",))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda primals, tangents, *, by: (primals[0], tangents[0][:2]), r"tangent f64\[2\] for"),
        (lambda primals, tangents, *, by: (primals[0], jnp.exp(tangents[0])), "not linear"),
    ],
)
def test_rules_that_are_wrong_say_so(rule: Any, message: str) -> None:
    bad = scaled("bad", jvp=rule)
    with pytest.raises(TypeError, match=message):
        minijit.grad(lambda x: bad(x, by=2.0).sum())(X)

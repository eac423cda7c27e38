"""Device functions: written in place of their call or called, they give what Numba gives."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import types
from numba.extending import intrinsic

import minijit
from minijit.backends.frontend import Toolkit, kernel_function
from minijit.backends.frontend.statements import Function
from minijit.extend import elementwise, plain, scope
from tests.conftest import Device

TOOLKIT = Toolkit(types, intrinsic)
THREE, MINUS, ZERO, YES, LARGE = 3, -1, 0, True, 2**62
TABLE, MIXED, ARRAY = (1.5, 2.5, 3.5), (1, 2.5), np.array([1.0, 2.0, 4.0])


@numba.njit
def difference(a: Any, b: Any = 2.0) -> Any:
    return a - b


@numba.njit("float32(float32)")
def narrow_square(x: Any) -> Any:
    return x * x


@numba.njit(fastmath=True)
def forgetful(x: Any) -> Any:
    return (x + 1e20) - 1e20


@numba.njit(locals={"y": numba.float32})
def narrow_local(x: Any) -> Any:
    y = x * 1.1
    return y + 1


@numba.njit
def factorial(n: Any) -> Any:
    if n < 2:
        return 1
    return n * factorial(n - 1)


def other_type_in_a_branch(x: Any) -> Any:
    v: Any = 0
    w = v // 2
    if x > 0:
        v = 0.5
    return v + w


def other_type_in_a_loop(x: Any) -> Any:
    v = x
    before = v * v
    for _ in range(2):
        v = v + 0.25
    return before + v


def other_type_in_each_branch(x: Any) -> Any:
    if x > 0:
        t: Any = 1
        y = t / 2
    else:
        t = 2.5
        y = t // 1
    return y + t


def narrow_constant_in_a_branch(x: Any) -> Any:
    v: Any = np.int32(50000)
    if x > 1000:
        v = 7
    return v * v


def results_of_two_types(x: Any) -> Any:
    if x > 0:
        return 1
    return x * 0.5


def results_of_many_places(x: Any) -> Any:
    for i in range(5):
        if i > x:
            return i
        for j in range(i):
            if j * i > x:
                return j * 0.5
    return -1


def result_of_an_endless_loop(x: Any) -> Any:
    n = 0
    while True:
        n += 1
        if n > x:
            return n


def table_loop(x: Any) -> Any:
    total = 0.0
    for place, value in enumerate(TABLE):
        total += place * value
    return total * x


def loop_with_else(x: Any) -> Any:
    for i in range(3):
        if i > x:
            break
    else:
        return 9.0
    return 1.0


def function_inside(x: Any) -> Any:
    def twice(y: Any) -> Any:
        return y * 2

    return twice(x)


def described(x: Any) -> Any:
    """Have a docstring."""
    a = b = x
    (c, d), e = (a, 1), b
    return c + d + e


def hidden_builtins(range: Any) -> Any:
    max = range * 2
    return max + 1


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "or": lambda x: x or 7.0,
    "and": lambda x: (x > 0) and x,
    "or, and of constants": lambda x: ((ZERO or x) + (THREE and x)) * 2_000_000_000,
    "chained": lambda x: 1.0 if 0 < x < 3 else 2.0,
    "none": lambda x: 1.0 if x is None else x,
    "in": lambda x: 1.0 if int(x) in (1, 2) else 0.0,
    "keyword": lambda x: difference(b=x, a=1.0),
    "default": lambda x: difference(x),
    "signature": lambda x: narrow_square(x * 1.0000001),
    "fast mathematics": lambda x: forgetful(x),
    "declared variable": lambda x: narrow_local(x),
    "itself": lambda x: factorial(int(abs(x))),
    "constants": lambda x: x * math.pi + TABLE[1] + TABLE[int(x) % 3] + MIXED[1],
    "array": lambda x: ARRAY[int(x) % 3] + ARRAY[-1],
    "builtins": lambda x: round(x) + len(TABLE) + max(x, 2.0, 1) + divmod(x, 2)[0],
    "quotients": lambda x: -7 // 2 + x // 2 + (-x) % 3 + x % -3 + THREE % MINUS + THREE / 2,
    "power of constants": lambda x: THREE**MINUS * x,
    "power": lambda x: x**2 + x**3 + x**0.5,
    "overflow": lambda x: LARGE * 4 + x,
    "invert": lambda x: ~YES + x,
    "division by zero": lambda x: THREE / ZERO + x,
} | {
    f.__name__: f
    for f in (
        other_type_in_a_branch,
        other_type_in_a_loop,
        other_type_in_each_branch,
        narrow_constant_in_a_branch,
        results_of_two_types,
        results_of_many_places,
        result_of_an_endless_loop,
        table_loop,
        loop_with_else,
        function_inside,
        described,
        hidden_builtins,
    )
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.uint8])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_device_functions_give_what_numba_gives(name: str, dtype: Any) -> None:
    x = np.array([0, 1, 3, 7] if dtype is np.uint8 else [0, 1, 3, 7, -2], dtype)
    function = numba.njit(FUNCTIONS[name], error_model="numpy")
    expected = np.array([float(function(each)) for each in x])
    text = "def kernel(x, n, out):\n    for k in range(n):\n        out[k] = function(x[k])\n"
    element = numba.from_dtype(np.dtype(dtype))
    signature = types.void(element[::1], types.int64, types.float64[::1])
    with kernel_function(TOOLKIT, text, {"function": function}, "<a kernel>") as python:
        kernel = numba.njit(signature, error_model="numpy")(python)
    out = np.zeros(x.size)
    kernel(x, x.size, out)
    np.testing.assert_array_equal(out, expected)


_numbers = itertools.count()


@pytest.mark.parametrize(
    "name",
    [
        "or",
        "chained",
        "keyword",
        "array",
        "other_type_in_a_branch",
        "results_of_two_types",
        "results_of_many_places",
        "loop_with_else",
    ],
)
def test_scalar_functions_of_users_give_what_numba_gives(device: Device, name: str) -> None:
    x = np.array([0, 1, 3, 7, -2.5])
    scalar = FUNCTIONS[name]
    with scope():
        operation = elementwise(
            f"device_function_{next(_numbers)}",
            doc="One of this module.",
            scalar=plain(scalar),
            dtypes=np.exp,
            eager=lambda xp, x: x,
        )
        got = device.get(minijit.jit(lambda x: operation(x))(device.put(x)))
    function = numba.njit(scalar)
    np.testing.assert_allclose(got, [function(each) for each in x], rtol=1e-15)


def test_functions_of_minijit_are_written_in_place(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To be called is right as well, but slow to compile: it must not come unnoticed."""
    inline = Function.inline
    found: dict[str, bool] = {}

    def spy(self: Function, function: Any, operands: Any) -> Any:
        result = inline(self, function, operands)
        found[function.__qualname__] = result is not None
        return result

    monkeypatch.setattr(Function, "inline", spy)

    @minijit.jit
    def f(x: Any) -> Any:
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return np.tanh(e / e.sum(axis=-1, keepdims=True)) ** 3, np.argmax(x, axis=0), x.std(axis=0)

    minijit.clear_caches()
    f(device.put(np.ones((3, 70), np.float32)))
    assert found
    assert all(found.values()), found

"""The front end of kernels against Numba's own, and against Python: one text, equal results."""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from textwrap import dedent, indent
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import types
from numba.extending import intrinsic

from minijit.backends.frontend import FrontendError, Toolkit, kernel_function

TOOLKIT = Toolkit(types, intrinsic)
NAMES = {"math": math, **{t.__name__: t for t in (np.float32, np.float64, np.int32, np.uint8)}}


@numba.njit
def clamped(x: Any, low: Any, high: Any) -> Any:
    if x < low:
        return low
    if x > high:
        x = high
    return x


@numba.njit
def halves(x: Any, count: Any) -> Any:
    steps = 0
    while count > 0:
        x, count = x / 2, count - 1
        steps += 1
    return x, steps


@numba.njit
def power(x: Any, count: Any) -> Any:
    result = x
    for _ in range(count):
        result = result * x
    return result


@numba.njit
def both(x: Any) -> Any:
    y = x * x
    x = x * 0.1
    return x + y


square = numba.njit(lambda x: x * x)
HELPERS = {"clamped": clamped, "halves": halves, "square": square, "power": power, "both": both}


def module(body: str) -> str:
    return "def kernel(x, n, out):\n" + indent(dedent(body).strip(), "    ") + "\n"


def compiled(text: str, **names: Any) -> Callable[..., None]:
    """The kernel by the front end; arrays stand for pointers."""
    signature = types.void(types.float64[::1], types.int64, types.float64[::1])
    with kernel_function(TOOLKIT, text, NAMES | HELPERS | names, "<a kernel>") as function:
        return numba.njit(signature, error_model="numpy")(function)


def by_numba(text: str) -> Callable[..., None]:
    """The kernel by Numba alone."""
    module = NAMES | HELPERS
    exec(text, module)
    return numba.njit(module["kernel"], error_model="numpy")


BODIES = {
    "assignments": """
        v = x[0]
        out[0] = v
        v += 2
        out[1] = -v
        a, b = v, x[1]
        a, b = b, a
        out[2] = a - b
    """,
    "operators": """
        out[0] = (n + 7) // 3 * 2 - n % 5
        out[1] = (n << 3) | (n & 6) ^ 1
        out[2] = x[0] / x[1] * x[2] ** 2
        out[3] = ~n >> 1
    """,
    "numbers are folded": """
        out[0] = 2 * 3 + 4.5 - 7 // 2
        out[1] = -3 % 5
        if 1 < 2:
            out[2] = 8
    """,
    "int32 and int64": "k = int32(n)\nfor j in range(k):\n    out[j] = j * int32(3) + n",
    "small types wrap": "out[0] = uint8(n + 255)\nout[1] = int32(1 << 20) * int32(1 << 14)",
    "float32": "v = float32(0.1) + float32(x[0])\nout[0] = v * v\nout[1] = v * 0.1",
    "comparisons": """
        out[0] = 1.0 if x[0] < x[1] else 2.0
        out[1] = 1 if (x[0] >= x[1]) & (n != 3) else x[2]
        out[2] = 1 if not x[0] == x[0] else 0
    """,
    "short circuits": """
        k = 0
        while k < n and x[k] > 0.0:
            k += 1
        out[0] = k
        if n < 2 or x[1] > 0.0 or x[0] > 9.0:
            out[1] = 5.0
    """,
    "ranges": """
        for k in range(n): out[k] = k
        for k in range(2, n): out[k] += 10
        for k in range(0, n, 3): out[k] += 100
        for k in range(n - 1, 0, -2): out[k] += 1000
    """,
    "the counter is the loop's own": "for k in range(n):\n    out[k] = 1.0\n    k = k + 5",
    "break and continue": """
        for k in range(n):
            if k == 1:
                continue
            for j in range(n):
                if j > k:
                    break
                out[k] += x[j]
            if k == 4:
                break
    """,
    "while": "k = n\nwhile True:\n    k = k - 1\n    if k < 0:\n        break\n    out[k] = x[k]",
    "branches": """
        if n > 3:
            v = x[0]
        elif n > 2:
            v = x[1]
        else:
            v = x[2]
        out[0] = v
        if n > 100:
            pass
        else:
            out[1] = 1.0
    """,
    "builtins": """
        out[0] = min(n, 3)
        out[1] = max(int32(2), n)
        out[2] = abs(x[0] - 9.0)
        out[3] = min(2, 1)
    """,
    "mathematics": """
        out[0] = math.sqrt(x[0])
        out[1] = math.copysign(x[1], -0.0)
        out[2] = math.isfinite(x[2])
    """,
    "device functions": "for k in range(n):\n    out[k] = clamped(x[k], 0.25, 0.5) + square(x[k])",
    "variables become wider": """
        out[0] = power(int32(7), 20)
        out[1] = power(float32(1.5), n)
        if n > 2:
            out[2] = power(uint8(200), n)
        out[3] = both(float32(x[0]))
    """,
    "another type, another variable": "v = n\nout[0] = v\nv = x[0] / 3\nout[1] = v",
    "several results": "v, k = halves(x[0], n)\nout[0] = v\nout[1] = k",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_kernels_mean_what_numba_makes_of_their_text(body: str) -> None:
    text = module(body)
    x = np.random.default_rng(5).uniform(0.0, 1.0, 8)
    ours, numbas = np.zeros(8), np.zeros(8)
    compiled(text)(x, 6, ours)
    by_numba(text)(x, 6, numbas)
    assert ours.any()
    np.testing.assert_array_equal(ours, numbas)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("out[0] = [1.0][0]", "line 2: out[0] = [1.0][0]\nList"),
        ("for v in x: out[0] = v", "Name is not"),
        ("for k in range(0, 4, n): out[k] = k", "step of a range"),
        ("v = 1\nif n > 2:\n    v = x[0]", "line 4: v = x[0]\nv is int64"),
        ("v = 1\nif n > 2:\n    v = 0.5", "line 4: v = 0.5\nv is int64"),
        ("out[0] = w", "nothing is called w"),
        ("out[0] = x[0](1)", "Call"),
        ("out[0] = x[0] & 1", "and_"),
        ("out[0] = x.imag", "imag"),
        ("a, b = x[0]", "Tuple"),
        ("out[0] = max(x[0] > 1, x[1] > 1)", "integers and floats"),
    ],
)
def test_what_is_outside_the_language_is_refused_with_its_line(body: str, message: str) -> None:
    with pytest.raises(FrontendError) as caught:
        compiled(module(body))
    assert message in str(caught.value)
    assert "<a kernel>" not in linecache.cache


def test_one_intrinsic_serves_all_kernels() -> None:
    with kernel_function(TOOLKIT, module("out[0] = 1.0"), {}, "<one>") as one:
        pass
    with kernel_function(TOOLKIT, module("out[0] = 2.0"), {}, "<two>") as two:
        pass
    assert one.__globals__["body"] is two.__globals__["body"]


def test_a_device_function_without_source_is_called() -> None:
    space: dict[str, Any] = {}
    exec("def tripled(x): return 3.0 * x", space)
    out = np.zeros(8)
    tripled = numba.njit(space["tripled"])
    compiled(module("out[0] = tripled(x[0])"), tripled=tripled)(np.full(8, 2.0), 1, out)
    assert out[0] == 6.0


def test_a_function_outside_the_language_is_called() -> None:
    @numba.njit
    def total(x: Any) -> Any:
        return sum([x, x, x])

    out = np.zeros(8)
    compiled(module("out[0] = total(x[0])"), total=total)(np.full(8, 2.0), 1, out)
    assert out[0] == 6.0


def test_lambdas_on_one_line_are_told_apart() -> None:
    first, second = numba.njit(lambda x: x + 1.0), numba.njit(lambda x: x + 2.0)
    out = np.zeros(8)
    text = module("out[0] = first(x[0])\nout[1] = second(x[0])")
    compiled(text, first=first, second=second)(np.zeros(8), 1, out)
    assert out[:2].tolist() == [1.0, 2.0]


def test_closures_are_read_where_the_function_was_made() -> None:
    def adder(number: float) -> Any:
        return numba.njit(lambda x: x + number)

    out = np.zeros(8)
    compiled(module("out[0] = add(x[0])"), add=adder(4.0))(np.zeros(8), 1, out)
    assert out[0] == 4.0

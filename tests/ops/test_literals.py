"""Numbers in scalar functions: those that are typed, those that stay integers."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

from minijit.graph.definitions import definition
from minijit.graph.errors import DeclarationError
from minijit.ops.literals import Formula, typed_literals

SINGLE, DOUBLE, INT32 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int32)
HALF, COUNT, TABLE = 0.5, 3, np.array([1.0, 2.0], np.float32)


def accumulated(x: Any) -> Any:
    total = 0
    for k in range(COUNT):
        total += x / (k + HALF)
    return 2 * total


def branches(x: Any) -> Any:
    if x > 1:
        return 1
    y = 0 if x < -1 else x
    return y * math.pi


def powers(x: Any) -> Any:
    return x**2 + x**-1 + abs(x) ** 0.5


def counters(x: Any) -> Any:
    n = 0
    while x < 100 and n < 10:
        x = x * 2
        n += 1
    return x + n


def quotient_of_counts(x: Any) -> Any:
    total = x * 0
    for k in range(1, 4):
        total += 1 / k
    return total


def builtins(x: Any) -> Any:
    return max(abs(x), 1) + min(x, 0.5) + float(3) + math.floor(x) + int(x) % 2


def pair(x: Any) -> Any:
    a, b = 1, x
    a, b = b, a + b
    return a * b


def logical(x: Any) -> Any:
    return (x > 0 or x < -1) and not x == 3  # noqa: SIM201 - what is tested


def indexed(x: Any) -> Any:
    return TABLE[1] * x + TABLE[0]


ALL: list[Callable[[Any], Any]] = [
    accumulated,
    branches,
    powers,
    counters,
    quotient_of_counts,
    builtins,
    pair,
    indexed,
    lambda x: 1 - x / 3 + 2 * -0.5,
    lambda x: math.atan2(1, x) + math.pow(x, 2),
]


def code(function: Any, dtype: np.dtype[Any]) -> str:
    """The last line of what a function is written as."""
    made = typed_literals(function, dtype)
    tree = definition(made.__code__)
    assert tree is not None
    cells = zip(made.__code__.co_freevars, made.__closure__ or (), strict=True)
    last = ast.unparse(tree.body if isinstance(tree, ast.Lambda) else tree.body[-1])
    for name, cell in cells:
        value = cell.cell_contents
        last = last.replace(name, value.__name__ if isinstance(value, type) else repr(value))
    return last


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize("function", ALL, ids=lambda f: f.__name__)
def test_the_dtype_is_kept(function: Any, dtype: np.dtype[Any]) -> None:
    compiled = numba.njit(typed_literals(function, dtype), error_model="numpy")
    for value in (0.25, -2.5, 3.0, 50.0):
        got = compiled(dtype.type(value))
        want = function(float(value))
        assert got == pytest.approx(want, rel=8 * float(np.finfo(dtype).eps))
    (signature,) = compiled.nopython_signatures
    assert str(signature.return_type) == dtype.name


def test_what_is_written() -> None:
    single = "np.float32"
    assert code(lambda x: 2 * x, SINGLE) == f"{single}(2.0) * x"
    assert code(lambda x: x**2, SINGLE) == "x ** 2"
    assert code(lambda x: 2**x, SINGLE) == f"{single}(2.0) ** x"
    assert code(lambda x: x > -1, SINGLE) == f"x > {single}(-1.0)"
    assert code(lambda x: x * HALF, DOUBLE) == "x * np.float64(0.5)"
    assert code(lambda x: (x >> 1) & 0xFF, INT32) == "x >> np.int32(1) & np.int32(255)"
    assert code(lambda x: not x, np.dtype(bool)) == "not x"


def test_integers_of_an_integer_dtype_stay_in_it() -> None:
    compiled = numba.njit(typed_literals(lambda x: x % 7 + 1, np.dtype(np.uint32)))
    assert compiled(np.uint32(2**32 - 1)) == (2**32 - 1) % 7 + 1


def test_a_number_that_does_not_fit_is_refused_with_its_line() -> None:
    with pytest.raises(DeclarationError, match=r"test_literals\.py:\d+ .*: 300 does not fit into"):
        typed_literals(lambda x: x + 300, np.dtype(np.uint8))


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda x: x * len(f"{x}"), r"`f'\{x\}'` is text"),
        (lambda x: x * len(str(x)), r"`str\(x\)` is text"),
        (lambda x: "large" if x > 1 else x, "`'large'` is text"),
        (lambda x: [x, 2 * x][1], r"`\[x, 2 \* x\]` is a container; write a tuple"),
        (lambda x: {1: x}[1], r"`\{1: x\}` is a container"),
        (lambda x: sum(x * k for k in range(3)), r"makes a container; write a loop"),
    ],
)
def test_text_and_containers_are_refused_with_their_line(function: Any, what: str) -> None:
    with pytest.raises(DeclarationError, match=rf"^test_literals\.py:\d+ \(<lambda>\): .*{what}"):
        typed_literals(function, SINGLE)


def test_a_loop_over_a_list_of_numbers_is_one_over_a_tuple() -> None:
    def f(x: Any) -> Any:
        "Not text."
        total = 0
        for weight in [0.5, 2]:
            total += weight * x
        return total

    assert numba.njit(typed_literals(f, SINGLE))(np.float32(3)) == np.float32(7.5)


def test_integer_literals_alone_take_the_dtype_where_results_have_it() -> None:
    def step(x: Any) -> Any:
        if x > 0:
            return 1
        return 0

    assert type(Formula(step, same=True)(SINGLE)(2.0)) is np.float32
    assert type(Formula(step)(SINGLE)(2.0)) is int


def test_a_function_without_source_is_refused() -> None:
    names: dict[str, Any] = {}
    exec("def f(x): return 2 * x", names)
    with pytest.raises(DeclarationError, match="its source is not there"):
        typed_literals(names["f"], SINGLE)


def test_logic_gives_truth_values() -> None:
    compiled = numba.njit(typed_literals(logical, SINGLE))
    assert [bool(compiled(np.float32(v))) for v in (-2, -0.5, 1, 3)] == [True, False, True, False]


def test_operands_of_several_dtypes() -> None:
    def mean(n: Any, x: Any) -> Any:
        return x / n + 1

    made = typed_literals(mean, SINGLE, (np.dtype(np.int64), SINGLE))
    compiled = numba.njit(made, error_model="numpy")
    assert compiled(4, np.float32(2)) == np.float32(1.5)
    (signature,) = compiled.nopython_signatures
    assert str(signature.return_type) == "float32"


def test_free_variables_that_are_objects_are_kept() -> None:
    factor, scale = np.float32(3), 0.5

    def scaled(x: Any) -> Any:
        return x * factor * scale

    made = Formula(scaled)(SINGLE)  # type: ignore[arg-type]  # mypy sees no FunctionType
    assert made(np.float32(2)) == np.float32(3)
    assert made.__name__ == "scaled"

"""What traced values refuse, with the line, the argument and the remedy; and what they answer."""

from __future__ import annotations

import copy
import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit.graph import errors

X = np.arange(6, dtype=np.float32)
N = np.int32(2)

TRUTH: dict[str, Callable[[Any], Any]] = {
    "if": lambda x: 1 if x > 0 else 2,
    "and": lambda x: x > 0 and x < 5,
    "not": lambda x: not x,
    "chain": lambda x: 0 < x < 3,
    "max": lambda x: max(x, 0),
    "in": lambda x: x in (1, 2),
    "sorted": lambda x: sorted([x, 1]),
    "all": lambda x: all([x]),
}


def in_an_if(x: Any) -> Any:
    if x > 0:
        return x
    return -x


def in_an_elif(x: Any) -> Any:
    y = -x
    if isinstance(x, int):
        y = x
    elif (
        abs(x)
        > 3
    ):  # fmt: skip
        y = x + 3
    return y


def in_a_while(x: Any) -> Any:
    while x > 1:
        x = x / 2
    return x


def in_an_if_of_a_while(x: Any) -> Any:
    while True:
        if x > 1:
            return x


BRANCH = "minijit.lax.cond(condition, true_fun, false_fun)"
LOOP = "minijit.lax.while_loop(condition, body, value)"
LOGIC = "(a) & (b) for `a and b`"
STATEMENTS: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "if": (in_an_if, BRANCH, LOOP),
    "elif": (in_an_elif, BRANCH, LOOP),
    "conditional expression": (lambda x: 1 if x > 0 else 2, BRANCH, LOOP),
    "while": (in_a_while, LOOP, BRANCH),
    "if in a while": (in_an_if_of_a_while, BRANCH, LOOP),
    "if with and": (lambda x: 1 if x > 0 and x < 9 else 2, BRANCH, LOGIC),
    "not": (lambda x: not x, LOGIC, BRANCH),
    "or": (lambda x: x < 0 or x > 3, LOGIC, LOOP),
    "chain": (lambda x: 0 < x < 3, LOGIC, BRANCH),
    "comparison": (lambda x: max(x < 3, x), BRANCH, LOGIC),
}
INDEX: dict[str, Callable[[Any], Any]] = {
    "range": lambda n: range(n),
    "list": lambda n: [1, 2, 3][n],
    "slice": lambda n: [1, 2, 3][:n],
}
NUMBER: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "int": int,
    "complex": complex,
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "math": lambda x: math.exp(x),
}
ARRAY: dict[str, Callable[[Any], Any]] = {
    "asarray": np.asarray,
    "array": lambda x: np.array(x, np.float32),
    "copyto": lambda x: np.empty(6).__setitem__(slice(None), x),
}


def refused(function: Callable[[Any], Any], value: Any, kind: type[Exception]) -> str:
    def step(amount: Any) -> Any:
        doubled = amount * 2
        return function(doubled)

    with pytest.raises(kind) as caught:
        minijit.jit(step)(value)
    text = str(caught.value)
    assert re.search(r"is needed at test_tracer\.py:\d+ \(", text)
    assert re.search(r"computed at test_tracer\.py:\d+ \(", text)
    assert "from the argument amount of 'step'" in text
    return text


@pytest.mark.parametrize("name", TRUTH)
def test_truth(name: str) -> None:
    text = refused(TRUTH[name], np.float32(1), errors.TracerBoolConversionError)
    assert "minijit.numpy.where" in text or LOGIC in text
    assert "static_argnames" in text


@pytest.mark.parametrize("name", STATEMENTS)
def test_the_remedy_for_a_truth_fits_the_statement(name: str) -> None:
    function, remedy, other = STATEMENTS[name]
    for value, reduced in ((np.float32(1), False), (X, True)):
        text = refused(function, value, errors.TracerBoolConversionError)
        assert remedy in text
        assert other not in text
        assert (".any() or .all()" in text) is reduced
        assert "static_argnames" in text


def test_without_source_the_remedy_is_that_of_a_branch() -> None:
    namespace: dict[str, Any] = {}
    exec("def loop(x):\n    while x > 1:\n        x = x / 2\n", namespace)
    with pytest.raises(errors.TracerBoolConversionError, match=re.escape(BRANCH)):
        minijit.jit(namespace["loop"])(np.float32(3))


@pytest.mark.parametrize("name", INDEX)
def test_python_integers(name: str) -> None:
    text = refused(INDEX[name], N, errors.TracerIntegerConversionError)
    assert "static_argnames" in text
    assert "int32[]" in text


@pytest.mark.parametrize("name", NUMBER)
def test_python_numbers(name: str) -> None:
    text = refused(NUMBER[name], np.float32(1), errors.ConcretizationTypeError)
    assert "keep it an array" in text


@pytest.mark.parametrize("name", ARRAY)
def test_real_arrays(name: str) -> None:
    text = refused(ARRAY[name], X, errors.TracerArrayConversionError)
    assert "float32[6]" in text


def test_hashing() -> None:
    with pytest.raises(TypeError, match="hash"):
        minijit.jit(lambda x: {x: 1})(X)


@pytest.mark.parametrize(
    "function",
    [lambda n: jnp.zeros(n), lambda n: jnp.arange(n), lambda n: jnp.ones(6).reshape(n, -1)],
)
def test_shapes_from_traced_values(function: Any) -> None:
    with pytest.raises(errors.ConcretizationTypeError, match="static"):
        minijit.jit(function)(N)


@pytest.mark.parametrize(
    "function", [lambda x: x[x > 0], lambda x: jnp.nonzero(x), lambda x: jnp.unique(x)]
)
def test_sizes_that_depend_on_data(function: Any) -> None:
    with pytest.raises((errors.ConcretizationTypeError, TypeError)) as caught:
        minijit.jit(function)(X)
    assert "test_tracer.py" in str(caught.value)


def test_every_class_is_what_python_expects() -> None:
    assert issubclass(errors.NonConcreteBooleanIndexError, IndexError)
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert len(inspect.cleandoc(kind.__doc__ or "")) > 60
        expected = {"Warning": UserWarning, "LimitError": RuntimeError, "CUDAError": RuntimeError}
        expected["DeclarationError"] = ValueError
        bases = [base for end, base in expected.items() if name.endswith(end)]
        assert issubclass(kind, bases[0] if bases else TypeError)
        if name != "CacheWarning":
            assert getattr(minijit, name) is kind


def test_assignment_is_refused_with_another_way() -> None:
    def assign(x: Any) -> Any:
        x[0] = 1
        return x

    line = assign.__code__.co_firstlineno + 1
    with pytest.raises(TypeError, match=rf"in place \(at test_tracer.py:{line}.*where"):
        minijit.jit(assign)(X)


def test_in_place_operators_give_new_values_of_the_same_dtype() -> None:
    def steps(x: Any, n: Any) -> Any:
        x = x * 1
        x += 1
        x *= 2.5
        x -= x.sum()
        x /= 2
        x **= 2
        n = n + 0
        n //= 2
        n %= 5
        n <<= 1
        n |= 1
        n &= 7
        n ^= 2
        n >>= 1
        return x, n

    n = np.arange(6)
    got, want = minijit.jit(steps)(X, n), steps(X, n)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(X, np.arange(6))


def test_in_place_operators_store_only_what_fits() -> None:
    def cut(n: Any) -> Any:
        n += 0.5
        return n

    def grow(x: Any) -> Any:
        x += np.ones((2, 6), np.float32)
        return x

    with pytest.raises(TypeError, match="cannot store"):
        minijit.jit(cut)(np.arange(3))
    with pytest.raises(TypeError, match="cannot store"):
        minijit.jit(grow)(X)
    assert minijit.jit(cut)(2) == 2.5  # a Python number takes another type, as in Python


def test_out_is_refused() -> None:
    with pytest.raises(TypeError, match="out= of a ufunc cannot be traced"):
        minijit.jit(lambda x: np.add(x, 1, out=np.empty(6, np.float32)))(X)
    with pytest.raises(TypeError, match="out= of a ufunc cannot be traced"):
        minijit.jit(lambda x: np.add(x, 1, out=x))(X)


def test_attributes_and_iteration() -> None:
    seen: list[Any] = []

    def look(x: Any) -> Any:
        seen.append((x.shape, x.ndim, x.size, x.dtype, x.nbytes, x.itemsize, len(x), repr(x)))
        a, b = x
        return sum(row for row in x) + a - b, copy.deepcopy({"x": x})["x"], copy.copy(x)

    x = X.reshape(2, 3)
    rows, deep, shallow = minijit.jit(look)(x)
    assert seen == [((2, 3), 2, 6, np.float32, 24, 4, 2, "Traced<f32[2,3]>")]
    np.testing.assert_array_equal(rows, x.sum(0) + x[0] - x[1])
    np.testing.assert_array_equal(deep, x)
    np.testing.assert_array_equal(shallow, x)


def test_what_has_no_axes_has_no_length() -> None:
    for function in (len, list):
        with pytest.raises(TypeError, match="without axes"):
            minijit.jit(function)(np.float32(1))


def test_unknown_attributes_and_functions_name_the_line() -> None:
    for function, text in (
        (lambda x: x.nonsense, "no attribute 'nonsense'"),
        (lambda x: np.interp(x, x, x), r"np\.interp cannot be traced"),
        (lambda x: np.add.accumulate(x), r"np\.add\.accumulate cannot be traced"),
    ):
        with pytest.raises((AttributeError, TypeError), match=rf"{text} \(at test_tracer.py"):
            minijit.jit(function)(X)

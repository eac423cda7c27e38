"""Code of one element that cannot be compiled, or could raise: refused with the user's line.

PYTEST_DONT_REWRITE: the `assert` of a scalar function is what is tested.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.extend import Monoid, bind, elementwise, plain, reduction
from minijit.graph.errors import DeclarationError
from tests.conftest import Device

_numbers = itertools.count()
TABLE = (1.5, 2.5, 3.5)


def asserting(x: Any) -> Any:
    assert x > 0
    return x


def raising(x: Any) -> Any:
    if x > 3:
        raise ValueError("too large")
    return x


def inverse(x: Any) -> Any:
    return int(x) ** int(-x)


def unfinished(x: Any) -> Any:  # noqa: RET503
    if x > 0:
        return x


def looking_up(x: Any) -> Any:
    return TABLE[int(x)]


def certain(x: Any) -> Any:
    y = x * x
    assert y >= 0 or y != y
    if y < 0:
        raise ValueError("never")
    return y


def plain_helper(x: Any) -> Any:
    return x * x


def helped(x: Any) -> Any:
    return plain_helper(x)


def attribute(x: Any) -> Any:
    return x.nothing


def text(x: Any) -> Any:
    return "positive" if x > 0 else x


def gamma(x: Any) -> Any:
    return math.gamma(x)


def scaled(x: Any) -> Any:
    return math.ldexp(x, 2)


def rest(x: Any) -> Any:
    return math.fmod(x, 1.5)


def operation(function: Callable[..., Any]) -> Any:
    return elementwise(
        f"refused_{next(_numbers)}",
        doc="One of this module.",
        scalar=plain(function),
        dtypes=np.exp,
        eager=lambda xp, x: x,
    )


def refusal(device: Device, function: Callable[..., Any]) -> str:
    """The message with which a function is refused."""
    op = operation(function)
    with pytest.raises(DeclarationError) as caught:
        minijit.jit(lambda x: op(x))(device.put(np.ones(3)))
    return str(caught.value)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (asserting, r"`assert x > 0` at test_refusals\.py:\d+ \(asserting\)"),
        (raising, r"`raise ValueError\('too large'\)` at .*:\d+ \(raising\)"),
        (inverse, r"`int\(x\) \*\* int\(-x\)` \(of an integer zero.*\) at .*:\d+ \(inverse\)"),
        (unfinished, r"test_refusals\.py:\d+ \(unfinished\) has a way to its end without a result"),
        (looking_up, r"`TABLE\[int\(x\)\]` \(where the index is out of range.*\(looking_up\)"),
    ],
)
def test_what_could_raise_is_refused(
    device: Device, function: Callable[..., Any], reason: str
) -> None:
    assert re.search(f"could raise.*{reason}", refusal(device, function))


@pytest.mark.parametrize("function", [gamma, scaled, rest])
def test_functions_without_code_on_one_target_are_named(function: Callable[..., Any]) -> None:
    message = refusal(Device("cpu"), function)
    where = rf"^test_refusals\.py:\d+ \({function.__name__}\): "
    assert re.search(where + r"(it calls )?math\.(gamma|ldexp|fmod)\b.* no compiled code", message)


def test_an_error_that_never_comes_is_none(device: Device) -> None:
    op = operation(certain)
    x = np.array([-1.5, 0, 2, np.nan])
    got = device.get(minijit.jit(lambda x: op(x))(device.put(x)))
    np.testing.assert_array_equal(got, x * x)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (helped, "plain_helper is a Python function, which compiled code cannot call"),
        (attribute, "Numba cannot compile it: Unknown attribute 'nothing' of type float64"),
        (text, r"Cannot unify Literal\[str\]\(positive\) and float64"),
    ],
)
def test_what_numba_cannot_type_is_said_in_its_words(
    device: Device, function: Callable[..., Any], reason: str
) -> None:
    message = refusal(device, function)
    assert re.search(rf"^test_refusals\.py:\d+ \({function.__name__}\): .*{reason}", message)
    assert not re.search(r"\$|nopython|During|pipeline", message)


def test_combinations_of_reductions_are_explained_as_well(device: Device) -> None:
    def combine(x: Any, y: Any) -> Any:
        assert x < 1e30
        return x + y

    name = f"refused_{next(_numbers)}"
    total_p = reduction(
        name,
        monoid=Monoid(name, lambda dtype: combine, lambda dtype: (dtype.type(0),)),
        result_dtype=lambda dtype: dtype,
        doc="A sum.",
        eager=lambda xp, x, axes: xp.sum(x, axis=axes),
    )
    with pytest.raises(DeclarationError, match=r"`assert x < 1e\+?30` at .* \(combine\)"):
        minijit.jit(lambda x: bind(total_p, x, axes=(0,)))(device.put(np.ones(300, np.float32)))


def test_frames_of_the_compiler_are_cut(device: Device) -> None:
    op = operation(attribute)
    with pytest.raises(DeclarationError) as caught:
        minijit.jit(lambda x: op(x))(device.put(np.ones(3)))
    assert caught.value.__suppress_context__

"""What ``vmap`` refuses, with the user's line: axes that do not fit, what cannot be mapped."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.extend
from minijit import jit, vmap
from tests.api.test_vectorize import X, Y, disabled, softmax


def line_of(message: str) -> bool:
    return bool(re.search(r"\(at test_vectorize_refusals\.py:\d+ ", message))


@pytest.mark.parametrize("disable", [False, True], ids=["traced", "disabled"])
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: vmap(lambda x, y: x, in_axes=(0, 1))(X, X), ["differ", "axis 0", "extent 4"]),
        (lambda: vmap(lambda p: p["a"])({"a": X, "b": [Y]}), ["p['a']", "p['b'][0]", "differ"]),
        (lambda: vmap(lambda x: x, axis_size=5)(X), ["axis_size=5", "extent 3"]),
        (lambda: vmap(lambda x: x, in_axes=(0, 0))(X), ["2 entries", "1 positional"]),
        (lambda: vmap(lambda x: x, in_axes=({"a": 0},))([X]), ["in_axes has for x does not fit"]),
        (lambda: vmap(lambda x: x, in_axes=2)(X), ["in_axes is 2 for x", "2 axes"]),
        (lambda: vmap(lambda x: x, in_axes=-3)(X), ["in_axes is -3 for x"]),
        (lambda: vmap(lambda x, y: x)(X, np.float32(2)), ["y is a scalar", "None in in_axes"]),
        (lambda: vmap(lambda x: x, in_axes=None)(X), ["nothing is mapped", "axis_size="]),
        (lambda: vmap(lambda x: x, out_axes=3)(X), ["out_axes is 3 for result", "2 axes"]),
        (lambda: vmap(lambda x: (x, x), out_axes=(0, 0, 0))(X), ["out_axes does not fit"]),
    ],
)  # fmt: skip
def test_axes_that_do_not_go_together(call: Any, words: list[str], disable: bool) -> None:
    for way in (call, disabled(call)) if disable else (call, lambda: jit(call)()):
        with pytest.raises(ValueError, match="vmap of <lambda>") as raised:
            way()
        assert all(word in str(raised.value) for word in words), raised.value
        assert disable or line_of(str(raised.value))


def test_results_that_differ_need_an_axis() -> None:
    with pytest.raises(ValueError, match=r"out_axes is None for result\[1\].*differs") as raised:
        vmap(lambda x: (2.0, x), out_axes=None)(X)
    assert line_of(str(raised.value))


def test_what_is_no_function_and_no_axis() -> None:
    with pytest.raises(TypeError, match="takes a function, not 3"):
        vmap(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"in_axes=.* is neither"):
        vmap(softmax, in_axes={"v": 0})
    with pytest.raises(TypeError, match=r"in_axes holds 1\.5"):
        vmap(softmax, in_axes=(1.5,))
    with pytest.raises(TypeError, match="out_axes holds True"):
        vmap(softmax, out_axes=True)
    with pytest.raises(TypeError, match=r"x is mapped over: .*'str'.*None in in_axes"):
        jit(lambda: vmap(lambda x: x)("abc"))()


def test_python_cannot_ask_an_element() -> None:
    def one(x: Any) -> Any:
        return x if x > 0 else -x

    with pytest.raises(minijit.TracerBoolConversionError, match="argument x of 'one'") as raised:
        vmap(one)(X[0])
    assert line_of(str(raised.value).replace("needed at ", "(at "))


def test_an_operation_without_a_rule_says_so() -> None:
    with minijit.extend.scope():
        opaque = minijit.extend.library(
            "opaque_for_vmap", lambda xp, x: x, lambda aval: aval, "Itself."
        )
        with pytest.raises(NotImplementedError, match=r"opaque_for_vmap \(at test_vec.*batch="):
            vmap(lambda x: minijit.extend.bind(opaque, x))(X)

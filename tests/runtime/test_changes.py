"""Differences of signatures in words: every cause, with the advice that belongs to it."""

from __future__ import annotations

import dataclasses
import enum
import weakref
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.backends.registry import get_backend
from minijit.graph.aval import ShapedArray
from minijit.graph.identity import Same
from minijit.graph.tree import flatten, leaf_paths
from minijit.runtime.changes import ADVICE, Change, differences, layout_changes
from minijit.runtime.placement import layout_of
from minijit.runtime.signature import (
    Read,
    Signature,
    abstract_leaf,
    plain_key,
    static_key,
    weak_static_key,
)
from minijit.runtime.words import key_text, value_text

OPTIONS = (("checks", True), ("debug_nans", False))
NAMESPACE: dict[str, Any] = {}


def signature(
    *, statics: dict[str, Any] | None = None, reads: dict[str, Any] | None = None, **arguments: Any
) -> Signature:
    leaves, treedef = flatten(tuple(arguments.values()))
    return Signature(
        names=tuple(arguments),
        treedef=treedef,
        avals=tuple(abstract_leaf(leaf, "") for leaf in leaves),
        statics=tuple((n, static_key(n, v)) for n, v in sorted((statics or {}).items())),
        options=OPTIONS,
        backend=get_backend("cpu"),
        reads=tuple(
            Read(Same(NAMESPACE), name, plain_key(v) or Same(v), f"global {name!r} of module m", v)
            for name, v in (reads or {}).items()
        ),
    )


def changes(new: Signature, old: Signature) -> list[Change]:
    return differences(new, old, leaf_paths(new.treedef, new.names))


def f32(*shape: int) -> ShapedArray:
    return ShapedArray(shape, np.dtype(np.float32))


def helper() -> None: ...


def other() -> None: ...


class Plain:
    pass


PLAIN, ANOTHER = Plain(), Plain()

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "shape": ({"x": f32(8)}, {"x": f32(3)}, "shape", "x: f32[8] -> f32[3]"),
    "rank": ({"x": f32(8)}, {"x": f32(8, 1)}, "rank", "x: f32[8] -> f32[8,1]"),
    "dtype": (
        {"p": {"w": np.ones(2)}},
        {"p": {"w": np.ones(2, np.int8)}},
        "dtype",
        "p['w']: f64[2] -> i8[2]",
    ),
    "weak type": ({"s": 1.0}, {"s": np.float64(1)}, "weak type", "s: f64[]* -> f64[]"),
    "structure": (
        {"p": {"a": 1}, "x": 1},
        {"p": {"a": 1, "b": (2, None)}, "x": 1},
        "structure",
        "the structure of p: {'a': *} -> {'a': *, 'b': (*, None)}",
    ),
    "arguments": (
        {"x": f32(8)},
        {"x": f32(8), "scale": 1.0},
        "arguments",
        "the arguments given: x -> x, scale",
    ),
    "static value": (
        {"statics": {"n": 2}},
        {"statics": {"n": 3}},
        "static value",
        "static n: 2 -> 3",
    ),
    "static not given": (
        {},
        {"statics": {"n": 3}},
        "static value",
        "static n: not given -> 3",
    ),
    "static objects": (
        {"statics": {"n": PLAIN}},
        {"statics": {"n": ANOTHER}},
        "static value",
        "static n: a Plain -> another Plain",
    ),
    "read": (
        {"reads": {"scale": 2.0}},
        {"reads": {"scale": 3.0}},
        "read",
        "global 'scale' of module m: 2.0 -> 3.0",
    ),
    "read array": (
        {"reads": {"w": np.ones(2)}},
        {"reads": {"w": np.ones(2)}},
        "read",
        "global 'w' of module m: f64[2] -> another f64[2]",
    ),
    "read function": (
        {"reads": {"g": helper}},
        {"reads": {"g": other}},
        "read",
        "global 'g' of module m: the function helper -> the function other",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_difference_has_a_cause_and_values(name: str) -> None:
    before, after, cause, text = CASES[name]
    (change,) = changes(signature(**after), signature(**before))
    assert (change.cause, str(change)) == (cause, text)
    assert not changes(signature(**after), signature(**after))
    if name != "read function":
        assert change.advice == ADVICE[change.cause]


def test_a_redefined_function_is_no_argument() -> None:
    (change,) = changes(signature(reads={"g": other}), signature(reads={"g": helper}))
    assert change.advice == "define it once, before the first call"
    jitted = signature(reads={"g": minijit.jit(helper)})
    (change,) = changes(jitted, signature(reads={"g": minijit.jit(helper)}))
    assert str(change).endswith("the function helper -> another function helper")


def test_options_and_devices_are_named() -> None:
    old = signature(x=1)
    new = dataclasses.replace(old, options=(("checks", True), ("debug_nans", True)))
    (change,) = changes(new, old)
    assert (change.cause, str(change)) == ("option", "the option debug_nans: False -> True")
    new = dataclasses.replace(old, backend=get_backend("cuda-emulated"))
    (change,) = changes(new, old)
    assert (change.cause, str(change)) == ("device", "the device: cpu -> cuda-emulated")


def test_several_differences_are_all_told() -> None:
    old = signature(x=f32(8), y=f32(2), statics={"n": 1, "m": "a"})
    new = signature(x=f32(8), y=f32(3), statics={"n": 1, "m": "b"})
    assert [*map(str, changes(new, old))] == ["y: f32[2] -> f32[3]", "static m: 'a' -> 'b'"]


def test_memory_layouts() -> None:
    x, transposed = layout_of(np.ones((3, 4))), layout_of(np.ones((4, 3)).T)
    (change,) = layout_changes(["x", "y"], (transposed, x), (x, x))
    assert str(change) == "x: strides (4, 1) -> strides (1, 3)"
    (change,) = layout_changes(["s"], [layout_of(2.0)], [layout_of(np.array(2.0))])
    assert change.after == "a number"


class Mode(enum.Enum):
    FAST = 1


@dataclasses.dataclass(frozen=True)
class Sizes:
    width: int


class Broken:
    def __repr__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (True, "True"),
        (-0.0, "-0.0"),
        (2j, "2j"),
        ("text", "'text'"),
        (None, "None"),
        ((1, "a"), "(1, 'a')"),
        ((1.5,), "(1.5,)"),
        (frozenset({2}), "frozenset({2})"),
        (Mode.FAST, "<Mode.FAST: 1>"),
        (Sizes(3), "Sizes(width=3)"),
        (helper, "the function helper"),
        (Plain, "the class Plain"),
        (PLAIN, "a Plain"),
        (Broken(), "a Broken"),
        (np, "the module numpy"),
    ],
)
def test_static_values_read_as_they_were_given(value: Any, text: str) -> None:
    assert key_text(static_key("n", value)) == text
    assert key_text(weak_static_key("n", value)) == text


def test_values_that_are_gone_and_values_that_are_long() -> None:
    owner = Plain()
    key = weak_static_key("self", owner)
    assert isinstance(key, tuple)
    assert isinstance(key[1], weakref.ref)
    del owner
    assert key_text(key) == "an object that is gone"
    assert len(value_text("x" * 10_000)) < 100
    assert len(value_text(list(range(10_000)))) < 100
    assert value_text(np.ones(3, complex)) == "complex128[3]"

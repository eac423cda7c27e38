"""The parts of a signature, their equality, and the differences in words."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from minijit.backends.registry import get_backend
from minijit.graph.aval import ShapedArray
from minijit.graph.tree import flatten
from minijit.runtime.signature import Signature, abstract_leaf, static_key

F32 = np.dtype(np.float32)
CPU, OTHER = get_backend("cpu"), get_backend("cuda-emulated")


def signature(*shapes: tuple[int, ...], **statics: Any) -> Signature:
    _, treedef = flatten(tuple(shapes and [0] * len(shapes)))
    return Signature(
        names=tuple(f"x{n}" for n in range(len(shapes))),
        treedef=treedef,
        avals=tuple(ShapedArray(shape, F32) for shape in shapes),
        statics=tuple((name, static_key(name, value)) for name, value in sorted(statics.items())),
        options=(),
        backend=CPU,
    )


def test_equal_parts_are_equal_signatures() -> None:
    one, other = signature((2, 3), n=1), signature((2, 3), n=1)
    assert one == other
    assert hash(one) == hash(other)
    assert one != signature((2, 3), n=True)
    assert one != signature((3, 2), n=1)
    assert one != dataclasses.replace(one, backend=OTHER)
    assert one != dataclasses.replace(one, options=(("checks", True),))


def test_abstract_leaves() -> None:
    aval = ShapedArray((2,), F32)
    assert abstract_leaf(aval, "x") is aval
    assert abstract_leaf(np.ones(2, np.float32), "x") == aval
    with pytest.raises(TypeError, match=r"^argument p\['w'\]: "):
        abstract_leaf("text", "p['w']")


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, 1.0), (0.0, -0.0), ((1,), (True,)), (1 + 0j, 1), (b"a", "a"), (np.int8(1), 1)],
)
def test_static_keys_differ(one: Any, other: Any) -> None:
    assert static_key("n", one) != static_key("n", other)


def test_static_keys_of_nan_are_equal() -> None:
    assert static_key("n", float("nan")) == static_key("n", float("nan"))
    assert static_key("n", (1, float("nan"))) == static_key("n", (1, float("nan")))

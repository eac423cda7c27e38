"""Programs as plain data: what is written is read back, and nothing else is accepted."""

from __future__ import annotations

import copy
import json
import random
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
from minijit import lax
from minijit.graph.evaluate import evaluate
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.portable import NotPortable, read_jaxpr, read_tree, write_jaxpr, write_tree
from minijit.graph.tree import flatten, unflatten

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def loop(x: Any) -> Any:
    total, rows = lax.scan(lambda c, r: (c + r.sum(), c * r), np.float32(0.5), x)
    best = lax.cond(total > 0, lambda: rows.max(), lambda: -rows.max())
    return lax.while_loop(lambda s: s < 100, lambda s: s * 2 + 1, np.abs(best)), rows[::2]


PROGRAMS: list[Callable[[Any], Any]] = [
    lambda x: np.exp(x) / 3 + x.T.sum(),
    lambda x: np.pad(x, 1)[:, 1:3] @ x[:2],
    lambda x: (np.argmax(x, 1), x.astype(np.float64).std(0), np.where(x > 0, x, np.nan)),
    lambda x: np.cumsum(np.concatenate([x, -x]), axis=1),
    loop,
]


def traced(function: Callable[..., Any], *args: Any) -> Jaxpr:
    return minijit.make_jaxpr(function)(*args)


@pytest.mark.parametrize("function", PROGRAMS)
def test_a_program_is_read_back(function: Callable[[Any], Any]) -> None:
    jaxpr = traced(function, X)
    text = json.dumps(write_jaxpr(jaxpr), allow_nan=False)
    again = read_jaxpr(json.loads(text), jaxpr.consts)
    assert str(again) == str(jaxpr)
    for got, want in zip(evaluate(again, [X]), evaluate(jaxpr, [X]), strict=True):
        assert np.asarray(got).tobytes() == np.asarray(want).tobytes()


def test_paths_are_not_written() -> None:
    assert "/" not in json.dumps(write_jaxpr(traced(lambda x: np.sin(x), X)))


@pytest.mark.parametrize("tree", [0, None, (), (1, [2, {"b": 3, "a": None}], {1: 2, 5: 3})])
def test_a_structure_is_read_back(tree: Any) -> None:
    leaves, treedef = flatten(tree)
    again = read_tree(json.loads(json.dumps(write_tree(treedef))))
    assert again == treedef
    assert repr(unflatten(again, leaves)) == repr(unflatten(treedef, leaves))


def test_other_containers_are_refused() -> None:
    point = namedtuple("point", "x y")(1, 2)
    with pytest.raises(NotPortable, match="point cannot be written to a file: export"):
        write_tree(flatten(point)[1])


def test_an_unknown_primitive_is_named() -> None:
    data = write_jaxpr(traced(lambda x: np.sin(x), X))
    data["eqns"][0]["primitive"] = "sine"
    with pytest.raises(NotPortable, match="'sine', which this process has not declared"):
        read_jaxpr(data, ())


def test_types_are_checked_by_the_primitive() -> None:
    data = write_jaxpr(traced(lambda x: np.sin(x), X))
    data["eqns"][0]["results"] = [[[7], "<f4", False]]
    with pytest.raises(NotPortable, match="sin gives other types"):
        read_jaxpr(data, ())


def test_no_data_raise_anything_else() -> None:
    """Random damage either reads as some program or is refused, without another exception."""
    good = write_jaxpr(traced(loop, X))
    dice = random.Random(5)
    refused = 0
    for _ in range(400):
        data = copy.deepcopy(good)
        _damage(data, dice)
        try:
            read_jaxpr(data, ())
        except NotPortable:
            refused += 1
    assert refused > 200


def _damage(data: Any, dice: random.Random) -> None:
    """Replace one thing somewhere inside."""
    while True:
        places = list(data) if isinstance(data, dict) else list(range(len(data)))
        place = dice.choice(places)
        inside = data[place]
        if isinstance(inside, dict | list) and inside and dice.random() < 0.85:
            data = inside
            continue
        data[place] = dice.choice([None, -1, 10**9, 2.5, "", "<f4", "sin", [], {}, [1, 2], True])
        return

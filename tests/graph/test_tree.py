"""Pytrees: containers, their order, and what the user calls a leaf."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import optree
import pytest

from minijit.graph.tree import flatten, leaf_paths, spread, unflatten

Pair = collections.namedtuple("Pair", "low high")


@optree.register_pytree_node_class(namespace=optree.registry.__GLOBAL_NAMESPACE)
@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        return (self.weight, self.bias), None

    @classmethod
    def tree_unflatten(cls, metadata: None, children: Any) -> Layer:
        return cls(*children)


TREES = [
    1,
    None,
    (),
    [1, (2, [3])],
    {"b": 1, "a": {"c": 2}},
    Pair(1, Pair(2, None)),
    collections.OrderedDict([("z", 1), ("a", 2)]),
    collections.defaultdict(list, {"k": 1}),
    collections.deque([1, 2]),
    Layer(1, (2, None)),
]


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: type(tree).__name__)
def test_a_tree_comes_back_as_it_was(tree: Any) -> None:
    leaves, treedef = flatten(tree)
    again = unflatten(treedef, leaves)
    assert again == tree
    assert type(again) is type(tree)
    assert flatten(again)[1] == treedef
    assert None not in leaves


def test_the_order_of_a_dict_is_no_part_of_its_structure_but_is_kept() -> None:
    one, other = {"b": 1, "a": 2}, {"a": 2, "b": 1}
    (leaves, treedef), (other_leaves, other_treedef) = flatten(one), flatten(other)
    assert treedef == other_treedef
    assert hash(treedef) == hash(other_treedef)
    assert leaves == other_leaves == [2, 1]
    assert list(unflatten(treedef, leaves)) == ["b", "a"]
    assert list(unflatten(other_treedef, leaves)) == ["a", "b"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1,), [1]),
        ({"a": 1}, {"b": 1}),
        ((1, None), (1, 1)),
        ((1,), (1, None)),
        (Pair(1, 2), (1, 2)),
    ],
)
def test_structures_that_differ(one: Any, other: Any) -> None:
    assert flatten(one)[1] != flatten(other)[1]


def test_paths_are_what_the_user_would_write() -> None:
    tree = ({"w": [1, 2], 3: 4}, Pair(5, None), 6)
    _, treedef = flatten(tree)
    paths = leaf_paths(treedef, ["params", "pair", "x"])
    assert sorted(paths) == ["pair.low", "params['w'][0]", "params['w'][1]", "params[3]", "x"]


def test_a_prefix_is_spread_over_the_leaves_below() -> None:
    tree = {"b": (1, 2), "a": [3, None, {"c": 4}]}
    assert spread(7, tree) == [7, 7, 7, 7]
    assert spread(None, tree) == [None] * 4
    assert spread({"a": None, "b": (5, 6)}, tree) == [None, None, 5, 6]
    assert spread({"a": [0, 8, {"c": 9}], "b": 1}, tree) == [0, 9, 1, 1]
    for other in ({"a": 1}, {"a": 1, "b": (1, 2, 3)}, [1, 2]):
        with pytest.raises(ValueError, match=r"."):
            spread(other, tree)

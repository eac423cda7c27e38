"""Pytrees, by optree: nested containers of leaves; None is an empty one, dicts go by sorted key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import optree

__all__ = ["TreeDef", "flatten", "is_leaf", "leaf_paths", "spread", "unflatten"]

TreeDef = optree.PyTreeSpec


def flatten(tree: Any) -> tuple[list[Any], TreeDef]:
    """Return the leaves of ``tree`` in order, and its structure."""
    return optree.tree_flatten(tree)


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """Build the tree of structure ``treedef`` from its leaves."""
    return optree.tree_unflatten(treedef, leaves)


def is_leaf(tree: Any) -> bool:
    """Whether a value is no container."""
    return optree.tree_is_leaf(tree)


def leaf_paths(treedef: TreeDef, names: Sequence[str]) -> list[str]:
    """Return how a user would write each leaf, for example ``params['w'][0]``.

    Args:
        treedef: The structure of a tuple.
        names: What to call its entries.
    """
    accessors = optree.treespec_accessors(treedef)
    return [accessor[1:].codify(names[accessor[0].entry]) for accessor in accessors]


def spread(prefix: Any, tree: Any) -> list[Any]:
    """Return for each leaf of ``tree`` the value that ``prefix`` has for it.

    ``prefix`` ends where ``tree`` may go on: its value there, which may be None, is that of all
    leaves below.

    Raises:
        ValueError: ``prefix`` branches in another way than ``tree``.
    """
    if prefix is None or isinstance(prefix, (int, float)):  # what most calls have
        return [prefix] * len(optree.tree_leaves(tree))
    values = optree.broadcast_prefix(prefix, tree, none_is_leaf=True)
    leaves = optree.tree_leaves(tree, none_is_leaf=True)
    return [value for value, leaf in zip(values, leaves, strict=True) if leaf is not None]

"""Pytrees, by optree: nested containers of leaves; None is an empty one, dicts go by sorted key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import optree

__all__ = ["TreeDef", "flatten", "leaf_paths", "unflatten"]

TreeDef = optree.PyTreeSpec


def flatten(tree: Any) -> tuple[list[Any], TreeDef]:
    """Return the leaves of ``tree`` in order, and its structure."""
    return optree.tree_flatten(tree)


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """Build the tree of structure ``treedef`` from its leaves."""
    return optree.tree_unflatten(treedef, leaves)


def leaf_paths(treedef: TreeDef, names: Sequence[str]) -> list[str]:
    """Return how a user would write each leaf, for example ``params['w'][0]``.

    Args:
        treedef: The structure of a tuple.
        names: What to call its entries.
    """
    accessors = optree.treespec_accessors(treedef)
    return [accessor[1:].codify(names[accessor[0].entry]) for accessor in accessors]

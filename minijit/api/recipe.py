"""How calls of one kind are padded: worked out once, from the types of their arguments alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from minijit.api.padding import checked_axis
from minijit.backends.array import ARRAY_PLACES
from minijit.backends.registry import adopt
from minijit.graph.tracer import Tracer
from minijit.graph.tree import TreeDef, flatten, leaf_paths, spread, unflatten

__all__ = ["Argument", "Leaf", "Pad", "Recipe", "take_apart"]

Leaf = tuple[type, int]
"""What a recipe knows of a leaf: its type, and how many axes it has."""


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """An argument that is padded.

    Attributes:
        name: The parameter.
        axes: For each dimension, what is said of its leaves: an axis, None, or a pytree of those.
        fills: For each dimension, what its leaves are filled with.
    """

    name: str
    axes: tuple[Any, ...]
    fills: tuple[Any, ...]


class Pad(NamedTuple):
    """One axis of one leaf.

    Attributes:
        leaf: Its place among the leaves.
        axis: Counted from the front.
        fill: Value of the padding.
    """

    leaf: int
    axis: int
    fill: float


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """How arguments of known structure, with leaves of known types, are padded.

    Attributes:
        trees: The structure of each argument; None of one that is an array.
        pads: For each dimension, what has its length.
        paths: What the user calls each leaf.
    """

    trees: tuple[TreeDef | None, ...]
    pads: tuple[tuple[Pad, ...], ...]
    paths: tuple[str, ...]

    @classmethod
    def of(
        cls,
        function: str,
        dimensions: int,
        arguments: Sequence[Argument],
        trees: tuple[TreeDef | None, ...],
        leaves: Sequence[Leaf],
    ) -> Recipe:
        """Work the recipe out.

        Args:
            function: What to call the function.
            dimensions: How many there are.
            arguments: Those that are padded.
            trees: The structure of each; None of one that is an array.
            leaves: Of all of them.

        Raises:
            TypeError: a leaf is traced.
            ValueError: a leaf has no such axis, or axes or fills do not fit the structure.
        """
        pads: list[list[Pad]] = [[] for _ in range(dimensions)]
        paths: list[str] = []
        for argument, tree in zip(arguments, trees, strict=True):
            start = len(paths)
            whole = 0 if tree is None else unflatten(tree, range(tree.num_leaves))
            paths += leaf_paths(flatten((whole,))[1], (argument.name,))
            for number in range(dimensions):
                try:
                    axes = spread(argument.axes[number], whole)
                    fills = spread(argument.fills[number], whole)
                except ValueError as error:
                    raise ValueError(
                        f"{function}: axis or fill does not fit {argument.name}: {error}"
                    ) from None
                for place, (axis, fill) in enumerate(zip(axes, fills, strict=True), start):
                    if axis is not None:
                        axis = _axis_of(axis, leaves[place], function, paths[place])
                        pads[number].append(Pad(place, axis, fill))
        return cls(trees, tuple(map(tuple, pads)), tuple(paths))

    def put_together(self, leaves: list[Any]) -> list[Any]:
        """Return the arguments that have these leaves."""
        arguments = []
        place = 0
        for tree in self.trees:
            if tree is None:
                arguments.append(leaves[place])
                place += 1
            else:
                arguments.append(unflatten(tree, leaves[place : place + tree.num_leaves]))
                place += tree.num_leaves
        return arguments

    def described(self, number: int, leaves: Sequence[Any]) -> str:
        """Return in words how long the leaves of one dimension are."""
        return "; ".join(
            f"{self.paths[pad.leaf]} has length {leaves[pad.leaf].shape[pad.axis]} along axis "
            f"{pad.axis}"
            for pad in self.pads[number]
        )


def take_apart(arguments: Iterable[Any]) -> tuple[list[Any], tuple[TreeDef | None, ...]]:
    """Return the leaves of all arguments, as NumPy's or CuPy's arrays, and their structures."""
    leaves: list[Any] = []
    trees: list[TreeDef | None] = []
    for value in arguments:
        if type(value) in ARRAY_PLACES:
            leaves.append(value)
            trees.append(None)
        else:
            found, tree = flatten(value)
            leaves += map(adopt, found)
            trees.append(tree)
    return leaves, tuple(trees)


def _axis_of(axis: int, leaf: Leaf, function: str, path: str) -> int:
    kind, ndim = leaf
    if issubclass(kind, Tracer):
        raise TypeError(
            f"{function} chooses a size before it calls its compiled program, but it was called "
            "while another function is traced, which is compiled for each length: write @bucketed "
            "above @minijit.jit, or call its .__wrapped__ on arrays that are padded already"
        )
    try:
        return checked_axis(axis, kind, ndim)
    except ValueError as error:
        raise ValueError(f"{function}: {path}: {error}") from None

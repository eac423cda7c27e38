"""One argument of a call, taken apart into the leaves that are padded and those that are not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from minijit.api.padding import checked_axis
from minijit.backends.registry import adopt
from minijit.graph.tracer import Tracer
from minijit.graph.tree import TreeDef, flatten, leaf_paths, spread, unflatten

__all__ = ["Padded"]


@dataclasses.dataclass(frozen=True, slots=True)
class Padded:
    """The leaves of one argument, and how they are padded.

    Attributes:
        name: The argument.
        leaves: All its leaves.
        axes: Of each leaf, counted from the front; None where it is left alone.
        fills: Of each leaf.
        tree: Structure of the leaves.
    """

    name: str
    leaves: list[Any]
    axes: list[int | None]
    fills: list[float]
    tree: TreeDef

    @classmethod
    def of(cls, function: str, name: str, value: Any, axes: Any, fills: Any) -> Padded:
        """Take an argument of ``function`` apart.

        Raises:
            TypeError: a leaf is traced.
            ValueError: a leaf has no such axis, or axes or fills do not fit the structure.
        """
        leaves, tree = flatten(value)
        try:
            each_axis, each_fill = spread(axes, value), spread(fills, value)
        except ValueError as error:
            raise ValueError(f"{function}: axis or fill does not fit {name}: {error}") from None
        for place, axis in enumerate(each_axis):
            if axis is None:
                continue
            leaf = leaves[place] = adopt(leaves[place])
            if isinstance(leaf, Tracer):
                raise TypeError(
                    f"{function} chooses a size before it calls its compiled program, but it was "
                    "called while another function is traced, which is compiled for each length: "
                    "write @bucketed above @minijit.jit, or call its .__wrapped__ on arrays that "
                    "are padded already"
                )
            try:
                each_axis[place] = checked_axis(axis, leaf)
            except ValueError as error:
                raise ValueError(f"{function}: {_path(name, tree, place)}: {error}") from None
        return cls(name, leaves, each_axis, each_fill, tree)

    def lengths(self) -> Iterator[int]:
        """Return how long each padded leaf is."""
        for leaf, axis in zip(self.leaves, self.axes, strict=True):
            if axis is not None:
                yield leaf.shape[axis]

    def described(self) -> Iterator[str]:
        """Return in words how long each padded leaf is."""
        for place, (leaf, axis) in enumerate(zip(self.leaves, self.axes, strict=True)):
            if axis is not None:
                path = _path(self.name, self.tree, place)
                yield f"{path} has length {leaf.shape[axis]} along axis {axis}"

    def padded(self, pad: Callable[[Any, int, int, float], Any], size: int) -> Any:
        """Return the argument with its leaves padded by ``pad(leaf, axis, size, fill)``."""
        entries = zip(self.leaves, self.axes, self.fills, strict=True)
        leaves = [x if axis is None else pad(x, axis, size, fill) for x, axis, fill in entries]
        return unflatten(self.tree, leaves)

    @property
    def first(self) -> Any:
        """The first leaf that is padded, if any."""
        pairs = zip(self.leaves, self.axes, strict=True)
        return next((leaf for leaf, axis in pairs if axis is not None), None)


def _path(name: str, tree: TreeDef, place: int) -> str:
    """Return what the user calls a leaf of the argument ``name``."""
    whole = flatten((unflatten(tree, range(tree.num_leaves)),))[1]
    return leaf_paths(whole, (name,))[place]

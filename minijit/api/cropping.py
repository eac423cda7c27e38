"""Which axes of results have the length that was padded, and cutting them back to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from minijit.api.stages import Lowered
from minijit.backends.array import ARRAY_PLACES
from minijit.graph.tree import flatten, leaf_paths, spread, unflatten

__all__ = ["Crops", "crop", "crops_asked", "crops_inferred"]

Crops: TypeAlias = tuple[tuple[tuple[int, int], ...], ...]
"""For each leaf of a result, pairs of an axis and the number of the length that it has."""


def crop(result: Any, crops: Crops, lengths: Sequence[int]) -> Any:
    """Return views of the leaves of ``result``, cut along the axes of ``crops``."""
    if type(result) in ARRAY_PLACES:
        return _cut(result, crops[0], lengths)
    leaves, tree = flatten(result)
    for place, pairs in enumerate(crops):
        if pairs:
            leaves[place] = _cut(leaves[place], pairs, lengths)
    return unflatten(tree, leaves)


def _cut(leaf: Any, pairs: Sequence[tuple[int, int]], lengths: Sequence[int]) -> Any:
    for axis, number in pairs:
        leaf = leaf[(slice(None),) * axis + (slice(lengths[number]),)]
    return leaf


def crops_asked(function: str, result: Any, out_axes: Any, size: int) -> list[tuple[int, ...]]:
    """Return for each leaf the axes that ``out_axes`` says.

    Raises:
        ValueError: ``out_axes`` branches otherwise than the result, or an axis has not that size.
    """
    try:
        wanted = spread(out_axes, result)
    except ValueError as error:
        raise ValueError(f"{function}: out_axes does not fit the result: {error}") from None
    leaves = flatten(result)[0]
    crops: list[tuple[int, ...]] = []
    for place, (leaf, axis) in enumerate(zip(leaves, wanted, strict=True)):
        if axis is None:
            crops.append(())
            continue
        if not -leaf.ndim <= axis < leaf.ndim or leaf.shape[axis] != size:
            raise ValueError(
                f"{function}: out_axes has axis {axis} for {_path(result, place)} of shape "
                f"{leaf.shape}, which has no extent of the size {size} there"
            )
        crops.append((axis % leaf.ndim,))
    return crops


def crops_inferred(
    function: str, result: Any, traced: Lowered, size: int, other: int
) -> list[tuple[int, ...]]:
    """Return for each leaf the axes that are as long as the arguments, whatever their size is.

    Args:
        function: What to call the function.
        result: Of a call with arguments of ``size``.
        traced: The program for arguments of another size.
        size: Of the call.
        other: That of ``traced``.

    Raises:
        ValueError: an axis follows the size and is not equal to it.
    """
    leaves, others = flatten(result)[0], traced.jaxpr.out_avals
    if [leaf.ndim for leaf in leaves] != [aval.ndim for aval in others]:
        raise ValueError(
            f"{function} returns arrays of other numbers of axes for the sizes {size} and {other}: "
            "say with out_axes=... which axis to crop, or None"
        )
    crops = []
    for place, (leaf, aval) in enumerate(zip(leaves, others, strict=True)):
        pairs = enumerate(zip(leaf.shape, aval.shape, strict=True))
        follows = [(axis, extents) for axis, extents in pairs if extents[0] != extents[1]]
        for axis, extents in follows:
            if extents != (size, other):
                raise ValueError(
                    f"{function}: axis {axis} of {_path(result, place)} has extent {extents[0]} "
                    f"for the size {size} and {extents[1]} for {other}, so what comes from padding "
                    "cannot be told: say out_axes=None to keep it whole, or return an axis of the "
                    "size itself"
                )
        crops.append(tuple(axis for axis, _ in follows))
    return crops


def _path(result: Any, place: int) -> str:
    return leaf_paths(flatten((result,))[1], ("the result",))[place]

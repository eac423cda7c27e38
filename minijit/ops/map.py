"""A function of one element applied to all elements along the first axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijit.graph.trace import abstractify
from minijit.graph.tree import TreeDef, flatten, unflatten
from minijit.ops.bodies import check_function, static_count
from minijit.ops.join import concatenate
from minijit.ops.scan import leading_extent, scan, stacked
from minijit.ops.shape import reshape

__all__ = ["map"]


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Return ``f`` of each element along the first axis, stacked.

    Args:
        f: Takes one element of each array of ``xs``, returns a pytree.
        xs: A pytree of arrays of shape ``(T, ...)``.
        batch_size: How many elements one step of the loop takes, ``f`` being traced for each of
            them; by default one. What is left over when it does not divide T is taken one by one.

    Raises:
        ValueError: the leading extents differ, or there are no arrays.
    """
    check_function("map", "f", f, ("x",))
    leaves, treedef = flatten(xs)
    count = leading_extent("map", "xs", treedef, leaves)
    size = 1 if batch_size is None else static_count("map", "batch_size", batch_size, 1)
    if batch_size is None or count < size:
        return scan(lambda _, x: (None, f(x)), None, xs)[1]
    trees: list[TreeDef] = []

    def several(_: None, batch: Sequence[Any]) -> tuple[None, list[Any]]:
        results = [flatten(f(unflatten(treedef, [x[n] for x in batch]))) for n in range(size)]
        trees.append(results[0][1])
        return None, [stacked(column) for column in zip(*(out for out, _ in results), strict=True)]

    whole = count - count % size
    batches = [_reshaped(x[:whole], (whole // size, size), 1) for x in leaves]
    parts = [_reshaped(y, (whole,), 2) for y in scan(several, None, batches)[1]]
    if whole < count:
        rest = scan(
            lambda _, x: (None, f(unflatten(treedef, x))), None, [x[whole:] for x in leaves]
        )[1]
        parts = [concatenate(pair, 0) for pair in zip(parts, flatten(rest)[0], strict=True)]
    return unflatten(trees[0], parts)


def _reshaped(x: Any, leading: tuple[int, ...], axes: int) -> Any:
    """Return ``x`` with its first ``axes`` axes replaced by others."""
    return reshape(x, (*leading, *abstractify(x).shape[axes:]))

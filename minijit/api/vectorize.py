"""``vmap``: a function of one element as a function of arrays of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijit.api.mapped_axes import Axes, CallSignature, Mapped
from minijit.api.transformed import Transformed, transformed
from minijit.graph.mode import mode
from minijit.graph.trace import array_namespace, trace_function
from minijit.graph.tree import TreeDef, flatten, unflatten
from minijit.transforms.batch import Batcher

__all__ = ["vmap"]


def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that applies ``fun`` to each element along an axis of its arguments.

    ``fun`` is traced once, for one element, and what it does is done to all of them at once, in the
    kernels that the same code written for whole arrays would have. What does not depend on a mapped
    argument is computed once. What is returned is a jitted function; inside of another one its
    operations are part of that program.

    Args:
        fun: A function of pytrees of arrays, jitted or not.
        in_axes: Which axis of each positional argument to map over: an integer for all of them, or
            a tuple with an entry for each, an integer, None (the argument is the same for all
            elements) or a pytree of these that ends where the argument may go on. Keyword arguments
            are mapped over their first axis.
        out_axes: Where results have the axis, in the same form; None for one that does not depend
            on the element.
        axis_size: Its extent, needed where no argument is mapped.

    Raises:
        ValueError: extents differ, an axis is out of range, or axes and arguments (or results) do
            not go together.
        TypeError: ``fun`` is no function, or an axis is no integer.
        NotImplementedError: an operation cannot be mapped; the message says why.
    """
    if not callable(fun):
        raise TypeError(f"vmap takes a function, not {fun!r}")
    axes = Axes.of(fun, in_axes, out_axes, axis_size)

    def mapped(*args: Any, **kwargs: Any) -> Any:
        apply = _one_by_one if mode.trace is None else _record
        return apply(fun, axes, Mapped.of(axes, args, kwargs))

    mapped.__signature__ = CallSignature.of(fun)  # type: ignore[attr-defined]
    return transformed(fun, axes.key, mapped, kind=Vectorized)


class Vectorized(Transformed):
    """A function that takes one element after the other where jit is disabled."""

    def _call_busy(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        return self._function(*args, **kwargs)


def _record(fun: Callable[..., Any], axes: Axes, arguments: Mapped) -> Any:
    """Trace the function for one element, and record its program for all of them."""
    trees: list[TreeDef] = []

    def one(elements: Sequence[Any]) -> Sequence[Any]:
        results, tree = flatten(arguments.call(fun, elements))
        trees.append(tree)
        return results

    names, values, given = arguments.mapped
    traced = trace_function(one, arguments.avals, names, axes.name)
    batcher = Batcher(arguments.size)
    starts = [
        axes.start(axis, aval.ndim) for axis, aval in zip(given, arguments.avals, strict=True)
    ]
    moved = map(batcher.placed, values, given, starts)
    same = [None] * len(traced.captures)
    results, out = batcher.run(traced.jaxpr, [*traced.captures, *moved], [*same, *starts])
    ranks = [aval.ndim for aval in traced.jaxpr.out_avals]
    places = axes.places(trees[0], ranks, out)
    return unflatten(trees[0], list(map(batcher.placed, results, out, places)))


def _one_by_one(fun: Callable[..., Any], axes: Axes, arguments: Mapped) -> Any:
    """Call the function for one element after the other, where jit is disabled."""
    count = arguments.size
    # Of no elements nobody would know what the results are like: zeros stand for one.
    zeros = [np.zeros(aval.shape, aval.dtype) for aval in arguments.avals]
    given = [arguments.element(n) for n in range(count)] or [zeros]
    calls = [flatten(arguments.call(fun, elements)) for elements in given]
    tree = calls[0][1]
    columns = list(zip(*(results for results, _ in calls), strict=True))
    ranks = [np.ndim(column[0]) for column in columns]
    places = axes.places(tree, ranks, [None] * len(columns))
    return unflatten(tree, [_stacked(c, p, count) for c, p in zip(columns, places, strict=True)])


def _stacked(column: Sequence[Any], place: int | None, count: int) -> Any:
    """Return the results of all elements as one array, or that of one where they are the same."""
    if place is None:
        return column[0]
    xp = array_namespace(column)
    whole = xp.stack([xp.asarray(value) for value in column], place)
    return whole[(slice(None),) * place + (slice(count),)]

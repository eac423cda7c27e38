"""Prefix combinations in a number of steps that grows with the logarithm of the length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijit.graph.trace import abstractify
from minijit.graph.tree import flatten, unflatten
from minijit.ops.axes import normalize_axis
from minijit.ops.bodies import Tree, check_function, refuse_difference
from minijit.ops.join import concatenate
from minijit.ops.scan import leading_extent
from minijit.ops.shape import expand_dims, reshape, rev, static_slice, transpose

__all__ = ["associative_scan"]

_ADVICE = "fn combines elements: what it returns has to be of the type of each of its arguments"


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Return the combinations of the first one, two, three ... elements along ``axis``.

    ``fn`` runs on whole slices, about twice the logarithm of their number of times, by the scheme
    of even and odd elements (Blelloch, "Prefix sums and their applications", 1990).

    Args:
        fn: Combines two pytrees like ``elems``, element by element along ``axis``; associative.
        elems: A pytree of arrays, all of one extent along ``axis``.
        reverse: Combine from the end.
        axis: The axis.

    Raises:
        TypeError: ``fn`` returns another structure or other types.
        ValueError: the extents along ``axis`` differ, or there are no arrays.
    """
    check_function("associative_scan", "fn", fn, ("a", "b"))
    leaves, treedef = flatten(elems)
    arrays = [_to_front(x, axis) for x in leaves]
    leading_extent("associative_scan", "elems", treedef, arrays)
    if reverse:
        arrays = [rev(x, (0,)) for x in arrays]

    def combine(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
        operands = [
            unflatten(treedef, [_from_front(x, axis) for x in side]) for side in (first, second)
        ]
        result = fn(*operands)
        takes, returns = Tree.of(operands[0]), Tree.of(result)
        refuse_difference(
            "associative_scan: fn does not return what it takes", "elems",
            ("takes", takes), ("returns", returns), _ADVICE,
        )  # fmt: skip
        return [_to_front(x, axis) for x in flatten(result)[0]]

    results = _prefixes(combine, arrays)
    if reverse:
        results = [rev(x, (0,)) for x in results]
    return unflatten(treedef, [_from_front(x, axis) for x in results])


def _prefixes(
    combine: Callable[[Sequence[Any], Sequence[Any]], list[Any]], xs: list[Any]
) -> list[Any]:
    count = abstractify(xs[0]).shape[0]
    if count < 2:
        return xs
    pairs = combine([_every(x, 0, count - 1) for x in xs], [_every(x, 1, count) for x in xs])
    # The prefixes that end at odd places are those of the pairs.
    odd = _prefixes(combine, pairs)
    later = [_every(x, 2, count) for x in xs]
    before = [_part(x, 0, abstractify(rest).shape[0]) for x, rest in zip(odd, later, strict=True)]
    first = [_part(x, 0, 1) for x in xs]
    even = first
    if count > 2:
        even = [concatenate(pair, 0) for pair in zip(first, combine(before, later), strict=True)]
    return [_interleaved(e, o) for e, o in zip(even, odd, strict=True)]


def _interleaved(even: Any, odd: Any) -> Any:
    """Return the elements of two arrays in turn; the first may have one more."""
    shape = abstractify(odd).shape
    count = shape[0]
    both = concatenate([expand_dims(_part(x, 0, count), (1,)) for x in (even, odd)], 1)
    joined = reshape(both, (2 * count, *shape[1:]))
    if abstractify(even).shape[0] == count:
        return joined
    return concatenate([joined, _part(even, count, count + 1)], 0)


def _every(x: Any, start: int, stop: int) -> Any:
    return _sliced(x, range(start, stop, 2))


def _part(x: Any, start: int, stop: int) -> Any:
    return _sliced(x, range(start, stop))


def _sliced(x: Any, rows: range) -> Any:
    return static_slice(x, [rows, *(range(n) for n in abstractify(x).shape[1:])])


def _to_front(x: Any, axis: int) -> Any:
    shape = abstractify(x).shape
    if not shape:
        return x
    own = normalize_axis(axis, len(shape))
    return transpose(x, (own, *(a for a in range(len(shape)) if a != own))) if own else x


def _from_front(x: Any, axis: int) -> Any:
    count = len(abstractify(x).shape)
    own = normalize_axis(axis, count)
    order = list(range(1, count))
    order.insert(own, 0)
    return transpose(x, tuple(order)) if own else x

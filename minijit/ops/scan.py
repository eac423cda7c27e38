"""Loops whose number of steps is known: ``scan``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.evaluate import evaluate
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.primitive import Derived, Kind, Primitive, register
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify, bind
from minijit.graph.tree import TreeDef, flatten, unflatten
from minijit.ops.bodies import (
    Body,
    Tree,
    adapted,
    check_function,
    long_name,
    paths,
    refuse_difference,
    runs_as_python,
    static_count,
    strong,
    trace_body,
    widened,
)
from minijit.ops.join import concatenate
from minijit.ops.promote import convert
from minijit.ops.shape import expand_dims

__all__ = ["leading_extent", "scan", "scan_p", "stacked", "trace_step"]

_ADVICE = (
    "a carry keeps its structure, shape and dtype from step to step: cast in the body with "
    "x.astype(...), or start from a value of the type that the body returns"
)


def _scan_aval(
    *avals: ShapedArray, jaxpr: Jaxpr, length: int, reverse: bool, unroll: int, consts: int,
    carries: int,
) -> tuple[ShapedArray, ...]:  # fmt: skip
    kept, xs = avals[: consts + carries], avals[consts + carries :]
    if any(aval.shape[:1] != (length,) for aval in xs):
        raise TypeError(f"scan: {length} steps over {xs}")
    rows = [ShapedArray(aval.shape[1:], aval.dtype) for aval in xs]
    if strong(jaxpr.in_avals) != strong([*kept, *rows]):
        raise TypeError(f"scan: the body takes {jaxpr.in_avals}, not {(*kept, *rows)}")
    final, ys = jaxpr.out_avals[:carries], jaxpr.out_avals[carries:]
    if strong(final) != strong(kept[consts:]):
        raise TypeError(f"scan: carries {kept[consts:]} become {final}")
    return (*kept[consts:], *(ShapedArray((length, *y.shape), y.dtype) for y in ys))


def _scan_eager(
    xp: Any, *args: Any, jaxpr: Jaxpr, length: int, reverse: bool, unroll: int, consts: int,
    carries: int,
) -> tuple[Any, ...]:  # fmt: skip
    fixed, state, xs = args[:consts], args[consts : consts + carries], args[consts + carries :]
    ys = [xp.empty((length, *y.shape), y.dtype) for y in jaxpr.out_avals[carries:]]
    for step in reversed(range(length)) if reverse else range(length):
        results = evaluate(jaxpr, (*fixed, *state, *(x[step] for x in xs)))
        state = tuple(results[:carries])
        for y, value in zip(ys, results[carries:], strict=True):
            y[step] = value
    pairs = zip(state, jaxpr.out_avals, strict=False)
    return (*(xp.asarray(value, dtype=aval.dtype) for value, aval in pairs), *ys)


scan_p = register(
    Primitive(
        name="scan",
        kind=Kind.LOOP,
        doc="Run ``jaxpr`` once for each element of the leading axes, carrying values along.",
        abstract_eval=_scan_aval,
        eager=_scan_eager,
        multiple_results=True,
        jvp=Derived.BY_KIND,
        transpose=Derived.BY_KIND,
    )
)


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """Return ``(carry, ys)`` after ``carry, y = f(carry, x)`` for each ``x`` along the first axis.

    The body is traced once and compiled once, however many steps there are.

    Args:
        f: Takes the carry and one element of each array of ``xs``; returns the next carry, of the
            same structure and types, and one element of each array of ``ys`` (or None).
        init: The first carry: a pytree of arrays and scalars. A Python number takes the dtype that
            the body gives it.
        xs: A pytree of arrays of shape ``(T, ...)``, or None with ``length``.
        length: T; needed without ``xs``.
        reverse: Go from the last element to the first; ``ys`` line up with ``xs`` all the same.
        unroll: How many steps a compiler may write out one after the other (True: all); a hint
            that changes no result. The kernels' compiler chooses by itself.

    Raises:
        TypeError: the carry that ``f`` returns has another structure, shape or dtype.
        ValueError: the leading extents differ from each other or from ``length``.
    """
    check_function("scan", "f", f, ("carry", "x"))
    leaves, treedef = flatten(xs)
    given = None if length is None else static_count("scan", "length", length, 0)
    count = leading_extent("scan", "xs", treedef, leaves, given)
    if isinstance(unroll, bool):
        unroll = max(count, 1) if unroll else 1
    unroll = static_count("scan", "unroll", unroll, 1)
    if runs_as_python():
        return _scan_python(f, init, leaves, treedef, count, reverse)
    rows = [_row(abstractify(leaf)) for leaf in leaves]

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        result = f(carry, x)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                f"scan: the body has to return a pair (carry, y), not {type(result).__name__} "
                f"(at {user_line()}); write `return carry, None` when there is nothing to collect"
            )
        return result

    step.__name__ = getattr(f, "__name__", type(f).__name__)
    start, body = trace_step("scan", step, init, Tree(treedef, tuple(rows)), paired=True)
    carries = len(start)
    results = bind(
        scan_p, *body.captures, *start, *leaves, jaxpr=body.jaxpr, length=count,
        reverse=bool(reverse), unroll=unroll, consts=len(body.captures), carries=carries,
    )  # fmt: skip
    carry_tree, ys_tree = _pair(body.out.treedef)
    return unflatten(carry_tree, results[:carries]), unflatten(ys_tree, results[carries:])


def trace_step(
    what: str,
    step: Callable[..., Any],
    init: Any,
    xs: Tree | None,
    *,
    paired: bool,
    counted: bool = False,
) -> tuple[list[Any], Body]:
    """Trace the body of a loop, its weakly typed carries widened to what it makes of them.

    Args:
        what: The name of the loop, for messages.
        step: Takes the carry, and with ``xs`` an element of each; returns the next carry, or with
            ``paired`` a pair of it and something else.
        init: The first carry.
        xs: Types of the elements.
        paired: What ``step`` returns.
        counted: Whether the carry is a pair of a counter, which messages leave out, and the user's.

    Returns:
        The leaves of the first carry in the types that the loop keeps, and the body.

    Raises:
        TypeError: the carry changes its structure, a shape or a dtype.
    """
    leaves, treedef = flatten(init)
    carry = Tree(treedef, tuple(abstractify(leaf) for leaf in leaves))

    def adapt(result: Any) -> Any:
        got, structure = flatten(result[0] if paired else result)
        if structure != treedef:
            return result
        got = [adapted(value, aval) for value, aval in zip(got, carry.avals, strict=True)]
        state = unflatten(structure, got)
        return (state, result[1]) if paired else state

    while True:
        state = unflatten(treedef, [0] * len(leaves))
        structure = flatten((state, *(() if xs is None else (_holes(xs),))))[1]
        arguments = Tree(structure, carry.avals + (() if xs is None else xs.avals))
        body = trace_body(step, arguments, ("carry", "x"), adapt)
        kept = _pair(body.out.treedef)[0] if paired else body.out.treedef
        returned = Tree(kept, body.out.avals[: kept.num_leaves])
        if kept != treedef:
            break
        pairs = zip(carry.avals, returned.avals, strict=True)
        wide = tuple(widened(own, other) for own, other in pairs)
        if wide == carry.avals:
            break
        carry = Tree(treedef, wide)
    taken, given = map(_uncounted, (carry, returned)) if counted else (carry, returned)
    refuse_difference(
        f"{what}: the body does not return the carry that it takes", "carry",
        ("takes", taken), ("returns", given), _ADVICE,
    )  # fmt: skip
    pairs = zip(leaves, carry.avals, strict=True)
    return [convert(leaf, aval.dtype, aval.weak_type) for leaf, aval in pairs], body


def _uncounted(tree: Tree) -> Tree:
    return Tree(_pair(tree.treedef)[1], tree.avals[1:])


def _holes(tree: Tree) -> Any:
    return unflatten(tree.treedef, [0] * len(tree.avals))


def _pair(treedef: TreeDef) -> tuple[TreeDef, TreeDef]:
    first, second = treedef.children()
    return first, second


def _row(aval: ShapedArray) -> ShapedArray:
    return ShapedArray(aval.shape[1:], aval.dtype)


def leading_extent(
    what: str, name: str, treedef: TreeDef, leaves: Sequence[Any], length: int | None = None
) -> int:
    """Return the extent that all arrays of a tree called ``name`` have along their first axis.

    Raises:
        ValueError: the extents differ from each other or from ``length``, or there are no arrays.
    """
    avals = [abstractify(leaf) for leaf in leaves]
    names = paths(treedef, name)
    for path, aval in zip(names, avals, strict=True):
        if not aval.shape:
            raise ValueError(
                f"{what}: {path} is a scalar, {long_name(aval)} (at {user_line()}); arrays are "
                "taken apart along their first axis (a list is a tree of its elements: make an "
                "array of it first)"
            )
    if length is None and not avals:
        remedy = ": give length=" if what == "scan" else ""
        raise ValueError(f"{what}: there are no arrays in {name}{remedy} (at {user_line()})")
    extents = {aval.shape[0] for aval in avals} | ({length} if length is not None else set())
    if len(extents) > 1:
        lines = [f"    {n}  {long_name(a)}" for n, a in zip(names, avals, strict=True)]
        lines += [] if length is None else [f"    length={length}"]
        raise ValueError(
            "\n".join([f"{what}: the leading extents differ (at {user_line()})", *lines])
        )
    return extents.pop()


def _scan_python(
    f: Callable[..., Any], init: Any, leaves: Sequence[Any], treedef: TreeDef, count: int,
    reverse: bool,
) -> tuple[Any, Any]:  # fmt: skip
    carry, collected, ys_tree = init, [], None
    for step in reversed(range(count)) if reverse else range(count):
        carry, y = f(carry, unflatten(treedef, [x[step] for x in leaves]))
        y_leaves, ys_tree = flatten(y)
        collected.append(y_leaves)
    if ys_tree is None:
        # Nothing runs, so only a trace knows what the body would have collected.
        rows = tuple(_row(abstractify(leaf)) for leaf in leaves)
        structure = flatten((init, _holes(Tree(treedef, rows))))[1]
        avals = (*map(abstractify, flatten(init)[0]), *rows)
        body = trace_body(f, Tree(structure, avals), ("carry", "x"))
        ys_tree = _pair(body.out.treedef)[1]
        rows = body.out.avals[body.out.treedef.num_leaves - ys_tree.num_leaves :]
        return carry, unflatten(ys_tree, [np.empty((0, *row.shape), row.dtype) for row in rows])
    ordered = collected[::-1] if reverse else collected
    return carry, unflatten(ys_tree, list(map(stacked, zip(*ordered, strict=True))))


def stacked(values: Sequence[Any]) -> Any:
    """Return arrays of one shape as the elements of a new first axis."""
    return concatenate([expand_dims(value, (0,)) for value in values], 0)

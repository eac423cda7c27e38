"""Bodies of branches and loops: the user's functions of pytrees traced once, their types compared.

What a body uses of its surroundings (arrays, values of the function around it) becomes its first
inputs, so that a body is a program of its own and the equation that holds it has them as operands.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.mode import mode
from minijit.graph.source_info import here, user_line
from minijit.graph.trace import abstractify, trace_function
from minijit.graph.tracer import Tracer
from minijit.graph.tree import TreeDef, flatten, leaf_paths, unflatten
from minijit.ops.promote import convert, result_dtype

__all__ = [
    "Body",
    "Tree",
    "adapted",
    "check_function",
    "long_name",
    "paths",
    "refuse_difference",
    "runs_as_python",
    "static_count",
    "strong",
    "trace_body",
    "widened",
]


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """The types of a pytree.

    Attributes:
        treedef: Its structure.
        avals: The types of its leaves.
    """

    treedef: TreeDef
    avals: tuple[ShapedArray, ...]

    @classmethod
    def of(cls, value: Any) -> Tree:
        """Return the types of a pytree of arrays, scalars and traced values."""
        leaves, treedef = flatten(value)
        return cls(treedef, tuple(map(abstractify, leaves)))

    def __str__(self) -> str:
        """Return it as it is written, each leaf as its type: ``{'a': float32[3]}``."""
        return repr(unflatten(self.treedef, [_Shown(long_name(aval)) for aval in self.avals]))


class _Shown:
    """Prints as a text without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


@dataclasses.dataclass(frozen=True, slots=True)
class Body:
    """A traced function.

    Attributes:
        jaxpr: Its program; the captured values come first among the inputs.
        captures: The captured values, in that order.
        out: Types of what it returns.
    """

    jaxpr: Jaxpr
    captures: tuple[Any, ...]
    out: Tree


def runs_as_python() -> bool:
    """Whether loops and branches are plain Python here, inside ``disable_jit()``."""
    return mode.trace is None and mode.disabled > 0


def check_function(what: str, name: str, function: Any, takes: Sequence[str]) -> None:
    """Raise ``TypeError`` unless ``function`` can be called with the arguments it will be given.

    Args:
        what: What will call it.
        name: What the parameter is called for which the user gave it.
        function: What the user gave.
        takes: What to call the arguments.
    """
    call = f"{name}({', '.join(takes)})"
    if not callable(function):
        raise TypeError(
            f"{what}: {name} is a value of type {type(function).__name__!r}{here()}; it has to be "
            f"a function, called as {call}"
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a callable written in C does not say what it takes
    try:
        signature.bind(*takes)
    except TypeError as error:
        raise TypeError(f"{what}: {call} cannot be called{here()}: {error}") from None


def static_count(what: str, name: str, value: Any, least: int) -> int:
    """Return a number of steps or elements that has to be known while tracing.

    Raises:
        TypeError: it is traced, or no integer.
        ValueError: it is below ``least``.
    """
    if isinstance(value, Tracer):
        raise TypeError(
            f"{what}: {name} is traced (at {user_line()}) and has to be known while tracing: mark "
            "the argument that it comes from with static_argnames, or use fori_loop"
        )
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{what}: {name}={value!r}{here()} is no integer") from None
    if count < least:
        raise ValueError(f"{what}: {name}={count}{here()} has to be at least {least}")
    return count


def trace_body(
    function: Callable[..., Any],
    arguments: Tree,
    names: Sequence[str],
    adapt: Callable[[Any], Any] = lambda result: result,
) -> Body:
    """Trace a function of pytrees once, here and now.

    Args:
        function: What the user wrote.
        arguments: Types of the tuple of its arguments.
        names: What to call each of them in messages.
        adapt: What to do with its result before the end of the trace.

    Raises:
        TypeError: it returns something that is no pytree of arrays; and whatever it raises.
    """
    outs: list[TreeDef] = []

    def run(tracers: Sequence[Any]) -> Sequence[Any]:
        result = adapt(function(*unflatten(arguments.treedef, tracers)))
        leaves, treedef = flatten(result)
        outs.append(treedef)
        return leaves

    name = getattr(function, "__name__", type(function).__name__)
    paths = leaf_paths(arguments.treedef, names)
    traced = trace_function(run, arguments.avals, paths, name)
    jaxpr = traced.jaxpr
    captures = traced.captures or jaxpr.consts
    if jaxpr.constvars:
        jaxpr = dataclasses.replace(
            jaxpr, invars=jaxpr.constvars + jaxpr.invars, constvars=(), consts=()
        )
    return Body(jaxpr, captures, Tree(outs[0], jaxpr.out_avals))


def adapted(value: Any, wanted: ShapedArray) -> Any:
    """Return a weakly typed ``value`` in the dtype of ``wanted`` where that loses nothing."""
    own = abstractify(value)
    adapts = own.weak_type and own.dtype != wanted.dtype and not wanted.weak_type
    if adapts and result_dtype((own, wanted)) == wanted.dtype:
        return convert(value, wanted.dtype)
    return value


def widened(own: ShapedArray, other: ShapedArray) -> ShapedArray:
    """Return the type that a weakly typed value takes when it has to become ``other``."""
    if not own.weak_type or own.shape != other.shape:
        return own
    return ShapedArray(own.shape, result_dtype((own, other)), other.weak_type)


def refuse_difference(
    what: str, name: str, first: tuple[str, Tree], second: tuple[str, Tree], advice: str
) -> None:
    """Raise ``TypeError`` unless two trees have one structure, and their leaves one type.

    Args:
        what: What is wrong if they differ.
        name: What to call the tree in the paths of its leaves.
        first: What to call the first tree, and its types.
        second: The same of the second.
        advice: What to do about it.
    """
    (left, own), (right, other) = first, second
    where = f"{what} (at {user_line()})"
    if own.treedef != other.treedef:
        width = max(len(left), len(right))
        raise TypeError(
            f"{where}: the structures differ\n"
            f"    {left:{width}}  {own}\n    {right:{width}}  {other}\n{advice}"
        )
    rows = [
        (path, long_name(a), long_name(b))
        for path, a, b in zip(paths(own.treedef, name), own.avals, other.avals, strict=True)
        if (a.shape, a.dtype) != (b.shape, b.dtype)
    ]
    if rows:
        table = [("", left, right), *rows]
        widths = [max(len(row[place]) for row in table) for place in range(3)]
        lines = [
            "    " + "  ".join(f"{c:{w}}" for c, w in zip(row, widths, strict=True)).rstrip()
            for row in table
        ]
        raise TypeError("\n".join([f"{where}: the types differ", *lines, advice]))


def paths(treedef: TreeDef, name: str) -> list[str]:
    """Return how the leaves of a tree called ``name`` are written."""
    return leaf_paths(flatten((unflatten(treedef, [0] * treedef.num_leaves),))[1], (name,))


def long_name(aval: ShapedArray) -> str:
    """Return the type with the dtype's full name: ``float32[8,3]``."""
    return f"{aval.dtype.name}[{','.join(map(str, aval.shape))}]"


def strong(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    """Return types without their weakness, to compare."""
    return [aval.strip_weak_type() for aval in avals]

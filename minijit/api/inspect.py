"""Looking at a function without running it: its jaxpr, and the types of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from minijit.api import load_operations
from minijit.api.arguments import Binder
from minijit.api.jit import Jitted
from minijit.backends.array import Array
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.trace import trace_function
from minijit.graph.tracer import Tracer
from minijit.graph.tree import TreeDef, flatten, unflatten
from minijit.runtime.signature import abstract_leaf

__all__ = ["block_until_ready", "eval_shape", "make_jaxpr", "trace_call"]


def make_jaxpr(
    function: Callable[..., Any],
    static_argnums: int | Iterable[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
) -> Callable[..., Jaxpr]:
    """Return a function that traces ``function`` on its arguments and returns the jaxpr.

    Nothing is compiled, run or cached. A jitted function is looked into.

    Args:
        function: The function, jitted or not.
        static_argnums: Positions of static arguments.
        static_argnames: Names of static arguments.
    """

    def traced(*args: Any, **kwargs: Any) -> Jaxpr:
        return trace_call(function, args, kwargs, static_argnums, static_argnames)[0]

    return traced


def eval_shape(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the types of ``function``'s results, a :class:`ShapeDtypeStruct` for each leaf.

    Args:
        function: The function, jitted or not.
        *args: Arrays or ``ShapeDtypeStruct`` values, in pytrees.
        **kwargs: The same by name.
    """
    jaxpr, out_tree, _ = trace_call(function, args, kwargs)
    return unflatten(out_tree, jaxpr.out_avals)


def trace_call(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    static_argnums: int | Iterable[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
) -> tuple[Jaxpr, TreeDef, list[Any]]:
    """Return the program of a call, the structure of its result, and the leaves that it takes."""
    names = static_argnames
    if isinstance(function, Jitted):
        if static_argnums is None and static_argnames is None:
            names = function._binder.static_names
        function = function._function
    binder = Binder(function, static_argnums, names)
    arguments = binder.bind(args, kwargs)
    paths = binder.paths(arguments)
    avals = [abstract_leaf(leaf, path) for leaf, path in zip(arguments.leaves, paths, strict=True)]
    trees: list[TreeDef] = []

    def flat(leaves: list[Tracer]) -> list[Any]:
        results, tree = flatten(binder.call(function, arguments, leaves))
        trees.append(tree)
        return results

    load_operations()
    jaxpr = trace_function(flat, avals, paths, binder.name).jaxpr
    return jaxpr, trees[0], arguments.leaves


def block_until_ready(tree: Any) -> Any:
    """Wait until every array of ``tree`` has been computed, and return ``tree``."""
    if type(tree) is Array:  # nothing to wait for, and timing loops ask often
        return tree
    for leaf in flatten(tree)[0]:
        wait = getattr(leaf, "block_until_ready", None)
        if wait is not None:
            wait()
    return tree

"""Calls of functions that are differentiated: their arguments, their program, their result."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from minijit.graph.jaxpr import Jaxpr
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.graph.tree import TreeDef, flatten, leaf_paths, unflatten
from minijit.ops.bodies import adapted, long_name
from minijit.transforms.linearize import Linear, linearize
from minijit.transforms.replay import traced

__all__ = ["Body", "Call", "argument_places", "check_function", "matched", "positional_names"]


def check_function(what: str, fun: Any) -> None:
    """Raise ``TypeError`` unless ``fun`` can be called."""
    if not callable(fun):
        raise TypeError(f"{what} takes a function, not {fun!r} (at {user_line()})")


def argument_places(argnums: int | Sequence[int]) -> tuple[int, ...]:
    """Return the positions that ``argnums`` names.

    Raises:
        TypeError: it is none.
        ValueError: it names one twice.
    """
    places = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not all(isinstance(place, int) and not isinstance(place, bool) for place in places):
        raise TypeError(f"argnums={argnums!r} is no position, nor several (at {user_line()})")
    if len(set(places)) != len(places):
        raise ValueError(f"argnums={argnums!r} names an argument twice (at {user_line()})")
    return places


class Call:
    """One call of a function, some of whose arguments are differentiated.

    Attributes:
        what: The transformation, for messages.
        name: The function's name.
        leaves: Those of these arguments.
        treedef: The structure of a tuple of them.
        paths: What the user calls the leaves.
    """

    def __init__(
        self,
        what: str,
        fun: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        places: Sequence[int] | None = None,
    ) -> None:
        """Take ``fun(*args, **kwargs)``; ``places`` are the arguments, None all positional ones.

        Raises:
            TypeError: there is no such argument, or one is no float array.
        """
        self.what = what
        self.name = getattr(fun, "__name__", type(fun).__name__)
        self._fun = fun
        self._args, self._kwargs, names = _by_position(fun, args, kwargs)
        count = len(self._args)
        for place in places or ():
            if not -count <= place < count:
                raise TypeError(
                    f"{what}: argnums has {place}, but {self.name}() was called with {count} "
                    f"arguments by position (at {user_line()})"
                )
        self._places = tuple(range(count)) if places is None else tuple(p % count for p in places)
        chosen = tuple(self._args[place] for place in self._places)
        self.leaves, self.treedef = flatten(chosen)
        self.paths = leaf_paths(self.treedef, [names[place] for place in self._places])
        for leaf, path in zip(self.leaves, self.paths, strict=True):
            _check_float(what, path, leaf)

    def run(self, leaves: Sequence[Any]) -> Any:
        """Call the function with other leaves."""
        args = list(self._args)
        for place, value in zip(self._places, unflatten(self.treedef, leaves), strict=True):
            args[place] = value
        return self._fun(*args, **self._kwargs)


def _by_position(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], list[str]]:
    """Return arguments with as many by position as can be, and what to call those."""
    try:
        bound = inspect.signature(fun).bind(*args, **kwargs)
    except ValueError:  # a callable written in C does not say what it takes
        return tuple(args), kwargs, [f"args[{place}]" for place in range(len(args))]
    return bound.args, bound.kwargs, positional_names(bound)


def positional_names(bound: inspect.BoundArguments) -> list[str]:
    """Return what to call the arguments by position: by parameter, the rest ``args[n]``."""
    known, rest = bound.signature.parameters, inspect.Parameter.VAR_POSITIONAL
    names = [name for name in bound.arguments if known[name].kind < rest]
    return names + [f"args[{place}]" for place in range(len(names), len(bound.args))]


def _check_float(what: str, path: str, leaf: Any) -> None:
    try:
        aval = abstractify(leaf)
    except TypeError as error:
        raise TypeError(f"{what}: argument {path}: {error}") from None
    if aval.dtype.kind != "f":
        raise TypeError(
            f"{what}: {path} is {long_name(aval)} (at {user_line()}), and only floats have "
            "derivatives: convert it, x.astype(np.float32), or choose other arguments with argnums "
            "or by a lambda that keeps this one to itself"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Body:
    """The program of a call.

    Attributes:
        jaxpr: Takes captured values, then the leaves of the call.
        captures: The captured values.
        out: The structure of what is differentiated; its leaves are the first results.
        aux: That of what is handed through; None without.
    """

    jaxpr: Jaxpr
    captures: tuple[Any, ...]
    out: TreeDef
    aux: TreeDef | None

    @classmethod
    def of(cls, call: Call, has_aux: bool = False) -> Body:
        """Trace the call in the current trace.

        Raises:
            TypeError: with ``has_aux`` it returns no pair; and whatever the function raises.
        """
        trees: list[TreeDef | None] = []

        def run(leaves: list[Any]) -> list[Any]:
            result = call.run(leaves)
            aux: list[Any] = []
            aux_tree = None
            if has_aux:
                if not isinstance(result, tuple) or len(result) != 2:
                    raise TypeError(
                        f"{call.what}: with has_aux {call.name}() has to return a pair (value, "
                        f"aux), not {type(result).__name__} (at {user_line()})"
                    )
                result, others = result
                aux, aux_tree = flatten(others)
            leaves, tree = flatten(result)
            trees[:] = [tree, aux_tree]
            return [*leaves, *aux]

        avals = [abstractify(leaf) for leaf in call.leaves]
        jaxpr, captures = traced(run, avals, call.name, call.paths)
        out, aux = trees
        assert out is not None
        return cls(jaxpr, captures, out, aux)

    def value(self, results: Sequence[Any]) -> Any:
        """Return the results as the function does, a pair with aux."""
        count = self.out.num_leaves
        value = unflatten(self.out, results[:count])
        return value if self.aux is None else (value, unflatten(self.aux, results[count:]))

    def linearized(
        self, leaves: Sequence[Any], *, reverse: bool, free: bool = False
    ) -> tuple[list[Any], Linear, list[Any]]:
        """Record the program; see :func:`minijit.transforms.linearize.linearize`."""
        moved = [*(False for _ in self.captures), *(True for _ in leaves)]
        operands = [*self.captures, *leaves]
        count = self.out.num_leaves
        return linearize(self.jaxpr, operands, moved, count, reverse=reverse, free=free)


def matched(
    what: str, kind: str, given: Any, treedef: TreeDef, like: Sequence[Any], names: Sequence[str]
) -> list[Any]:
    """Return the leaves of tangents or cotangents that belong to ``like``.

    Args:
        what: The transformation, for messages.
        kind: ``"tangent"`` or ``"cotangent"``.
        given: What the user gave.
        treedef: The structure that it has to have.
        like: Types of its leaves; those of what is no float are not looked at.
        names: What the leaves of ``like`` are called.

    Raises:
        TypeError: the structure, a shape or a dtype differs.
    """
    leaves, own = flatten(given)
    if own != treedef:
        raise TypeError(
            f"{what}: the {kind}s have another structure (at {user_line()})\n"
            f"    wanted  {treedef}\n    given   {own}"
        )
    found: list[Any] = []
    for leaf, aval, name in zip(leaves, like, names, strict=True):
        if aval.dtype.kind != "f":
            found.append(None)
            continue
        leaf = adapted(leaf, aval.strip_weak_type())
        mine = abstractify(leaf)
        if (mine.shape, mine.dtype) != (aval.shape, aval.dtype):
            raise TypeError(
                f"{what}: {name} is {long_name(aval)}, and its {kind} {long_name(mine)} (at "
                f"{user_line()}): they have to have one shape and one dtype"
            )
        found.append(leaf)
    return found

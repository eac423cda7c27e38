"""What ``vjp`` and ``linearize`` return: a derivative at a point, a function that is an array tree.

Its leaves are what the first run kept (residuals), so that it may leave a jitted function, and be
given to one.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import optree

from minijit.api.differentiated import matched
from minijit.api.transformed import Transformed
from minijit.graph.aval import ShapedArray
from minijit.graph.tree import TreeDef, leaf_paths, unflatten
from minijit.transforms.linearize import Linear
from minijit.transforms.replay import zeros_of

__all__ = ["LinearMap", "Pullback", "Pushforward", "Shape", "filled"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What is known of a linear map before it has values; compared by identity.

    Attributes:
        name: Of the function.
        in_tree: The structure of the tuple of its arguments.
        in_avals: The types of their leaves.
        in_paths: What these are called.
        out_tree: The structure of its result.
        out_avals: The types of its leaves.
        apply: Computes it from residuals and what it is given; has the programs of this map alone.
    """

    name: str
    in_tree: TreeDef
    in_avals: tuple[ShapedArray, ...]
    in_paths: tuple[str, ...]
    out_tree: TreeDef
    out_avals: tuple[ShapedArray, ...]
    apply: Transformed


class LinearMap:
    """A derivative at a point."""

    __slots__ = ("_linear", "_residuals", "_shape")

    def __init__(self, linear: Linear, residuals: Sequence[Any], shape: Shape) -> None:
        """Hold the map, and the values that it needs."""
        self._linear, self._residuals, self._shape = linear, tuple(residuals), shape

    def __repr__(self) -> str:
        """Return what it is the derivative of."""
        return f"<{type(self).__name__.lower()} of {self._shape.name}>"

    @classmethod
    def applied(cls, function: Callable[..., Any], name: str) -> Transformed:
        """Return what computes derivatives of ``function`` at points."""

        def apply(derivative: Any, given: Any) -> Any:
            return derivative._applied(given)

        kept: Any = apply
        kept.__name__ = kept.__qualname__ = f"{cls.__name__.lower()} of {name}"
        kept.__signature__ = inspect.signature(apply)
        kept.__wrapped__ = function  # the code that reports of compiles are about
        return Transformed(apply, None, None)

    def _applied(self, given: Any) -> Any:
        raise NotImplementedError


class Pullback(LinearMap):
    """From a cotangent of the result to those of the arguments."""

    __slots__ = ()

    def __call__(self, cotangent: Any) -> tuple[Any, ...]:
        """Return a tuple of cotangents, one for each argument.

        Args:
            cotangent: Of the structure, shapes and dtypes of the result; that of what is no float
                is not looked at.

        Raises:
            TypeError: it has another structure, shape or dtype.
        """
        found: tuple[Any, ...] = self._shape.apply(self, cotangent)
        return found

    def _applied(self, given: Any) -> tuple[Any, ...]:
        shape = self._shape
        names = leaf_paths(*_as_tuple(shape.out_tree, "result"))
        matching = matched("vjp", "cotangent", given, shape.out_tree, shape.out_avals, names)
        found = filled(self._linear.pull(self._residuals, matching), shape.in_avals)
        result: tuple[Any, ...] = unflatten(shape.in_tree, found)
        return result


class Pushforward(LinearMap):
    """From tangents of the arguments to that of the result."""

    __slots__ = ()

    def __call__(self, *tangents: Any) -> Any:
        """Return the tangent of the result, of its structure.

        Args:
            *tangents: Of the structure, shapes and dtypes of the arguments.

        Raises:
            TypeError: one has another structure, shape or dtype.
        """
        return self._shape.apply(self, tangents)

    def _applied(self, given: tuple[Any, ...]) -> Any:
        shape = self._shape
        names = shape.in_paths
        matching = matched("linearize", "tangent", given, shape.in_tree, shape.in_avals, names)
        found = filled(self._linear.push(self._residuals, matching), shape.out_avals)
        return unflatten(shape.out_tree, found)


def filled(values: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Any]:
    """Return values with zeros of these types where there is None."""
    return [zeros_of(aval) if v is None else v for v, aval in zip(values, avals, strict=True)]


def _as_tuple(treedef: TreeDef, name: str) -> tuple[TreeDef, tuple[str]]:
    return optree.treespec_tuple((treedef,)), (name,)


def _children(map_: LinearMap) -> tuple[tuple[Any, ...], tuple[Linear, Shape]]:
    return map_._residuals, (map_._linear, map_._shape)


def _register(kind: type[LinearMap]) -> None:
    """Make a kind of map a pytree."""

    def again(data: tuple[Linear, Shape], residuals: Sequence[Any]) -> LinearMap:
        return kind(data[0], residuals, data[1])

    tree: Any = optree  # whose types know of collections alone
    tree.register_pytree_node(kind, _children, again, namespace=optree.registry.__GLOBAL_NAMESPACE)


_register(Pullback)
_register(Pushforward)

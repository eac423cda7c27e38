"""Which axis of which argument and result ``vmap`` maps over, and what is wrong with others."""

from __future__ import annotations

import dataclasses
import inspect
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.source_info import here
from minijit.graph.trace import abstractify
from minijit.graph.tree import TreeDef, flatten, leaf_paths, spread, unflatten

__all__ = ["Axes", "CallSignature", "Mapped"]

Axis = int | None
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclasses.dataclass(frozen=True, slots=True)
class Axes:
    """What the user asked ``vmap`` for.

    Attributes:
        name: Of the function.
        names: Of its positional parameters.
        inputs: Axes of the positional arguments: one for all, or a tuple with an entry for each.
        outputs: Axes of the results, a pytree that ends where they may go on.
        size: The extent of the axis, where it was given.
    """

    name: str
    names: tuple[str, ...]
    inputs: Any
    outputs: Any
    size: int | None

    @classmethod
    def of(cls, fun: Callable[..., Any], in_axes: Any, out_axes: Any, size: int | None) -> Axes:
        """Return what was asked for.

        Raises:
            TypeError: ``in_axes`` is neither an integer, None nor a tuple; an axis or the size is
                no integer.
        """
        name = getattr(fun, "__name__", type(fun).__name__)
        inputs = tuple(in_axes) if isinstance(in_axes, list) else in_axes
        if not isinstance(inputs, (int, tuple, type(None))):
            raise TypeError(
                f"vmap of {name}: in_axes={in_axes!r} is neither an integer, None nor a tuple with "
                "an entry for each positional argument"
            )
        for option, given in (("in_axes", inputs), ("out_axes", out_axes), ("axis_size", size)):
            for axis in flatten(given)[0]:
                if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
                    raise TypeError(f"vmap of {name}: {option} holds {axis!r}, which is no integer")
        parameters = _parameters(fun)
        names = tuple(p.name for p in parameters if p.kind in _POSITIONAL)
        return cls(name, names, inputs, out_axes, None if size is None else operator.index(size))

    @property
    def key(self) -> tuple[Hashable, ...]:
        """The same for two that ask for the same."""
        axes, structure = flatten((self.inputs, self.outputs))
        return "vmap", tuple(axes), structure, self.size

    def entries(self, count: int) -> tuple[Any, ...]:
        """Return the axes of each of ``count`` positional arguments.

        Raises:
            ValueError: there are entries for another number of them.
        """
        if not isinstance(self.inputs, tuple):
            return (self.inputs,) * count
        if len(self.inputs) != count:
            raise ValueError(
                f"vmap of {self.name}: in_axes has {len(self.inputs)} entries, and the call "
                f"{count} positional arguments{here()}; give an entry for each (keyword arguments "
                "have none: they are mapped over their first axis)"
            )
        return self.inputs

    def start(self, axis: int, rank: int) -> int:
        """Return where the batch of an argument is best, which is views away from its ``axis``.

        That is where results are to have it: moving an argument costs nothing in a kernel, moving
        what a kernel has reduced takes another one.
        """
        wanted = set(flatten(self.outputs)[0])
        if len(wanted) != 1:
            return axis
        place = int(wanted.pop())
        return min(place, rank) if place >= 0 else max(place + rank + 1, 0)

    def places(self, tree: TreeDef, ranks: Sequence[int], dims: Sequence[Axis]) -> list[Axis]:
        """Return where each result has the axis.

        Args:
            tree: Their structure.
            ranks: Number of axes of each, for one element.
            dims: None for a result that is the same for all elements.

        Raises:
            ValueError: ``out_axes`` does not fit the results.
        """
        try:
            given = spread(self.outputs, unflatten(tree, range(len(ranks))))
        except ValueError as error:
            raise ValueError(
                f"vmap of {self.name}: out_axes does not fit what the function returns{here()}: "
                f"{error}"
            ) from None
        paths = leaf_paths(flatten((unflatten(tree, range(len(ranks))),))[1], ("result",))
        found: list[Axis] = []
        for path, place, rank, dim in zip(paths, given, ranks, dims, strict=True):
            if place is None and dim is not None:
                raise ValueError(
                    f"vmap of {self.name}: out_axes is None for {path}{here()}, which differs from "
                    "element to element; give the axis along which they are to lie"
                )
            if place is not None and not -rank - 1 <= place <= rank:
                raise ValueError(
                    f"vmap of {self.name}: out_axes is {place} for {path}{here()}, which has "
                    f"{rank + 1} axes with the mapped one"
                )
            found.append(None if place is None else place % (rank + 1))
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class Mapped:
    """The arguments of a call.

    Attributes:
        leaves: All of them, those given by keyword last.
        axes: Which axis of each is mapped over; None for one that all elements share.
        treedef: Structure of the tuple of arguments.
        keywords: Names of the last ones.
        names: What the user calls each leaf.
        size: The extent of the axis.
    """

    leaves: list[Any]
    axes: list[Axis]
    treedef: TreeDef
    keywords: tuple[str, ...]
    names: list[str]
    size: int

    @classmethod
    def of(cls, axes: Axes, args: Sequence[Any], kwargs: dict[str, Any]) -> Mapped:
        """Return the arguments of a call.

        Raises:
            ValueError: axes do not fit the arguments, extents differ, or nothing is mapped.
            TypeError: what is mapped is no array.
        """
        keywords = tuple(sorted(kwargs))
        positional = [
            axes.names[n] if n < len(axes.names) else f"args[{n - len(axes.names)}]"
            for n in range(len(args))
        ]
        titles = (*positional, *keywords)
        arguments = (*args, *(kwargs[name] for name in keywords))
        entries = (*axes.entries(len(args)), *(0 for _ in keywords))
        chosen: list[Axis] = []
        for title, entry, argument in zip(titles, entries, arguments, strict=True):
            try:
                chosen += spread(entry, argument)
            except ValueError as error:
                raise ValueError(
                    f"vmap of {axes.name}: what in_axes has for {title} does not fit it{here()}: "
                    f"{error}"
                ) from None
        leaves, treedef = flatten(arguments)
        names = leaf_paths(treedef, titles)
        places: list[Axis] = []
        extents: list[tuple[str, ShapedArray, int]] = []
        for name, leaf, axis in zip(names, leaves, chosen, strict=True):
            place = axis
            if axis is not None:
                aval = _array(axes.name, name, leaf)
                place = _within(axes.name, name, aval, axis)
                extents.append((name, aval, place))
            places.append(place)
        return cls(leaves, places, treedef, keywords, names, _extent(axes, extents))

    @property
    def mapped(self) -> tuple[list[str], list[Any], list[int]]:
        """What the user calls the leaves that are mapped over, their values, and their axes."""
        rows = zip(self.names, self.leaves, self.axes, strict=True)
        chosen = [(name, leaf, axis) for name, leaf, axis in rows if axis is not None]
        return [n for n, _, _ in chosen], [x for _, x, _ in chosen], [a for _, _, a in chosen]

    @property
    def avals(self) -> list[ShapedArray]:
        """Types of one element of each of them."""
        _, leaves, axes = self.mapped
        avals = [abstractify(leaf) for leaf in leaves]
        return [
            ShapedArray(a.shape[:axis] + a.shape[axis + 1 :], a.dtype)
            for a, axis in zip(avals, axes, strict=True)
        ]

    def element(self, number: int) -> list[Any]:
        """Return that element of each of them."""
        _, leaves, axes = self.mapped
        places = [(slice(None),) * axis + (number,) for axis in axes]
        return [leaf[place] for leaf, place in zip(leaves, places, strict=True)]

    def call(self, fun: Callable[..., Any], elements: Sequence[Any]) -> Any:
        """Call ``fun`` with elements in the place of what is mapped over."""
        given = iter(elements)
        rows = zip(self.leaves, self.axes, strict=True)
        arguments = unflatten(
            self.treedef, [leaf if axis is None else next(given) for leaf, axis in rows]
        )
        count = len(arguments) - len(self.keywords)
        return fun(*arguments[:count], **dict(zip(self.keywords, arguments[count:], strict=True)))


class CallSignature(inspect.Signature):
    """A signature that tells what is given by position from what is given by keyword.

    They are mapped over axes of their own, so they must not be taken for each other.
    """

    @classmethod
    def of(cls, fun: Callable[..., Any]) -> CallSignature:
        """Return that of ``fun``: parameters by position, then any keywords."""
        parameters = _parameters(fun)
        kept = [
            each.replace(kind=each.POSITIONAL_ONLY, default=None)
            if each.kind in _POSITIONAL
            else each
            for each in parameters
            if each.kind in (*_POSITIONAL, each.VAR_POSITIONAL)
        ]
        taken = {each.name for each in kept}
        rest = next(name for name in ("kwargs", "keywords", "given") if name not in taken)
        return cls([*kept, inspect.Parameter(rest, inspect.Parameter.VAR_KEYWORD)])

    def bind(self, *args: Any, **kwargs: Any) -> inspect.BoundArguments:
        """Sort the arguments of a call; those that are missing the function will miss itself."""
        *positional, rest = self.parameters.values()
        arguments: dict[str, Any] = {}
        for place, each in enumerate(positional):
            if each.kind is each.VAR_POSITIONAL:
                arguments[each.name], args = args[place:], args[:place]
            elif place < len(args):
                arguments[each.name] = args[place]
        if len(args) > len(positional):
            raise TypeError(f"takes {len(positional)} positional arguments, got {len(args)}")
        arguments[rest.name] = kwargs
        return inspect.BoundArguments(self, arguments)


def _parameters(fun: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):  # builtins without a signature take what they are given
        return [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)]


def _array(function: str, path: str, leaf: Any) -> ShapedArray:
    try:
        return abstractify(leaf).strip_weak_type()
    except TypeError as error:
        raise type(error)(
            f"vmap of {function}: {path} is mapped over: {error}; or give it None in in_axes"
        ) from None


def _within(function: str, path: str, aval: ShapedArray, axis: int) -> int:
    if not aval.ndim:
        raise ValueError(
            f"vmap of {function}: {path} is a scalar, {aval}, which has no axis to map "
            f"over{here()}; give it None in in_axes"
        )
    if not -aval.ndim <= axis < aval.ndim:
        raise ValueError(
            f"vmap of {function}: in_axes is {axis} for {path}, {aval}, which has "
            f"{aval.ndim} axes{here()}"
        )
    return axis % aval.ndim


def _extent(axes: Axes, mapped: Sequence[tuple[str, ShapedArray, int]]) -> int:
    """Return the extent of the axis.

    Raises:
        ValueError: arguments differ in it, or from what was asked for, or there is none.
    """
    given = set() if axes.size is None else {axes.size}
    extents = {aval.shape[axis] for _, aval, axis in mapped} | given
    if len(extents) == 1:
        return extents.pop()
    if not extents:
        raise ValueError(
            f"vmap of {axes.name}: nothing is mapped over{here()}: give an argument an axis in "
            "in_axes, or axis_size="
        )
    width = max(len(path) for path, _, _ in mapped)
    lines = [
        f"    {path:{width}}  {aval}: axis {axis} has extent {aval.shape[axis]}"
        for path, aval, axis in mapped
    ]
    lines += [] if axes.size is None else [f"    axis_size={axes.size}"]
    raise ValueError(
        "\n".join([f"vmap of {axes.name}: the mapped axes differ in extent{here()}", *lines])
    )

"""The arguments of a call of a bucketed function, padded, with the masks and lengths it takes."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from minijit.api.arguments import Binder
from minijit.api.dimension import Dimension
from minijit.api.padding import mask_of, pad_axis
from minijit.api.recipe import Argument, Leaf, Recipe, take_apart
from minijit.graph.tree import TreeDef

__all__ = ["PaddedCall", "Padder"]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclasses.dataclass(slots=True)
class PaddedCall:
    """Arguments as the compiled program takes them.

    Attributes:
        args: By position.
        kwargs: By name.
        lengths: Of each dimension, before.
        sizes: Of each dimension, after.
    """

    args: list[Any]
    kwargs: dict[str, Any]
    lengths: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """Where calls with so many arguments by position, and these keywords, have what is padded.

    Attributes:
        places: Of the arguments that are padded, among all that are given.
        arguments: What is known of those.
        args: For each argument by position of the padded call, its place among those given, behind
            which the masks and lengths stand.
        kwargs: The same by name.
    """

    places: tuple[int, ...]
    arguments: tuple[Argument, ...]
    args: tuple[int, ...]
    kwargs: dict[str, int]


class Padder:
    """Pads the arguments of one function.

    Attributes:
        signature: What callers see: without the parameters that are filled in.
        axes: For each dimension, the axes by argument.
    """

    def __init__(self, binder: Binder, dimensions: Sequence[Dimension]) -> None:
        """Find out which parameters are padded and which are filled in.

        Raises:
            ValueError: a dimension does not fit the function.
        """
        self.axes = tuple(dimension.axes(binder) for dimension in dimensions)
        self._binder = binder
        self._dimensions = dimensions
        filled = {
            name: (number, what)
            for number, dimension in enumerate(dimensions)
            for name, what in dimension.filled(binder, self.axes[number]).items()
        }
        parameters = binder.signature.parameters
        self._filled = {name: filled[name] for name in parameters if name in filled}
        kept = [parameter for name, parameter in parameters.items() if name not in filled]
        self.signature = binder.signature.replace(parameters=kept)
        self._positional = [parameter.name for parameter in kept if parameter.kind in _POSITIONAL]
        # A call is looked up by what it looks like, and then only padded.
        self._form = functools.lru_cache(_KEPT)(self._new_form)
        self._recipe = functools.lru_cache(_KEPT)(self._new_recipe)

    def pad(
        self,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        choose: Callable[[int, int], int],
        pad: Callable[[Any, int, int, float], Any] = pad_axis,
    ) -> PaddedCall:
        """Pad one call.

        Args:
            args: Arguments by position.
            kwargs: Arguments by name.
            choose: Takes the number of a dimension and its length, and returns the size.
            pad: Pads a leaf whose length is another one: ``pad(leaf, axis, size, fill)``.

        Raises:
            ValueError: arguments that are padded together differ in length, or lack the axis.
            TypeError: an argument is missing, one that is filled in is given, or one is traced.
        """
        form = self._form(len(args), tuple(kwargs))
        values = [*args, *kwargs.values()]
        leaves, trees = take_apart([values[place] for place in form.places])
        kinds = tuple([(type(leaf), getattr(leaf, "ndim", 0)) for leaf in leaves])
        recipe = self._recipe(form, trees, kinds)
        lengths: list[int] = []
        sizes: list[int] = []
        for number, pads in enumerate(recipe.pads):
            found = {leaves[leaf].shape[axis] for leaf, axis, _ in pads}
            if len(found) != 1:
                self._refuse(number, recipe, leaves, args, kwargs)
            (length,) = found
            size = choose(number, length)
            lengths.append(length)
            sizes.append(size)
            if length != size:
                for leaf, axis, fill in pads:
                    leaves[leaf] = pad(leaves[leaf], axis, size, fill)
        for place, value in zip(form.places, recipe.put_together(leaves), strict=True):
            values[place] = value
        for number, what in self._filled.values():
            length, size = lengths[number], sizes[number]
            like = leaves[recipe.pads[number][0].leaf]
            values.append(length if what == "length" else mask_of(like, length, size))
        return PaddedCall(
            [values[place] for place in form.args],
            {name: values[place] for name, place in form.kwargs.items()},
            tuple(lengths),
            tuple(sizes),
        )

    def _new_form(self, positional: int, names: tuple[str, ...]) -> _Form:
        for name in self._filled:
            if name in names:
                raise TypeError(
                    f"{self._binder.name}() gets the argument {name!r} from bucketed: leave it "
                    "out, or name it in axis={...} to have it padded"
                )
        # Those left at their defaults are not there.
        given = {name: positional + place for place, name in enumerate(names)}
        given |= {name: place for place, name in enumerate(self._positional[:positional])}
        padded = dict.fromkeys(name for axes in self.axes for name in axes if name in given)
        args, kwargs = list(range(positional)), {name: given[name] for name in names}
        for place, name in enumerate(self._filled, positional + len(names)):
            self._fill_in(name, place, args, kwargs)
        return _Form(
            tuple(given[name] for name in padded),
            tuple(map(self._argument, padded)),
            tuple(args),
            kwargs,
        )

    def _argument(self, name: str) -> Argument:
        axes = tuple(axes.get(name) for axes in self.axes)
        return Argument(name, axes, tuple(each.fill_of(name) for each in self._dimensions))

    def _fill_in(self, name: str, value: int, args: list[int], kwargs: dict[str, int]) -> None:
        """Put an argument where the parameter ``name`` has its place."""
        parameters = self._binder.signature.parameters
        place = list(parameters).index(name)
        if parameters[name].kind in _POSITIONAL and place <= len(args):
            args.insert(place, value)
        else:
            kwargs[name] = value

    def _new_recipe(
        self, form: _Form, trees: tuple[TreeDef | None, ...], leaves: tuple[Leaf, ...]
    ) -> Recipe:
        return Recipe.of(self._binder.name, len(self.axes), form.arguments, trees, leaves)

    def _refuse(
        self,
        number: int,
        recipe: Recipe,
        leaves: Sequence[Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> NoReturn:
        """Say why there is no length that all leaves of a dimension have."""
        name = self._binder.name
        if recipe.pads[number]:
            raise ValueError(
                f"{name}: arguments that are padded together differ: "
                f"{recipe.described(number, leaves)}"
            )
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        raise TypeError(f"{name}: the call has no array to take the length from")


_KEPT = 256
"""How many kinds of calls are remembered."""

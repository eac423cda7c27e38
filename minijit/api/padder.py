"""The arguments of a call of a bucketed function, padded, with the masks and lengths it takes."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from minijit.api.arguments import Binder
from minijit.api.dimension import Dimension
from minijit.api.padded import Padded
from minijit.api.padding import mask_of, pad_axis

__all__ = ["PaddedCall", "Padder"]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclasses.dataclass(frozen=True, slots=True)
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
        positional = [parameter.name for parameter in kept if parameter.kind in _POSITIONAL]
        self._places = {name: place for place, name in enumerate(positional)}

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
            pad: Pads a leaf: ``pad(leaf, axis, size, fill)``.

        Raises:
            ValueError: arguments that are padded together differ in length, or lack the axis.
            TypeError: an argument is missing, one that is filled in is given, or one is traced.
        """
        for name in self._filled.keys() & kwargs.keys():
            raise TypeError(
                f"{self._binder.name}() gets the argument {name!r} from bucketed: leave it out, or "
                "name it in axis={...} to have it padded"
            )
        args, kwargs = list(args), dict(kwargs)
        lengths: list[int] = []
        sizes: list[int] = []
        first: list[Any] = []
        for number in range(len(self._dimensions)):
            arguments = tuple(self._taken(number, args, kwargs))
            lengths.append(self._length(arguments, args, kwargs))
            sizes.append(choose(number, lengths[number]))
            first.append(next(a.first for a in arguments if a.first is not None))
            for argument in arguments:
                padded = argument.padded(pad, sizes[number])
                if argument.name in kwargs:
                    kwargs[argument.name] = padded
                else:
                    args[self._places[argument.name]] = padded
        for name, (number, what) in self._filled.items():
            length, size = lengths[number], sizes[number]
            value = length if what == "length" else mask_of(first[number], length, size)
            self._fill_in(name, value, args, kwargs)
        return PaddedCall(args, kwargs, tuple(lengths), tuple(sizes))

    def _taken(
        self, number: int, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Iterator[Padded]:
        """Take apart the arguments of one dimension; those left at their defaults are not there."""
        for name, axis in self.axes[number].items():
            place = self._places.get(name, len(args))
            if name not in kwargs and place >= len(args):
                continue
            value = kwargs[name] if name in kwargs else args[place]
            fill = self._dimensions[number].fill_of(name)
            yield Padded.of(self._binder.name, name, value, axis, fill)

    def _length(
        self, arguments: Sequence[Padded], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> int:
        """Return the length that all arguments have."""
        lengths = {length for argument in arguments for length in argument.lengths()}
        if len(lengths) == 1:
            return lengths.pop()
        name = self._binder.name
        if lengths:
            found = "; ".join(text for argument in arguments for text in argument.described())
            raise ValueError(f"{name}: arguments that are padded together differ: {found}")
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        raise TypeError(f"{name}: the call has no array to take the length from")

    def _fill_in(self, name: str, value: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Put an argument where the parameter ``name`` has its place."""
        parameters = self._binder.signature.parameters
        place = list(parameters).index(name)
        if parameters[name].kind in _POSITIONAL and place <= len(args):
            args.insert(place, value)
        else:
            kwargs[name] = value

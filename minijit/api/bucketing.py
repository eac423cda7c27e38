"""``bucketed``: pad to one of a few sizes, call the compiled program of that size, and crop."""

from __future__ import annotations

import dataclasses
import functools
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from minijit.api.bucket_sizes import LengthReport, Sizes, SizesLike
from minijit.api.cropping import Crops, crop, crops_asked, crops_inferred
from minijit.api.dimension import INFER, Dimension
from minijit.api.jit import Jitted
from minijit.api.keys import raw_call
from minijit.api.padder import PaddedCall, Padder
from minijit.api.padding import checked_fill, stand_in
from minijit.api.stages import Lowered
from minijit.graph.config import config
from minijit.graph.mode import mode

__all__ = ["Bucketed", "bucketed"]

R = TypeVar("R")


class Bucketed(Generic[R]):
    """A jitted function whose arguments are padded to a few sizes, and its results cropped.

    Attributes:
        __wrapped__: The jitted function.
    """

    def __init__(self, jitted: Jitted[..., R], dimensions: tuple[Dimension, ...]) -> None:
        """Wrap ``jitted``; see :func:`bucketed`."""
        functools.update_wrapper(self, jitted, updated=())
        self._jitted = jitted
        self._dimensions = dimensions
        self._padder = Padder(jitted._binder, dimensions)
        self.__signature__ = self._padder.signature
        self._first: dict[int, int] = {}  # the size that each dimension was first called with
        self._crops: dict[Any, Crops] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> R:
        """Pad, call the program of that size, and crop.

        Raises:
            ValueError: an argument is longer than the largest size, arguments that are padded
                together differ in length, one lacks the axis, or which axes of a result to crop
                cannot be told.
            TypeError: the call is part of another function's trace, or passes a mask or length.
        """
        if mode.disabled:
            return self.exact(*args, **kwargs)
        call = self._padder.pad(args, kwargs, self._chosen)
        result = self._jitted(*call.args, **call.kwargs)
        if call.lengths == call.sizes:
            return result
        return crop(result, self._crops_of(result, call, args, kwargs), call.lengths)  # type: ignore[no-any-return]

    def exact(self, *args: Any, **kwargs: Any) -> R:
        """Call without padding: what the padded call has to return.

        It is compiled for each length; tests compare the two.
        """
        call = self._padder.pad(args, kwargs, lambda number, length: length)
        return self._jitted(*call.args, **call.kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace the program that these arguments, or types, are padded for.

        ``.compile()`` of what it returns fills the cache.
        """
        call = self._padder.pad(args, kwargs, self._fitting)
        return self._jitted.lower(*call.args, **call.kwargs)

    def reports(self) -> tuple[LengthReport, ...]:
        """Return the lengths seen so far: one report for each ``bucketed``, from inside out."""
        return tuple(dimension.report() for dimension in self._dimensions)

    def stats(self) -> dict[str, int]:
        """Return the counts of the jitted function."""
        return self._jitted.stats()

    def clear_cache(self) -> None:
        """Drop all compiled programs of the function."""
        self._crops.clear()
        self._jitted.clear_cache()

    def _cache_size(self) -> int:
        """Return the number of signatures in the cache."""
        return self._jitted._cache_size()

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind a method."""
        if instance is None or self._jitted.__get__(instance, owner) is self._jitted:
            return self
        return types.MethodType(self._as_method, instance)

    @functools.cached_property
    def _as_method(self) -> Bucketed[R]:
        return Bucketed(self._jitted._as_method, self._dimensions)

    def __repr__(self) -> str:
        """Return the jitted function, and the sizes."""
        sizes = ", ".join(str(dimension.sizes) for dimension in self._dimensions)
        return f"<{self._jitted!r} for sizes {sizes}>"

    def __reduce__(self) -> str:
        """Pickle by name."""
        return self.__qualname__  # type: ignore[attr-defined,no-any-return]  # update_wrapper's

    def _chosen(self, number: int, length: int) -> int:
        self._dimensions[number].count(length)
        size = self._fitting(number, length)
        self._first.setdefault(number, size)
        return size

    def _fitting(self, number: int, length: int) -> int:
        dimension = self._dimensions[number]
        size = dimension.size_of(length)
        if size is None:
            named = ", ".join(self._padder.axes[number])
            raise ValueError(
                f"{self._jitted._binder.name}: length {length} of {named} is more than the largest "
                f"size {dimension.sizes.values[-1]}: add a larger size, cut the arrays, or compile "
                "for each such length with overflow='exact'"
            )
        return size

    def _crops_of(
        self, result: Any, call: PaddedCall, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Crops:
        """Return what to crop of ``result``, which depends on the signature of the call alone."""
        padded = tuple(map(operator.ne, call.sizes, call.lengths))
        raw = raw_call(self._jitted._binder, call.args, call.kwargs)
        key = None if raw is None else (raw.key, padded)
        crops = self._crops.get(key)
        if crops is None:
            numbers = (number for number, differs in enumerate(padded) if differs)
            each = {n: self._dimension_crops(n, result, call, args, kwargs) for n in numbers}
            crops = tuple(
                tuple((axis, n) for n, axes in each.items() for axis in axes[place])
                for place in range(len(next(iter(each.values()))))
            )
            if len(self._crops) >= config.cache_entries:
                self._crops.clear()
            if key is not None:
                self._crops[key] = crops
        return crops

    def _dimension_crops(
        self,
        number: int,
        result: Any,
        call: PaddedCall,
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> list[tuple[int, ...]]:
        """Return for each leaf of ``result`` the axes that one dimension has padded."""
        name, size = self._jitted._binder.name, call.sizes[number]
        dimension = self._dimensions[number]
        if dimension.out_axes != INFER:
            return crops_asked(name, result, dimension.out_axes, size)
        # The program of another size differs where a result has the length.
        first = self._first[number]
        other = first if first != size else dimension.sizes.neighbour(size)
        sizes = (*call.sizes[:number], other, *call.sizes[number + 1 :])
        moved = self._padder.pad(args, kwargs, lambda n, length: sizes[n], stand_in)
        try:
            traced = self._jitted.lower(*moved.args, **moved.kwargs)
        except Exception as error:
            error.add_note(
                f"{name} was traced for the size {other} to see which axes of its results follow "
                "the size; out_axes=... says so without"
            )
            raise
        return crops_inferred(name, result, traced, size, other)


def bucketed(
    *,
    axis: int | Mapping[str, Any] = 0,
    sizes: SizesLike = "pow2",
    fill: float | Mapping[str, Any] = 0,
    out_axes: Any = INFER,
    overflow: Literal["error", "exact"] = "error",
    mask: str | None = None,
    length: str | None = None,
) -> Callable[[Jitted[..., R] | Bucketed[R]], Bucketed[R]]:
    """Compile one program for each size instead of one for each length.

    A call pads its arguments at the end of the axis to the smallest size that holds them, calls the
    jitted function, and crops the results. ``@bucketed(...)`` stands above ``@minijit.jit``.

    The function has to keep the padding out of what it returns for the rest. For that it gets the
    mask (bool, shape ``(size,)``, true for what is no padding) if it has a parameter ``mask``, and
    the length, a traced number, if it has a parameter ``length``; callers do not pass them.
    Elementwise work needs neither. A reduction along the axis is right with ``where=mask``
    (``x.sum(axis, where=mask)``, ``mean``, ``max`` with ``initial=``), or if ``fill`` is its
    neutral element. ``f.exact(...)`` is the same call without padding, for tests to compare with.

    Args:
        axis: The axis of the first argument that varies (of all its leaves); or a mapping from
            argument to axis. For an argument that is a pytree, the value may be one that branches
            as it does, with None for leaves that are not padded. All that is named here has one
            length in a call. For a second length put another ``bucketed`` above.
        sizes: One size, several, or ``"pow2"`` for the powers of two.
        fill: Value of the padding, or a mapping from argument to it, as for ``axis``.
        out_axes: The axis of the result to crop, or None to leave it whole; or a pytree of those,
            which branches as the result does. By default those axes are cropped that differ when
            the function is traced for another size, which may be one that no call has asked for.
        overflow: Of a length that no size holds: ``"error"``, or ``"exact"`` to compile for it.
        mask: The parameter that takes the mask, if it has another name.
        length: The parameter that takes the length, if it has another name.

    Returns:
        A decorator. What it returns has the methods of :class:`Bucketed`.

    Raises:
        TypeError: the decorated function is not jitted, or sizes or fill are no numbers.
        ValueError: sizes, overflow or the name of an argument is not valid.
    """
    if overflow not in ("error", "exact"):
        raise ValueError(f"overflow={overflow!r} is neither 'error' nor 'exact'")
    if not isinstance(fill, Mapping):
        checked_fill(fill)
    exact = overflow == "exact"
    dimension = Dimension(axis, Sizes.of(sizes), fill, out_axes, exact, mask, length)

    def decorate(function: Jitted[..., R] | Bucketed[R]) -> Bucketed[R]:
        # A dimension counts what one function sees.
        own = dataclasses.replace(dimension, seen=type(dimension.seen)())
        if isinstance(function, Bucketed):
            return Bucketed(function._jitted, (*function._dimensions, own))
        if not isinstance(function, Jitted):
            raise TypeError(
                f"bucketed takes a jitted function, not {function!r}: write @minijit.jit below "
                "@bucketed(...)"
            )
        return Bucketed(function, (own,))

    return decorate

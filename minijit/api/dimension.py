"""One length that varies from call to call: the axes that have it, and what it is padded to."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any

from minijit.api.arguments import Binder
from minijit.api.bucket_sizes import LengthReport, Sizes
from minijit.graph.locks import process_lock

__all__ = ["INFER", "Dimension"]

INFER = "infer"
_counting = process_lock()


@dataclasses.dataclass(frozen=True, slots=True)
class Dimension:
    """What one use of ``bucketed`` says; see there.

    Attributes:
        axis: An axis of the first argument, or by argument, for the leaves below, an axis or None.
        sizes: What it is padded to.
        fill: Of the padding, for all or by argument.
        out_axes: For the leaves of the result, the axis to crop, or None; or ``INFER``.
        exact: Whether a length that no size holds runs as it is.
        mask: The parameter that takes the mask; None for ``mask``, if there is one.
        length: The parameter that takes the length; None for ``length``, if there is one.
        seen: How often each length was.
    """

    axis: int | Mapping[str, Any]
    sizes: Sizes
    fill: float | Mapping[str, Any]
    out_axes: Any
    exact: bool
    mask: str | None
    length: str | None
    seen: Counter[int] = dataclasses.field(default_factory=Counter)

    def axes(self, binder: Binder) -> Mapping[str, Any]:
        """Return the axes by argument of a function.

        Raises:
            ValueError: an argument that ``axis`` or ``fill`` names does not exist or is static.
        """
        axes = self.axis
        if isinstance(axes, int):
            parameters = binder.signature.parameters.values()
            dynamic = (p for p in parameters if p.name not in binder.static_names)
            first = next(dynamic, None)
            if first is None or first.kind in (first.VAR_POSITIONAL, first.VAR_KEYWORD):
                raise ValueError(
                    f"axis={axes}: {binder.name}() has no first argument that could be padded; "
                    f"name one: axis={{'x': {axes}}}"
                )
            axes = {first.name: axes}
        fills = self.fill if isinstance(self.fill, Mapping) else {}
        for option, named in (("axis", axes), ("fill", fills)):
            for name in named:
                parameter = binder.signature.parameters.get(name)
                if parameter is None or parameter.kind in (
                    parameter.VAR_POSITIONAL,
                    parameter.VAR_KEYWORD,
                ):
                    raise ValueError(f"{option}: {binder.name}() has no argument {name!r}")
                if name in binder.static_names:
                    raise ValueError(
                        f"{option}: the argument {name!r} of {binder.name}() is static"
                    )
        for name in fills:
            if name not in axes:
                raise ValueError(f"fill: the argument {name!r} is not padded")
        return axes

    def filled(self, binder: Binder, axes: Mapping[str, Any]) -> dict[str, str]:
        """Return which parameters take the mask or the length: ``{parameter: which of them}``.

        Raises:
            ValueError: one that was named does not exist, or it is static.
        """
        filled = {}
        for what, chosen in (("mask", self.mask), ("length", self.length)):
            name = chosen or what
            parameter = binder.signature.parameters.get(name)
            takes = parameter is not None and parameter.kind in (
                parameter.POSITIONAL_OR_KEYWORD,
                parameter.KEYWORD_ONLY,
            )
            if not takes or name in axes:
                if chosen is not None:
                    raise ValueError(
                        f"{what}={chosen!r}: {binder.name}() has no such argument to fill in"
                    )
                continue
            if name in binder.static_names:
                raise ValueError(
                    f"the argument {name!r} of {binder.name}() is static: each {what} would be "
                    "compiled; leave it dynamic"
                )
            filled[name] = what
        return filled

    def fill_of(self, name: str) -> Any:
        """Return the filling of an argument, for its leaves."""
        return self.fill.get(name, 0) if isinstance(self.fill, Mapping) else self.fill

    def size_of(self, length: int) -> int | None:
        """Return what ``length`` is padded to; None where it is too long to be called at all."""
        size = self.sizes.fit(length)
        return length if size is None and self.exact else size

    def count(self, length: int) -> None:
        """Remember that ``length`` was seen."""
        with _counting:
            self.seen[length] += 1

    def report(self) -> LengthReport:
        """Return what was seen so far."""
        with _counting:
            return LengthReport(Counter(self.seen), self.sizes)

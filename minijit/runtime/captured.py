"""Arrays that a program captured: whether they still are as it was compiled for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Jaxpr

__all__ = ["Captured", "CapturedArrayChanged"]


class CapturedArrayChanged(RuntimeError):
    """A captured array was resized or reshaped in place since the program was compiled."""


class Captured:
    """The arrays that a program reads, and how they looked when it was traced.

    Their elements may change from call to call, and so may the memory that holds them: kernels ask
    for its address at each launch. Shape, dtype and strides are part of the code.
    """

    __slots__ = ("_known",)

    def __init__(self, values: Iterable[Any], avals: Iterable[ShapedArray]) -> None:
        """Remember ``values``, whose types while tracing were ``avals``."""
        self._known = tuple(
            (value, aval.shape, aval.dtype, getattr(value, "strides", None))
            for value, aval in zip(values, avals, strict=True)
            if hasattr(value, "__array_interface__") or hasattr(value, "__cuda_array_interface__")
        )

    @classmethod
    def of(cls, jaxpr: Jaxpr) -> Captured:
        """Remember the constants of ``jaxpr``."""
        return cls(jaxpr.consts, (var.aval for var in jaxpr.constvars))

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._known)

    def unchanged(self) -> bool:
        """Whether all of them still have their shape, dtype and strides."""
        for value, shape, dtype, strides in self._known:
            if value.shape != shape or value.dtype != dtype:
                return False
            if strides is not None and value.strides != strides:
                return False
        return True

    def __iter__(self) -> Iterator[Any]:
        """Yield the arrays."""
        return (value for value, *_ in self._known)

    def check(self) -> None:
        """Raise ``CapturedArrayChanged`` unless they are unchanged."""
        if not self.unchanged():
            raise CapturedArrayChanged(
                "an array that the function captured was resized or reshaped in place after it was "
                "traced: compile again, or pass the array as an argument"
            )

"""Larger and smaller of two floats, in the three instructions of a processor for it."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from minijit.kernels.math.outlined import call_declared, every_lanes
from minijit.kernels.math.value import FLOAT32, FLOAT64

__all__ = ["extrema", "larger", "smaller"]

_COMPARISONS = {"larger": "ogt", "smaller": "olt"}
_KINDS = {FLOAT32: "float", FLOAT64: "double"}


def _extremum(name: str) -> Any:
    @intrinsic
    def chosen(typing_context, x, y):
        if x != y or not isinstance(x, types.Float):
            raise TypingError(f"{name} takes two floats of one type, not {x} and {y}")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return call_declared(builder, f"minijit.{name}.{x}", arguments)

        return x(x, y), generate

    return chosen


larger, smaller = _extremum("larger"), _extremum("smaller")


def extrema() -> str:
    """Return LLVM code of what ``larger`` and ``smaller`` call, for numbers and for vectors.

    A kernel gets it when it is optimised. LLVM would otherwise join the two choices to one with a
    condition of two parts: one instruction more, and much of its time in long bodies.
    """
    forms = [
        (f"minijit.{name}.{'float32' if kind == FLOAT32 else 'float64'}{suffix}", code, whole, bits)
        for name, code in _COMPARISONS.items()
        for kind, word in _KINDS.items()
        for suffix, whole, bits in (
            ("", word, "i1"),
            *((f".{n}", f"<{n} x {word}>", f"<{n} x i1>") for n in every_lanes(kind)),
        )
    ]
    return "".join(
        f"""
define available_externally {whole} @{name}({whole} %x, {whole} %y) alwaysinline {{
  %beyond = fcmp {code} {whole} %x, %y
  %chosen = select {bits} %beyond, {whole} %x, {whole} %y
  %nan = fcmp uno {whole} %x, %x
  %result = select {bits} %nan, {whole} %x, {whole} %chosen
  ret {whole} %result
}}
"""
        for name, code, whole, bits in forms
    )

"""``pattern``: teach the compiler that one formula may be computed by another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minijit.extend.elementwise import function_of
from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import canonical_dtype
from minijit.graph.errors import DeclarationError
from minijit.graph.registry import declare
from minijit.graph.source_info import user_line
from minijit.transforms.patterns import STEPS, Rewrite

__all__ = ["Rewrite", "pattern"]

Code = Callable[..., Any]
_EXAMPLE = ShapedArray((4, 4), np.dtype(np.float32))


def pattern(
    looked_for: Code,
    *,
    at: str = "simplify",
    example: Sequence[Any] | None = None,
    name: str | None = None,
) -> Callable[[Code], Rewrite]:
    """Declare a rewrite: the decorated function replaces what ``looked_for`` computes.

    Both are functions of the same arrays, written with ``np.`` or ``minijit.numpy``. Where a
    program holds the operations of the first, on arrays of any types for which they are the same,
    those of the second take their place. Whether both have the same meaning is yours to know; that
    they have the same type is checked, here for the example and at each place where it is used.

    Args:
        looked_for: The pattern.
        at: After which step of the pipeline: ``"inline"``, ``"simplify"`` or ``"loops"``.
        example: For each argument something with ``shape`` and ``dtype`` for which the pattern
            makes sense; default: float32 matrices.
        name: For messages and events; default: the replacement's.

    Raises:
        DeclarationError: the name is taken, a step has another name, or the types differ.
    """
    if at not in STEPS:
        raise DeclarationError(
            f"no step {at!r} (at {user_line()}): rewrites run after {', '.join(STEPS)}"
        )
    count = function_of(looked_for).__code__.co_argcount
    avals = [_EXAMPLE] * count
    if example is not None:
        avals = [ShapedArray(tuple(each.shape), canonical_dtype(each.dtype)) for each in example]
    if len(avals) != count:
        raise DeclarationError(
            f"the pattern takes {count} arrays and example= has {len(avals)} (at {user_line()})"
        )

    def declared(replacement: Code) -> Rewrite:
        function = function_of(replacement)
        if function.__code__.co_argcount != count:
            raise DeclarationError(
                f"the pattern takes {count} arrays and its replacement "
                f"{function.__code__.co_argcount} (at {user_line()})"
            )
        own = name or function.__name__
        rewrite = Rewrite(own, looked_for, replacement, at, tuple(avals)).checked()
        declare("rewrite", own, rewrite)
        return rewrite

    return declared

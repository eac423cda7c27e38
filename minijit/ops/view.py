"""Declaring views: the same elements under other indices, which costs nothing in a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minijit.graph.aval import ShapedArray
from minijit.graph.index import Affine
from minijit.graph.primitive import LINEAR, Kind, Primitive, Rule, register

__all__ = ["Index", "Params", "declare_view"]

Index = tuple[Affine, ...]
Params = Mapping[str, Any]


def declare_view(
    name: str,
    doc: str,
    shape: Callable[..., tuple[int, ...]],
    eager: Callable[..., Any],
    view: Callable[[Index, ShapedArray, Params, Sequence[int]], Index],
    batch: Rule,
    transpose: Rule,
) -> Primitive:
    """Declare a view; ``shape(operand_shape, **params)`` gives the result's shape."""

    def abstract_eval(operand: ShapedArray, **params: Any) -> ShapedArray:
        return ShapedArray(shape(operand.shape, **params), operand.dtype)

    def run(xp: Any, operand: Any, **params: Any) -> Any:
        return eager(xp, xp.asarray(operand), **params)

    return register(
        Primitive(
            name=name,
            kind=Kind.VIEW,
            doc=doc,
            abstract_eval=abstract_eval,
            eager=run,
            view=view,
            flops=0,
            batch=batch,
            jvp=LINEAR,
            transpose=transpose,
        )
    )

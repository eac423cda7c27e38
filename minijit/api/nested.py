"""The call of a jitted function inside another one, as one equation of the outer program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from minijit.graph.aval import ShapedArray
from minijit.graph.evaluate import evaluate
from minijit.graph.primitive import Derived, Kind, Primitive, register
from minijit.graph.trace import bind
from minijit.graph.tree import unflatten
from minijit.runtime.memory_cache import Inner

__all__ = ["call_inner"]


def _call_aval(*avals: ShapedArray, jaxpr: Any, name: str) -> tuple[ShapedArray, ...]:
    return cast("tuple[ShapedArray, ...]", jaxpr.out_avals)


def _call_eager(xp: Any, *args: Any, jaxpr: Any, name: str) -> tuple[Any, ...]:
    return tuple(evaluate(jaxpr, args))


jit_p = register(
    Primitive(
        name="jit",
        kind=Kind.CALL,
        doc="Call of a jitted function inside another.",
        abstract_eval=_call_aval,
        eager=_call_eager,
        multiple_results=True,
        jvp=Derived.BY_KIND,
        transpose=Derived.BY_KIND,
    )
)


def call_inner(inner: Inner, leaves: Sequence[Any], name: str) -> Any:
    """Record a call of ``inner`` with ``leaves`` in the current trace and return its result."""
    traced, out_tree = inner
    results = bind(jit_p, *traced.captures, *leaves, jaxpr=traced.jaxpr, name=name)
    return unflatten(out_tree, results)

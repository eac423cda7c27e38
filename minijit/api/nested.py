"""The call of a jitted function inside another one, as one equation of the outer program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from minijit.graph.primitive import find_primitive
from minijit.graph.trace import bind
from minijit.graph.tree import unflatten

if TYPE_CHECKING:
    from minijit.runtime.memory_cache import Inner

__all__ = ["call_inner"]


def call_inner(inner: Inner, leaves: Sequence[Any], name: str) -> Any:
    """Record a call of ``inner`` with ``leaves`` in the current trace and return its result."""
    traced, out_tree = inner
    jit_p = find_primitive("jit")
    results = bind(jit_p, *traced.captures, *leaves, jaxpr=traced.jaxpr, name=name)
    return unflatten(out_tree, results)

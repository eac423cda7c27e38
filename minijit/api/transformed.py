"""Functions that transformations make: compiled by themselves, or part of what is traced."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from minijit.api.caches import derived_function
from minijit.api.inspect import trace_call
from minijit.api.jit import Jitted
from minijit.graph.evaluate import evaluate
from minijit.graph.mode import mode
from minijit.graph.tree import unflatten

__all__ = ["Transformed", "transformed"]


class Transformed(Jitted[..., Any]):
    """A jitted function whose operations, inside a trace, are recorded there one by one."""

    def _call_busy(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if mode.trace is not None:
            return self._function(*args, **kwargs)
        # With jit disabled: a transformation needs the program all the same, and runs it eagerly.
        jaxpr, out_tree, leaves = trace_call(self, args, kwargs)
        with np.errstate(all="ignore"):
            return unflatten(out_tree, evaluate(jaxpr, leaves))


def transformed(
    function: Callable[..., Any],
    key: tuple[Hashable, ...],
    recorded: Callable[..., Any],
    *,
    alike: bool = True,
    kind: type[Transformed] = Transformed,
) -> Callable[..., Any]:
    """Return what a transformation makes of ``function``; the same one for equal keys.

    Args:
        function: The user's function.
        key: The transformation, and its options.
        recorded: Does it inside a trace.
        alike: Whether it is called as ``function`` is; else by arguments of its own.
        kind: What it becomes.
    """

    def make() -> Transformed:
        own = inspect.signature(recorded)
        made: Any = functools.wraps(function)(recorded)
        if not alike:
            made.__signature__ = own
        return kind(made, None, None)

    if isinstance(function, Jitted):
        return derived_function(function._function, (*key, function._binder.options), make)
    return derived_function(function, key, make)

"""Functions that transformations make: compiled by themselves, or part of what is traced."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from minijit.api.caches import derived_function
from minijit.api.inspect import trace_call
from minijit.api.jit import Jitted
from minijit.graph.evaluate import evaluate
from minijit.graph.mode import mode
from minijit.graph.tree import is_leaf, unflatten
from minijit.ops.define import Elementwise

__all__ = ["Differentiated", "Transformed", "transformed"]


class Transformed(Jitted[..., Any]):
    """A jitted function whose operations, inside a trace, are recorded there one by one."""

    def _call_busy(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if mode.trace is not None:
            return self._function(*args, **kwargs)
        # With jit disabled: a transformation needs the program all the same, and runs it eagerly.
        jaxpr, out_tree, leaves = trace_call(self, args, kwargs)
        with np.errstate(all="ignore"):
            return unflatten(out_tree, evaluate(jaxpr, leaves))


class Differentiated(Transformed):
    """A derivative: flags, texts and functions among its arguments are static by themselves."""

    def _call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        places = tuple(place for place, value in enumerate(args) if _is_static(value))
        names = tuple(sorted(name for name, value in kwargs.items() if _is_static(value)))
        if not (places or names) or mode.busy or self._binder.has_statics:
            return super()._call(args, kwargs)
        function = self._function
        made = derived_function(
            function,
            ("static", places, names),
            lambda: Differentiated(function, places, names),
        )
        return made(*args, **kwargs)


def _is_static(value: Any) -> bool:
    """Whether an argument has no derivative, and decides what a function does."""
    if isinstance(value, bool | str | bytes):
        return True
    return callable(value) and is_leaf(value) and not hasattr(value, "dtype")


def transformed(
    function: Callable[..., Any],
    key: tuple[Hashable, ...],
    recorded: Callable[..., Any],
    *,
    alike: bool = True,
    kind: type[Transformed] = Differentiated,
) -> Callable[..., Any]:
    """Return what a transformation makes of ``function``; the same one for equal keys.

    Args:
        function: The user's function.
        key: The transformation, and its options.
        recorded: Does it inside a trace; may have a signature of its own.
        alike: Whether it is called as ``function`` is; else by arguments of its own.
        kind: What it becomes.
    """

    def make() -> Transformed:
        told = hasattr(recorded, "__signature__")
        own = inspect.signature(recorded)
        made: Any = functools.wraps(function)(recorded)
        if told or not alike:
            made.__signature__ = own
        if alike and isinstance(function, Jitted):
            return kind(made, *function._binder.options)  # what is static stays so
        return kind(made, None, None)

    owner = function
    if isinstance(function, Jitted):
        owner, key = function._function, (*key, function._binder.options)
    # Other callables may change, or equal each other and compute something else.
    unchanging = isinstance(owner, (types.FunctionType, Elementwise))
    return derived_function(owner, key, make) if unchanging else make()

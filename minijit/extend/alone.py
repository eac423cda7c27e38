"""Computes an operation that has no eager code: by a kernel of its own, outside of any program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minijit import runtime
from minijit.backends.registry import backend_of, get_backend
from minijit.graph.aval import ShapedArray
from minijit.graph.config import config
from minijit.graph.layout import Layout
from minijit.graph.trace import trace_function
from minijit.ops.promote import as_operand, operand_aval
from minijit.runtime.placement import Placed

__all__ = ["Alone"]

_PLANS = 256
"""How many types of operands an operation keeps a kernel for."""


class Alone:
    """Eager code of an operation, ``(xp, *arrays, **params)``: compiled once for each type."""

    def __init__(self, apply: Callable[..., Any], name: str) -> None:
        """Compute ``apply(*arrays, **params)``, which records the operation."""
        self._apply = apply
        self._name = name
        self._run = functools.lru_cache(_PLANS)(self._compiled)

    def __call__(self, xp: Any, *operands: Any, **params: Any) -> Any:
        """Return the result as an array of the operands' device."""
        arrays = tuple(map(as_operand, operands))
        backend = backend_of(arrays)
        placed = Placed.on(backend, arrays)
        avals = tuple(map(operand_aval, placed.values))
        key = (config.version, tuple(sorted(params.items())))
        run = self._run(backend.name, avals, placed.layouts, key)
        (result,) = run(placed.values)
        return result

    def _compiled(
        self,
        device: str,
        avals: tuple[ShapedArray, ...],
        layouts: tuple[Layout, ...],
        key: Any,
    ) -> Callable[[Sequence[Any]], list[Any]]:
        _, params = key
        traced = trace_function(
            lambda tracers: [self._apply(*tracers, **dict(params))],
            avals,
            [""] * len(avals),
            self._name,
            alone=True,
        )
        backend, (aval,) = get_backend(device), traced.jaxpr.out_avals
        if not aval.size:  # a plan would ask this very code for it
            allocate = backend.allocator(aval.shape, aval.dtype)
            return lambda values: [allocate()]
        return runtime.pipeline.compile_plan(traced.jaxpr, layouts, backend, check_nans=False).run

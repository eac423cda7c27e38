"""Calls with a derivative of their own: what users say in the place of the rules of operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from minijit.graph.aval import ShapedArray
from minijit.graph.evaluate import evaluate
from minijit.graph.jaxpr import Jaxpr, Var
from minijit.graph.mode import mode
from minijit.graph.primitive import UNDECLARED, JvpRule, Kind, Primitive, VjpRule, register
from minijit.graph.source_info import standing_at
from minijit.graph.trace import abstractify, bind
from minijit.graph.tree import flatten, unflatten

__all__ = ["custom_jvp_p", "custom_vjp_p", "stop_gradient"]


def _call_aval(*avals: ShapedArray, jaxpr: Jaxpr, **rules: Any) -> tuple[ShapedArray, ...]:
    return jaxpr.out_avals


def _call_eager(xp: Any, *args: Any, jaxpr: Jaxpr, **rules: Any) -> tuple[Any, ...]:
    return tuple(evaluate(jaxpr, args))


def _call(name: str, doc: str, jvp: JvpRule = UNDECLARED, vjp: VjpRule = UNDECLARED) -> Primitive:
    """Declare a call that is inlined as what it holds, and differentiated by its rule."""
    return register(
        Primitive(
            name=name,
            kind=Kind.CALL,
            doc=doc,
            abstract_eval=_call_aval,
            eager=_call_eager,
            multiple_results=True,
            jvp=jvp,
            vjp=vjp,
        )
    )


def _constant(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr
) -> tuple[Sequence[Any], list[None]]:
    return bind(stop_gradient_p, *primals, jaxpr=jaxpr), [None] * len(primals)


stop_gradient_p = _call("stop_gradient", "The operands, taken for constants.", _constant)


def stop_gradient(x: Any) -> Any:
    """Return ``x``, a pytree, which derivatives take for a constant.

    Raises:
        TypeError: a leaf is no array.
    """
    leaves, treedef = flatten(x)
    avals = [abstractify(leaf) for leaf in leaves]
    if mode.trace is None or not leaves:
        return x
    invars = tuple(map(Var, avals))
    jaxpr = Jaxpr(invars, (), (), (), invars, "stop_gradient")
    return unflatten(treedef, bind(stop_gradient_p, *leaves, jaxpr=jaxpr))


def _by_rule(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, rule: Callable[..., Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    with standing_at(None):
        return cast("tuple[Sequence[Any], Sequence[Any]]", rule(primals, tangents))


custom_jvp_p = _call(
    "custom_jvp",
    "Call of a function with a forward derivative rule of its own, ``(primals, tangents)``.",
    _by_rule,
)


def _forward(*primals: Any, rule: tuple[Callable[..., Any], Callable[..., Any]], **_: Any) -> Any:
    with standing_at(None):
        return rule[0](primals)


def _backward(
    kept: Sequence[Any],
    cotangents: Sequence[Any],
    *,
    rule: tuple[Callable[..., Any], Callable[..., Any]],
    **_: Any,
) -> Any:
    with standing_at(None):
        return rule[1](kept, cotangents)


custom_vjp_p = _call(
    "custom_vjp",
    "Call of a function with a reverse derivative rule of its own: forward and backward.",
    vjp=(_forward, _backward),
)

"""The call of a program inside another one; calls with a derivative that users have given."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from minijit.graph.aval import ShapedArray
from minijit.graph.evaluate import evaluate
from minijit.graph.jaxpr import Jaxpr, Var
from minijit.graph.mode import mode
from minijit.graph.primitive import (
    UNDECLARED,
    Derived,
    JvpRule,
    Kind,
    Primitive,
    Rule,
    VjpRule,
    register,
)
from minijit.graph.source_info import standing_at
from minijit.graph.trace import abstractify, bind
from minijit.graph.tree import flatten, unflatten
from minijit.ops.promote import broadcast_to

__all__ = ["UserRule", "custom_jvp_p", "custom_vjp_p", "jit_p", "stop_gradient"]


def _call_aval(*avals: ShapedArray, jaxpr: Jaxpr, **params: Any) -> tuple[ShapedArray, ...]:
    return jaxpr.out_avals


def _call_eager(xp: Any, *args: Any, jaxpr: Jaxpr, **params: Any) -> tuple[Any, ...]:
    return tuple(evaluate(jaxpr, args))


def _call(
    name: str,
    doc: str,
    jvp: JvpRule = UNDECLARED,
    vjp: VjpRule = UNDECLARED,
    transpose: Rule = UNDECLARED,
) -> Primitive:
    """Declare a call, which is compiled as what it holds."""
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
            transpose=transpose,
        )
    )


jit_p = _call(
    "jit",
    "Call of a jitted function inside another.",
    jvp=Derived.BY_KIND,
    transpose=Derived.BY_KIND,
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


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class UserRule:
    """A rule of a user's as a parameter of a call: traced when a derivative asks for it.

    Not before, since a rule calls the function that it belongs to.

    Attributes:
        name: The function's.
        run: From values of the current trace to others.
    """

    name: str
    run: Callable[[list[Any]], list[Any]]

    def __call__(self, *values: Any) -> list[Any]:
        """Run it; what is recorded stands at the lines of the rule."""
        with standing_at(None):
            return self.run(list(values))

    def __str__(self) -> str:
        """Return what a program shows of it."""
        return f"<rule of {self.name}>"


def _by_rule(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, rule: UserRule, captured: int
) -> tuple[Sequence[Any], Sequence[Any]]:
    given = _floats(jaxpr.in_avals[captured:], tangents[captured:])
    found = rule(*primals[captured:], *given)
    results = found[: len(jaxpr.outvars)]
    return results, _among_all(jaxpr.out_avals, found[len(results) :])


def _floats(avals: Sequence[ShapedArray], changes: Sequence[Any]) -> list[Any]:
    """Return the tangents or cotangents of floats, zeros where there is None."""
    return [
        broadcast_to(aval.dtype.type(0), aval.shape) if change is None else change
        for aval, change in zip(avals, changes, strict=True)
        if aval.dtype.kind == "f"
    ]


def _among_all(avals: Sequence[ShapedArray], changes: Sequence[Any]) -> list[Any]:
    """Return the changes of floats at their places, None at the others."""
    given = iter(changes)
    return [next(given) if aval.dtype.kind == "f" else None for aval in avals]


custom_jvp_p = _call(
    "custom_jvp", "Call of a function with a forward derivative rule of its own.", jvp=_by_rule
)


def _forward(
    *primals: Any, jaxpr: Jaxpr, forward: UserRule, backward: UserRule, captured: int
) -> tuple[Sequence[Any], Sequence[Any]]:
    found = forward(*primals[captured:])
    count = len(jaxpr.outvars)
    return found[:count], found[count:]


def _backward(
    kept: Sequence[Any],
    cotangents: Sequence[Any],
    *,
    jaxpr: Jaxpr,
    forward: UserRule,
    backward: UserRule,
    captured: int,
) -> list[Any]:
    found = backward(*kept, *_floats(jaxpr.out_avals, cotangents))
    return [*[None] * captured, *_among_all(jaxpr.in_avals[captured:], found)]


custom_vjp_p = _call(
    "custom_vjp",
    "Call of a function with a reverse derivative rule of its own.",
    vjp=(_forward, _backward),
)

"""Loops that end when a condition fails: ``while_loop``, and ``fori_loop`` over a range."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.dtypes import BOOL
from minijit.graph.evaluate import evaluate
from minijit.graph.jaxpr import Jaxpr
from minijit.graph.mode import mode
from minijit.graph.primitive import Derived, Kind, Primitive, register, unsupported
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify, bind
from minijit.graph.tree import flatten, unflatten
from minijit.ops.binary import add
from minijit.ops.bodies import (
    Body,
    Tree,
    check_function,
    long_name,
    runs_as_python,
    strong,
    trace_body,
)
from minijit.ops.compare import less
from minijit.ops.promote import convert, result_dtype
from minijit.ops.scan import scan_p, trace_step

__all__ = ["fori_loop", "while_loop", "while_p"]

_BOOL = ShapedArray((), BOOL)


def _while_aval(
    *avals: ShapedArray, condition: Jaxpr, body: Jaxpr, condition_consts: int, body_consts: int
) -> tuple[ShapedArray, ...]:
    consts, carry = avals[: condition_consts + body_consts], avals[condition_consts + body_consts :]
    if strong(condition.in_avals) != strong([*consts[:condition_consts], *carry]):
        raise TypeError(f"while: the condition takes {condition.in_avals}, not {avals}")
    if strong(body.in_avals) != strong([*consts[condition_consts:], *carry]):
        raise TypeError(f"while: the body takes {body.in_avals}, not {avals}")
    (holds,) = condition.out_avals
    is_lane = all(aval.shape[: holds.ndim] == holds.shape for aval in carry)
    if holds.dtype != BOOL or not is_lane or strong(body.out_avals) != strong(carry):
        raise TypeError(f"while: condition {condition.out_avals}, body {body.out_avals}")
    return carry


def _while_eager(
    xp: Any, *args: Any, condition: Jaxpr, body: Jaxpr, condition_consts: int, body_consts: int
) -> tuple[Any, ...]:
    fixed, rest = args[:condition_consts], args[condition_consts:]
    consts, state = rest[:body_consts], rest[body_consts:]
    while (holds := xp.asarray(evaluate(condition, (*fixed, *state))[0])).any():
        after = evaluate(body, (*consts, *state))
        state = tuple(after if not holds.ndim else _kept(xp, holds, after, state))
    pairs = zip(state, body.out_avals, strict=True)
    return tuple(xp.asarray(value, dtype=aval.dtype) for value, aval in pairs)


def _kept(xp: Any, holds: Any, after: Sequence[Any], before: Sequence[Any]) -> Iterator[Any]:
    """Yield what is carried: lanes for which the condition holds no more keep what they had."""
    for new, old in zip(after, before, strict=True):
        lanes = holds.reshape(holds.shape + (1,) * (xp.ndim(new) - holds.ndim))
        yield xp.where(lanes, new, old)


while_p = register(
    Primitive(
        name="while",
        kind=Kind.LOOP,
        doc="Run ``body`` on carried values while ``condition`` holds; lanes have one each.",
        abstract_eval=_while_aval,
        eager=_while_eager,
        multiple_results=True,
        jvp=Derived.BY_KIND,
        transpose=unsupported("how many steps there are is not known before it has run"),
    )
)


def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """Return the value that ``body_fun`` has made of ``init_val`` when ``cond_fun`` fails.

    Both functions are traced once.

    Args:
        cond_fun: Takes the value, returns a bool scalar: whether to go on.
        body_fun: Takes the value, returns one of the same structure and types.
        init_val: A pytree of arrays and scalars. A Python number takes the dtype that the body
            gives it.

    Raises:
        TypeError: the condition is no bool scalar, or the body changes a type.
    """
    check_function("while_loop", "cond_fun", cond_fun, ("value",))
    check_function("while_loop", "body_fun", body_fun, ("value",))
    if runs_as_python():
        value = init_val
        while cond_fun(value):
            value = body_fun(value)
        return value
    start, body = trace_step("while_loop", body_fun, init_val, None, paired=False)
    treedef = flatten(init_val)[1]
    carry = Tree(flatten((init_val,))[1], tuple(map(abstractify, start)))
    condition = trace_body(cond_fun, carry, ("carry",))
    if condition.out.avals != (_BOOL,) or condition.out.treedef.num_nodes != 1:
        raise TypeError(
            f"while_loop: the condition returns {condition.out} (at {user_line()}), not a bool "
            "scalar: write a comparison, and reduce arrays with .any() or .all()"
        )
    return unflatten(treedef, _bind(condition, body, start))


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """Return what ``for i in range(lower, upper): val = body_fun(i, val)`` makes of ``init_val``.

    The body is traced once. With bounds that are Python integers ``i`` is weakly typed, as an
    integer of Python's own loop is: ``x + i`` keeps the dtype of ``x``.

    Args:
        lower: An integer scalar, traced or not.
        upper: Another one.
        body_fun: Takes the step and the value, returns a value of the same structure and types.
        init_val: A pytree of arrays and scalars.

    Raises:
        TypeError: a bound is no integer scalar, or the body changes a type.
    """
    check_function("fori_loop", "body_fun", body_fun, ("i", "value"))
    bounds = [_bound(name, value) for name, value in (("lower", lower), ("upper", upper))]
    dtype, weak = result_dtype(bounds), all(bound.weak_type for bound in bounds)
    if runs_as_python():
        value = init_val
        for i in range(int(lower), int(upper)):
            value = body_fun(i if weak else dtype.type(i), value)
        return value
    first = convert(lower, dtype, weak)
    last = convert(upper, dtype, weak)

    def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
        i, value = state
        return add(i, 1), body_fun(i, value)

    step.__name__ = getattr(body_fun, "__name__", type(body_fun).__name__)
    init = (first, init_val)
    start, body = trace_step("fori_loop", step, init, None, paired=False, counted=True)
    if all(isinstance(value, (int, np.integer)) for value in (lower, upper)) or mode.trace is None:
        steps = max(int(upper) - int(lower), 0)
        results = bind(
            scan_p, *body.captures, *start, jaxpr=body.jaxpr, length=steps, reverse=False,
            unroll=1, consts=len(body.captures), carries=len(start),
        )  # fmt: skip
    else:
        carry = Tree(flatten((init,))[1], tuple(map(abstractify, start)))
        condition = trace_body(lambda state: less(state[0], last), carry, ("carry",))
        results = _bind(condition, body, start)
    return unflatten(flatten(init)[1], results)[1]


def _bind(condition: Body, body: Body, start: list[Any]) -> Any:
    return bind(
        while_p, *condition.captures, *body.captures, *start, condition=condition.jaxpr,
        body=body.jaxpr, condition_consts=len(condition.captures), body_consts=len(body.captures),
    )  # fmt: skip


def _bound(name: str, value: Any) -> ShapedArray:
    aval = abstractify(value)
    if aval.shape or aval.dtype.kind not in "iu":
        raise TypeError(
            f"fori_loop: {name} is {long_name(aval)} (at {user_line()}), not an integer scalar"
        )
    return aval

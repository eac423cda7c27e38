"""Derivatives of functions: ``grad``, ``value_and_grad``, ``jvp``, ``vjp``, ``linearize``.

Outside of a trace each runs a program that is compiled once for a signature; inside of one its
operations are part of what is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijit.api.differentiated import Body, Call, argument_places, check_function, matched
from minijit.api.linear_maps import LinearMap, Pullback, Pushforward, Shape, filled
from minijit.api.transformed import transformed
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.graph.tree import unflatten
from minijit.ops.bodies import Tree
from minijit.transforms.jvp import push

__all__ = ["grad", "jvp", "linearize", "value_and_grad", "vjp"]


def value_and_grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes ``fun`` and its gradient, in reverse mode.

    Args:
        fun: Returns a float scalar, or with ``has_aux`` a pair of it and anything else. It is
            traced, as by :func:`minijit.jit`, and may be jitted itself.
        argnums: The position of the argument with respect to which the gradient is taken; several
            for a tuple of gradients. Such arguments are pytrees of float arrays and scalars.
        has_aux: Whether ``fun`` returns a pair, whose second part is handed through.

    Returns:
        A function of the same arguments that returns ``(value, gradient)``; with ``has_aux`` the
        value is the pair. A gradient has the structure, shapes and dtypes of its argument, zeros
        where the value does not depend on it.

    Raises:
        TypeError: ``fun`` is no function. When it is called: the result is no float scalar, there
            is no such argument or it is no float, or an operation has no derivative.
    """
    check_function("value_and_grad", fun)
    places = argument_places(argnums)

    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        call = Call("grad", fun, args, kwargs, places)
        body = Body.of(call, has_aux)
        _check_scalar(body, call)
        results, linear, residuals = body.linearized(call.leaves, reverse=True)
        one = abstractify(results[0]).dtype.type(1)
        found = filled(linear.pull(residuals, [one]), list(map(abstractify, call.leaves)))
        gradients = unflatten(call.treedef, found)
        return body.value(results), gradients[0] if isinstance(argnums, int) else gradients

    key = ("value_and_grad", places, isinstance(argnums, int), has_aux)
    return transformed(fun, key, value_and_gradient)


def grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of ``fun``, in reverse mode.

    Args:
        fun: As for :func:`value_and_grad`.
        argnums: As for :func:`value_and_grad`.
        has_aux: Whether ``fun`` returns a pair ``(value, aux)``; what is returned is a pair
            ``(gradient, aux)`` then.

    Raises:
        TypeError: As for :func:`value_and_grad`.
    """
    check_function("grad", fun)
    both = value_and_grad(fun, argnums, has_aux)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    key = ("grad", argument_places(argnums), isinstance(argnums, int), has_aux)
    return transformed(fun, key, gradient)


def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> tuple[Any, ...]:
    """Return ``fun(*primals)`` and how it changes along ``tangents``, in forward mode.

    Args:
        fun: A function of pytrees of float arrays and scalars.
        primals: A tuple or a list of its arguments.
        tangents: Directions, of the structure, shapes and dtypes of ``primals``.
        has_aux: Whether ``fun`` returns a pair, whose second part is handed through.

    Returns:
        ``(result, tangent)``, with ``has_aux`` ``(result, tangent, aux)``. The tangent of what is
        no float is zero.

    Raises:
        TypeError: ``fun`` is no function, an argument is no float, tangents do not match, or an
            operation has no derivative.
    """
    check_function("jvp", fun)
    for name, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, (tuple, list)):
            raise TypeError(
                f"jvp: {name} is {type(value).__name__} (at {user_line()}): give a tuple of "
                "arguments, (x,) for a single one"
            )

    def pushed(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        call = Call("jvp", fun, primals, {})
        avals = list(map(abstractify, call.leaves))
        moved = matched("jvp", "tangent", tangents, call.treedef, avals, call.paths)
        body = Body.of(call, has_aux)
        still = [None] * len(body.captures)
        operands = [*body.captures, *call.leaves]
        results, changes = push(body.jaxpr, operands, [*still, *moved], reverse=False)
        changes = changes[: body.out.num_leaves]
        changes = filled(changes, list(map(abstractify, results[: body.out.num_leaves])))
        value, tangent = body.value(results), unflatten(body.out, changes)
        return (value[0], tangent, value[1]) if has_aux else (value, tangent)

    run = transformed(fun, ("jvp", has_aux), pushed, alike=False)
    found: tuple[Any, ...] = run(tuple(primals), tuple(tangents))
    return found


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return ``fun(*primals)``, and a function from cotangents of it to those of ``primals``.

    Args:
        fun: A function of pytrees of float arrays and scalars.
        *primals: Its arguments.
        has_aux: Whether ``fun`` returns a pair, whose second part is handed through.

    Returns:
        ``(result, pullback)``, with ``has_aux`` ``(result, pullback, aux)``. The pullback takes a
        cotangent of the structure of the result, and returns a tuple, one for each argument; it is
        a pytree of the values that it needs.

    Raises:
        TypeError: ``fun`` is no function, an argument is no float, or an operation has no
            derivative.
    """
    check_function("vjp", fun)
    return _at_a_point("vjp", fun, primals, has_aux, Pullback)


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return ``fun(*primals)``, and its derivative there: a function of tangents.

    Unlike :func:`jvp` it computes what does not depend on tangents once for all of them.

    Args:
        fun: A function of pytrees of float arrays and scalars.
        *primals: Its arguments.
        has_aux: Whether ``fun`` returns a pair, whose second part is handed through.

    Returns:
        ``(result, pushforward)``, with ``has_aux`` ``(result, pushforward, aux)``. The pushforward
        takes tangents as ``fun`` takes arguments; it is a pytree of the values that it needs.

    Raises:
        TypeError: as for :func:`vjp`.
    """
    check_function("linearize", fun)
    return _at_a_point("linearize", fun, primals, has_aux, Pushforward)


def _at_a_point(
    what: str,
    fun: Callable[..., Any],
    primals: tuple[Any, ...],
    has_aux: bool,
    kind: type[LinearMap],
) -> tuple[Any, ...]:
    def at(*primals: Any) -> tuple[Any, ...]:
        call = Call(what, fun, primals, {})
        body = Body.of(call, has_aux)
        reverse = kind is Pullback
        results, linear, residuals = body.linearized(call.leaves, reverse=reverse, free=True)
        shape = Shape(
            call.name,
            call.treedef,
            tuple(abstractify(leaf).strip_weak_type() for leaf in call.leaves),
            tuple(call.paths),
            body.out,
            tuple(a.strip_weak_type() for a in body.jaxpr.out_avals[: body.out.num_leaves]),
            kind.applied(fun, call.name),
        )
        value, derivative = body.value(results), kind(linear, residuals, shape)
        return (value[0], derivative, value[1]) if has_aux else (value, derivative)

    found: tuple[Any, ...] = transformed(fun, (what, has_aux), at, alike=False)(*primals)
    return found


def _check_scalar(body: Body, call: Call) -> None:
    """Refuse a result that has no gradient."""
    avals = body.jaxpr.out_avals[: body.out.num_leaves]
    kinds = [(aval.shape, aval.dtype.kind) for aval in avals]
    if kinds == [((), "f")] and body.out.num_nodes == 1:
        return
    advice = "reduce it, .sum() or .mean(), or take minijit.vjp of functions of several results"
    if any(aval.dtype.kind != "f" for aval in avals):
        advice = "what is no float has no derivative: compute the value with floats"
    if len(avals) == 2 and body.out.num_nodes == 3:
        advice = "a pair (value, something else) is taken with has_aux=True"
    raise TypeError(
        f"grad: {call.name}() returns {Tree(body.out, avals)} (at {user_line()}), not one float "
        f"scalar: {advice}"
    )

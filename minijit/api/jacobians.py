"""All partial derivatives at once: ``jacfwd``, ``jacrev``, ``hessian``.

They are :func:`minijit.vmap` of a derivative, over the directions along the axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijit.api.differentiated import Body, Call, argument_places, check_function
from minijit.api.linear_maps import filled
from minijit.api.transformed import transformed
from minijit.api.vectorize import vmap
from minijit.graph.aval import ShapedArray
from minijit.graph.source_info import user_line
from minijit.graph.trace import abstractify
from minijit.graph.tree import unflatten
from minijit.ops.bodies import Tree
from minijit.ops.compare import equal
from minijit.ops.create import iota
from minijit.ops.promote import convert
from minijit.ops.shape import move_axis, reshape
from minijit.transforms.jvp import push
from minijit.transforms.replay import replay

__all__ = ["hessian", "jacfwd", "jacrev"]

Blocks = list[list[Any]]
"""By leaf of the result, and there by leaf of the arguments: an array of ``(*result, *leaf)``."""


def jacfwd(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``fun``, in forward mode.

    That suits functions with more results than arguments.

    Args:
        fun: Returns a pytree of floats of any shapes; or with ``has_aux`` a pair of it and anything
            else.
        argnums: The position of the argument by which it is differentiated; several for tuples.
        has_aux: Whether ``fun`` returns a pair; what is returned is one then, with its second part.

    Returns:
        A function of the same arguments. It returns the structure of the result, in which each leaf
        is the structure of the argument, with arrays of shape ``(*result, *argument)``.

    Raises:
        TypeError: ``fun`` is no function; when it is called, a result or the argument is no float,
            or an operation has no derivative.
    """
    return _jacobian("jacfwd", fun, argnums, has_aux, _forward)


def jacrev(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``fun``, in reverse mode.

    That suits functions with more arguments than results.

    Args:
        fun: As for :func:`jacfwd`.
        argnums: As for :func:`jacfwd`.
        has_aux: As for :func:`jacfwd`.

    Returns:
        What :func:`jacfwd` returns.

    Raises:
        TypeError: As for :func:`jacfwd`.
    """
    return _jacobian("jacrev", fun, argnums, has_aux, _reverse)


def hessian(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return a function that computes all second derivatives: ``jacfwd`` of ``jacrev``.

    Args:
        fun: As for :func:`jacfwd`.
        argnums: As for :func:`jacfwd`.
        has_aux: As for :func:`jacfwd`.

    Returns:
        A function of the same arguments; arrays have shape ``(*result, *argument, *argument)``.

    Raises:
        TypeError: As for :func:`jacfwd`.
    """
    return jacfwd(jacrev(fun, argnums, has_aux), argnums, has_aux)


def _jacobian(
    what: str,
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    blocks_of: Callable[[Body, Sequence[Any], Sequence[ShapedArray]], Blocks],
) -> Callable[..., Any]:
    check_function(what, fun)
    places = argument_places(argnums)

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        call = Call(what, fun, args, kwargs, places)
        body = Body.of(call, has_aux)
        count = body.out.num_leaves
        outs = [aval.strip_weak_type() for aval in body.jaxpr.out_avals[:count]]
        if any(aval.dtype.kind != "f" for aval in outs):
            raise TypeError(
                f"{what}: {call.name}() returns {Tree(body.out, tuple(outs))} (at {user_line()}), "
                "and only floats have derivatives: hand the rest through with has_aux=True"
            )
        rows = [unflatten(call.treedef, row) for row in blocks_of(body, call.leaves, outs)]
        found = [row[0] if isinstance(argnums, int) else row for row in rows]
        results = replay(body.jaxpr, [*body.captures, *call.leaves]) if has_aux else []
        whole = unflatten(body.out, found)
        return (whole, body.value(results)[1]) if has_aux else whole

    return transformed(fun, (what, places, isinstance(argnums, int), has_aux), jacobian)


def _forward(body: Body, leaves: Sequence[Any], outs: Sequence[ShapedArray]) -> Blocks:
    operands, still = [*body.captures, *leaves], [None] * len(body.captures)
    columns = []
    for place, leaf in enumerate(leaves):
        aval = abstractify(leaf)

        def along(direction: Any, place: int = place) -> list[Any]:
            moved = [direction if n == place else None for n in range(len(leaves))]
            changes = push(body.jaxpr, operands, [*still, *moved], reverse=False)[1]
            return filled(changes[: len(outs)], outs)

        found = vmap(along)(_directions(aval))
        columns.append(
            [
                reshape(move_axis(x, 0, out.ndim), out.shape + aval.shape)
                for x, out in zip(found, outs, strict=True)
            ]
        )
    return [list(row) for row in zip(*columns, strict=True)]


def _reverse(body: Body, leaves: Sequence[Any], outs: Sequence[ShapedArray]) -> Blocks:
    _, linear, residuals = body.linearized(leaves, reverse=True)
    ins = [abstractify(leaf).strip_weak_type() for leaf in leaves]
    rows = []
    for place, out in enumerate(outs):

        def weighted(direction: Any, place: int = place) -> list[Any]:
            cotangents = [direction if n == place else None for n in range(len(outs))]
            return filled(linear.pull(residuals, cotangents), ins)

        found = vmap(weighted)(_directions(out))
        rows.append(
            [reshape(x, out.shape + aval.shape) for x, aval in zip(found, ins, strict=True)]
        )
    return rows


def _directions(aval: ShapedArray) -> Any:
    """Return the directions along the axes of all elements, one after the other."""
    square = (aval.size, aval.size)
    ones = convert(equal(iota(square, 0), iota(square, 1)), aval.dtype)
    return reshape(ones, (aval.size, *aval.shape))

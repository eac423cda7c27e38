"""Transposes of branches and loops: a scan runs backwards and carries cotangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Jaxpr, JaxprEqn
from minijit.graph.loop import LoopParts
from minijit.graph.trace import abstractify, bind
from minijit.ops.reduce import reduce_sum_p
from minijit.transforms.replay import traced, with_captures, with_zeros, zeros_of
from minijit.transforms.wide_sums import Total, widened

__all__ = ["Pull", "is_linear", "pull_branch", "pull_scan"]

Pull = Callable[[Jaxpr, Sequence[Any], Sequence[Any]], list[Any]]
"""Transposes a body; see :func:`minijit.transforms.transpose.pull`."""


def pull_branch(
    eqn: JaxprEqn, cotangents: Sequence[Any], operands: Sequence[Any], pull: Pull
) -> list[Any]:
    """Return a cotangent, or None, for each operand of a branch; its bodies are transposed."""
    index, *rest = operands
    known, types = _parted(rest)
    given = [each for each in cotangents if each is not None]
    avals = [abstractify(each) for each in (*known, *given)]

    def transposed(branch: Jaxpr) -> tuple[Jaxpr, tuple[Any, ...], list[bool]]:
        has: list[bool] = []

        def run(inputs: list[Any]) -> list[Any]:
            values, changes = iter(inputs[: len(known)]), iter(inputs[len(known) :])
            own = [each if is_linear(each) else next(values) for each in rest]
            found = pull(branch, own, [None if c is None else next(changes) for c in cotangents])
            has.extend(each is not None for each in found)
            return [each for each in found if each is not None]

        return *traced(run, avals, branch.name), has

    bodies = [transposed(branch) for branch in eqn.params["branches"]]
    wanted = [any(column) for column in zip(*(has for _, _, has in bodies), strict=True)]
    captures = {id(value): value for _, own, _ in bodies for value in own}
    branches = tuple(
        with_captures(with_zeros(jaxpr, has, wanted, types), own, captures)
        for jaxpr, own, has in bodies
    )
    shared = captures.values()
    results = iter(bind(eqn.primitive, index, *shared, *known, *given, branches=branches))
    sums = iter([next(results) if want else None for want in wanted])
    return [None, *(next(sums) if is_linear(each) else None for each in rest)]


def pull_scan(
    eqn: JaxprEqn, cotangents: Sequence[Any], operands: Sequence[Any], pull: Pull
) -> list[Any]:
    """Return a cotangent, or None, for each operand of a scan that is linear in its carries.

    Which a carry is though it starts with a value: zeros, for a tangent that comes up on the way.
    The steps are taken in the opposite order. Carried are the cotangents of the carries, and the
    sums of those of the constants.
    """
    loop = LoopParts.of(eqn)
    count, carries = len(loop.fixed), loop.carries
    fixed, fixed_types = _parted(operands[:count])
    inits = [
        each if is_linear(each) else abstractify(each).strip_weak_type()
        for each in operands[count : count + carries]
    ]
    rows, _ = _parted(operands[count + carries :])
    finals, ys = cotangents[:carries], cotangents[carries:]
    starts = [zeros_of(t) if c is None else c for c, t in zip(finals, inits, strict=True)]
    starts += map(zeros_of, fixed_types)
    given = [*rows, *(each for each in ys if each is not None)]
    avals = [
        *map(abstractify, fixed),
        *(abstractify(start).strip_weak_type() for start in starts),
        *(_row(abstractify(each)) for each in given),
    ]
    has: list[bool] = []

    def step(inputs: list[Any]) -> list[Any]:
        values = iter(inputs)
        consts = _filled(operands[:count], values)
        state = [next(values) for _ in starts]
        xs = [
            _row(each) if is_linear(each) else next(values) for each in operands[count + carries :]
        ]
        changes = [None if each is None else next(values) for each in ys]
        found = pull(loop.body, [*consts, *inits, *xs], [*state[:carries], *changes])
        of_consts, rest = found[: len(fixed_types)], found[len(fixed_types) :]
        of_carries, of_rows = rest[:carries], rest[carries:]
        state = [
            *(zeros_of(t) if c is None else c for c, t in zip(of_carries, inits, strict=True)),
            *(s if c is None else s + c for s, c in zip(state[carries:], of_consts, strict=True)),
        ]
        has[:] = [each is not None for each in of_rows]
        return [*state, *(each for each in of_rows if each is not None)]

    body, captures = traced(step, avals, loop.body.name)
    totals: dict[int, Total] = {}
    shapes = {aval.shape for aval in inits}
    for place in range(carries, len(starts)):
        carry = body.invars[len(captures) + len(fixed) + place]
        found = widened(body, carry, place, shapes)
        if found is not None:
            body, totals[place] = found
            starts[place] = zeros_of(totals[place].aval)
    results = bind(
        eqn.primitive, *captures, *fixed, *starts, *given, jaxpr=body, length=loop.length,
        reverse=not loop.reverse, unroll=eqn.params["unroll"],
        consts=len(captures) + len(fixed), carries=len(starts),
    )  # fmt: skip
    sums = [
        bind(reduce_sum_p, x, axes=totals[place].axes) if place in totals else x
        for place, x in enumerate(results[: len(starts)])
    ]
    of_fixed = iter(sums[carries:])
    collected = iter(results[len(starts) :])
    of_rows = iter([next(collected) if own else None for own in has])
    return [
        *(next(of_fixed) if is_linear(each) else None for each in operands[:count]),
        *results[:carries],
        *(next(of_rows) if is_linear(each) else None for each in operands[count + carries :]),
    ]


def _parted(operands: Sequence[Any]) -> tuple[list[Any], list[ShapedArray]]:
    """Return the values among operands, and the types of the linear ones."""
    known = [each for each in operands if not is_linear(each)]
    return known, [each for each in operands if is_linear(each)]


def _filled(operands: Sequence[Any], values: Any) -> list[Any]:
    """Return operands with the values replaced by other ones."""
    return [each if is_linear(each) else next(values) for each in operands]


def is_linear(operand: Any) -> bool:
    """Whether an operand of a transpose is one in which it is linear: its aval stands for it."""
    return isinstance(operand, ShapedArray)


def _row(aval: ShapedArray) -> ShapedArray:
    return ShapedArray(aval.shape[1:], aval.dtype)

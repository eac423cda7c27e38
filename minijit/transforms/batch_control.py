"""Batching of what holds programs: calls, branches, loops, and any operation one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Jaxpr, JaxprEqn, has_effect
from minijit.graph.loop import may_not_end
from minijit.graph.trace import abstractify, bind, trace_function
from minijit.ops.batching import Dim, batch_elementwise, with_batch
from minijit.ops.call import UserRule
from minijit.ops.compare import equal, logical_and
from minijit.ops.promote import broadcast_in_dim_p
from minijit.ops.reduce import reduce_any_p
from minijit.ops.scan import scan_p
from minijit.ops.select import select_p
from minijit.ops.shape import move_axis
from minijit.transforms.replay import traced

if TYPE_CHECKING:
    from minijit.transforms.batch import Batcher

__all__ = ["batch_branch", "batch_call", "batch_loop", "one_by_one"]

Batched = tuple[Sequence[Any], Sequence[Dim]]


def batch_call(
    batcher: Batcher, eqn: JaxprEqn, operands: Sequence[Any], dims: Sequence[Dim]
) -> Batched:
    """Call the program of a batch."""
    if "captured" in eqn.params:
        return _batch_rules(batcher, eqn, operands, dims)
    inner: Jaxpr = eqn.params["jaxpr"]
    masked = batcher.masks(inner)
    jaxpr, out = batcher.body(inner, dims, masked=masked)
    given = [batcher.mask, *operands] if masked else operands
    return bind(eqn.primitive, *given, **{**eqn.params, "jaxpr": jaxpr}), out


def _batch_rules(
    batcher: Batcher, eqn: JaxprEqn, operands: Sequence[Any], dims: Sequence[Dim]
) -> Batched:
    """Call a function with derivative rules, which are batched as well once they are asked for.

    All that they take and return, but for captured values, has the batch in front.
    """
    inner: Jaxpr = eqn.params["jaxpr"]
    if batcher.masks(inner):
        raise NotImplementedError(
            f"vmap of {inner.name} (at {eqn.source}): it has a derivative of its own and a loop "
            "without a count, and stands in another such loop or in a branch"
        )
    captured, size = eqn.params["captured"], batcher.size
    pairs = zip(operands[captured:], dims[captured:], strict=True)
    given = [with_batch(x, dim, 0, size) for x, dim in pairs]

    def batched(rule: UserRule) -> UserRule:
        def run(values: list[Any]) -> list[Any]:
            avals = [abstractify(value) for value in values]
            rows = [ShapedArray(aval.shape[1:], aval.dtype) for aval in avals]
            jaxpr, captures = traced(lambda row: rule(*row), rows, rule.name)
            places = [*[None] * len(captures), *[0] * len(values)]
            results, out = type(batcher)(size).run(jaxpr, [*captures, *values], places)
            return [with_batch(x, dim, 0, size) for x, dim in zip(results, out, strict=True)]

        return UserRule(rule.name, run)

    front = [0] * len(given)
    jaxpr = batcher.body(inner, [*dims[:captured], *front], [0] * len(inner.outvars))[0]
    params = {n: batched(v) if isinstance(v, UserRule) else v for n, v in eqn.params.items()}
    results = bind(eqn.primitive, *operands[:captured], *given, **{**params, "jaxpr": jaxpr})
    return results, [0] * len(results)


def batch_branch(
    batcher: Batcher, eqn: JaxprEqn, operands: Sequence[Any], dims: Sequence[Dim]
) -> Batched:
    """Take one branch for the whole batch, or where elements differ all, and select."""
    (index, *rest), (place, *own) = operands, dims
    branches: tuple[Jaxpr, ...] = eqn.params["branches"]
    if place is not None:
        if has_effect(eqn):
            return one_by_one(batcher, eqn, operands, dims)
        return _selected(batcher, branches, index, rest, own)
    masked = batcher.masks(*branches)
    made = [batcher.body(branch, own, masked=masked) for branch in branches]
    columns = zip(*(out for _, out in made), strict=True)
    wanted = [next((dim for dim in column if dim is not None), None) for column in columns]
    if any(out != wanted for _, out in made):
        made = [batcher.body(branch, own, wanted, masked=masked) for branch in branches]
    given = [batcher.mask, *rest] if masked else rest
    params = {"branches": tuple(jaxpr for jaxpr, _ in made)}
    return bind(eqn.primitive, index, *given, **params), wanted


def _selected(
    batcher: Batcher,
    branches: Sequence[Jaxpr],
    index: Any,
    operands: Sequence[Any],
    dims: Sequence[Dim],
) -> Batched:
    """Compute all branches, and select for each element the results of its own."""
    results: Sequence[Any] = ()
    out: Sequence[Dim] = ()
    for number, branch in reversed(tuple(enumerate(branches))):
        here = equal(index, np.int32(number))
        mask = here if batcher.mask is None else logical_and(here, batcher.mask)
        inner = type(batcher)(batcher.size, mask if may_not_end(branch.eqns) else None)
        own, places = inner.run(branch, operands, dims)
        if number == len(branches) - 1:
            results, out = own, places
            continue
        pairs = [
            batch_elementwise(select_p, (0, *at), here, *values)
            for values, at in zip(
                zip(own, results, strict=True), zip(places, out, strict=True), strict=True
            )
        ]
        results, out = [x for x, _ in pairs], [dim for _, dim in pairs]
    return results, out


def batch_loop(
    batcher: Batcher, eqn: JaxprEqn, operands: Sequence[Any], dims: Sequence[Dim]
) -> Batched:
    """Carry a batch along."""
    rule = _batch_scan if eqn.primitive is scan_p else _batch_while
    return rule(batcher, eqn, operands, dims)


def _batch_scan(
    batcher: Batcher, eqn: JaxprEqn, operands: Sequence[Any], dims: Sequence[Dim]
) -> Batched:
    params, step = eqn.params, eqn.params["jaxpr"]
    first, last = params["consts"], params["consts"] + params["carries"]
    masked = batcher.masks(step)
    # A step takes its row from the first axis: the batch lies behind it.
    taken = zip(operands[last:], dims[last:], strict=True)
    xs = [move_axis(x, 0, 1) if dim == 0 else x for x, dim in taken]
    rows = [None if dim is None else max(dim - 1, 0) for dim in dims[last:]]
    carried = list(dims[first:last])
    while True:
        wanted = [*carried, *(None for _ in step.outvars[len(carried) :])]
        inputs = [*dims[:first], *carried, *rows]
        jaxpr, out = batcher.body(step, inputs, wanted, masked=masked)
        if out[: len(carried)] == carried:
            break
        carried = out[: len(carried)]
    inits = _starts(batcher, operands[first:last], dims[first:last], carried)
    fixed = [batcher.mask, *operands[:first]] if masked else operands[:first]
    params = {**params, "jaxpr": jaxpr, "consts": len(fixed)}
    results = bind(scan_p, *fixed, *inits, *xs, **params)
    collected = [None if dim is None else dim + 1 for dim in out[len(carried) :]]
    return results, [*carried, *collected]


def _batch_while(
    batcher: Batcher, eqn: JaxprEqn, operands: Sequence[Any], dims: Sequence[Dim]
) -> Batched:
    """Go on until all are done; what is done keeps its values (see ``while``)."""
    condition, body = eqn.params["condition"], eqn.params["body"]
    first = eqn.params["condition_consts"]
    last = first + eqn.params["body_consts"]
    lanes = len(condition.out_avals[0].shape)
    carried = [None if dim is None else max(dim, lanes) for dim in dims[last:]]
    while True:
        grown = batcher.body(body, [*dims[first:last], *carried], carried)[1]
        grown = [None if dim is None else max(dim, lanes) for dim in grown]
        if grown == carried:
            break
        carried = grown
    (lane,) = batcher.body(condition, [*dims[:first], *carried])[1]
    if lane is not None:
        if has_effect(eqn):
            return one_by_one(batcher, eqn, operands, dims)
        carried = [0] * len(carried)
    own = _WhileBody(batcher, condition, body, dims[:first], dims[first:last], carried, lane)
    asked, fixed = operands[:first], operands[first:last]
    mask = [] if batcher.mask is None else [batcher.mask]
    inits = _starts(batcher, operands[last:], dims[last:], carried)
    operands = [*mask, *asked, *(mask if own.masked else ()), *(asked if own.asks else ()), *fixed]
    results = bind(
        eqn.primitive, *operands, *inits, condition=own.condition(), body=own.body(),
        condition_consts=len(mask) + len(asked),
        body_consts=len(operands) - len(mask) - len(asked),
    )  # fmt: skip
    return results, carried


@dataclasses.dataclass(frozen=True, slots=True)
class _WhileBody:
    """The two programs of a loop without a count, for a batch.

    Attributes:
        batcher: For which batch.
        asking: Condition for one element.
        step: Body for one element.
        asked: Which axis of each constant of the condition is the batch.
        fixed: The same of the body's constants.
        carried: The same of what is carried.
        lane: The same of what the condition gives.
    """

    batcher: Batcher
    asking: Jaxpr
    step: Jaxpr
    asked: Sequence[Dim]
    fixed: Sequence[Dim]
    carried: Sequence[Dim]
    lane: Dim

    @property
    def asks(self) -> bool:
        """Whether a step has to know which elements take it: a loop in it ends for those alone."""
        return self.lane is not None and may_not_end(self.step.eqns)

    @property
    def masked(self) -> bool:
        """Whether a step takes the mask."""
        return self.batcher.masks(self.step)

    def condition(self) -> Jaxpr:
        """Return the condition; with a mask it holds for no element that does not count."""
        masked = self.batcher.mask is not None

        def run(tracers: Sequence[Any]) -> list[Any]:
            return [self._holds(tracers[0] if masked else None, tracers[masked:])]

        inputs = self._avals(self.asking.in_avals, [*self.asked, *self.carried])
        return self.batcher.traced(run, inputs, self.asking, masked=masked)

    def body(self) -> Jaxpr:
        """Return the body."""
        dims = [*self.fixed, *self.carried]
        if not self.asks:
            return self.batcher.body(self.step, dims, self.carried, masked=self.masked)[0]
        count, size = len(self.asked), self.batcher.size

        def run(tracers: Sequence[Any]) -> list[Any]:
            mask, rest = (tracers[0], tracers[1:]) if self.masked else (None, tracers)
            state = rest[count + len(self.fixed) :]
            active = self._holds(mask, [*rest[:count], *state])
            others = tuple(range(1, abstractify(active).ndim))
            active = bind(reduce_any_p, active, axes=others) if others else active
            inner = type(self.batcher)(size, active)
            results, out = inner.run(self.step, rest[count:], dims)
            return [with_batch(x, dim, 0, size) for x, dim in zip(results, out, strict=True)]

        asked = self._avals(self.asking.in_avals, self.asked)
        inputs = [*asked, *self._avals(self.step.in_avals, dims)]
        return self.batcher.traced(run, inputs, self.step, masked=self.masked)

    def _holds(self, mask: Any, args: Sequence[Any]) -> Any:
        """Record whether to go on, with the batch as the first axis if it differs."""
        inner = type(self.batcher)(self.batcher.size, mask)
        (holds,), (dim,) = inner.run(self.asking, args, [*self.asked, *self.carried])
        holds = holds if dim is None else move_axis(holds, dim, 0)
        if mask is None:
            return holds
        if dim is None:
            return logical_and(holds, bind(reduce_any_p, mask, axes=(0,)))
        counts = bind(broadcast_in_dim_p, mask, shape=abstractify(holds).shape, dims=(0,))
        return logical_and(holds, counts)

    def _avals(self, avals: Sequence[ShapedArray], dims: Sequence[Dim]) -> list[ShapedArray]:
        return [self.batcher.aval(aval, dim) for aval, dim in zip(avals, dims, strict=False)]


def _starts(
    batcher: Batcher, inits: Sequence[Any], dims: Sequence[Dim], carried: Sequence[Dim]
) -> list[Any]:
    """Return first carries with the batch where the loop carries it."""
    rows = zip(inits, dims, carried, strict=True)
    return [x if at is None else with_batch(x, dim, at, batcher.size) for x, dim, at in rows]


def one_by_one(
    batcher: Batcher, eqn: JaxprEqn, operands: Sequence[Any], dims: Sequence[Dim]
) -> Batched:
    """Run an operation for one element after the other, in a loop over the batch."""
    fixed = [n for n, dim in enumerate(dims) if dim is None]
    order = [*fixed, *(n for n, dim in enumerate(dims) if dim is not None)]

    def step(tracers: Sequence[Any]) -> Sequence[Any]:
        given = dict(zip(order, tracers, strict=True))
        results = bind(eqn.primitive, *(given[n] for n in range(len(order))), **eqn.params)
        return results if eqn.primitive.multiple_results else (results,)

    avals = [eqn.invars[n].aval for n in order]
    jaxpr = trace_function(step, avals, [""] * len(avals), eqn.primitive.name, alone=True).jaxpr
    taken = [
        x if dim is None else move_axis(x, dim, 0)
        for x, dim in ((operands[n], dims[n]) for n in order)
    ]
    results = bind(
        scan_p, *taken, jaxpr=jaxpr, length=batcher.size, reverse=False, unroll=1,
        consts=len(fixed), carries=0,
    )  # fmt: skip
    return results, [0] * len(results)

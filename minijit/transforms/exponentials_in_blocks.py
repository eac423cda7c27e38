"""Sums of exponentials above a maximum in blocks: few long rows are read once for both.

A softmax needs the largest element of a row before it can sum exponentials. Few long rows are cut
into blocks that run in parallel, each reduction with a kernel for the blocks and one that joins
them, and the row is read again for each. But a sum above a block's own maximum ``p`` can be brought
to that above the maximum ``m`` of the row (Milakov and Gimelshein, "Online normalizer calculation
for softmax", 2018):

    exp(x - m) = exp(x - p) * exp(p - m)

So each block is read once, and both reductions take one kernel for blocks and one for rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minijit.graph.few_rows import FewRows
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Var
from minijit.graph.trace import bind
from minijit.ops.promote import broadcast_in_dim_p, convert
from minijit.ops.reduce import reduce_max_p, reduce_sum_p
from minijit.ops.select import where
from minijit.ops.shape import expand_dims
from minijit.ops.transcendental import exp
from minijit.transforms.blocks import Cut, added, cut_few_rows, in_blocks, made_of
from minijit.transforms.rewrite import rebuild, resolve, substituted
from minijit.transforms.simplify import simplify

__all__ = ["exponentials_in_blocks"]

_DTYPES = tuple(map(np.dtype, (np.float16, np.float32, np.float64)))
"""Of float16 what blocks have come to stays in float32 until it is added."""


def exponentials_in_blocks(jaxpr: Jaxpr, few: FewRows) -> Jaxpr:
    """Return ``jaxpr`` with sums of exponentials above the maxima of few long rows in blocks.

    Before: ``m = reduce_max x; s = reduce_sum (exp (sub x m))``; after: ``y = reshape x``,
    ``p = reduce_max y; q = reduce_sum (exp (sub y p))``, ``m = reduce_max p`` and
    ``s = reduce_sum (mul q (exp (sub p m)))``.

    Args:
        jaxpr: A program, simplified.
        few: Which rows are few and long.
    """
    sources: dict[Atom, JaxprEqn] = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
    sums: dict[JaxprEqn, tuple[JaxprEqn, Cut]] = {}
    for eqn in jaxpr.eqns:
        top = _maximum_below(eqn, sources)
        if top is not None and top not in sums:
            aval = top.invars[0].aval
            cut = cut_few_rows(aval, top.params["axes"], few) if aval.dtype in _DTYPES else None
            if cut is not None:
                sums[top] = eqn, cut
    if not sums:
        return jaxpr
    done: dict[Var, Atom] = {}
    second = {eqn for eqn, _ in sums.values()}
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        if eqn in sums:
            total, cut = sums[eqn]
            operands = tuple(resolve(atom, done) for atom in eqn.invars)
            made, results = made_of(total, _both(cut), operands)
            eqns += made
            done.update(zip((*eqn.outvars, *total.outvars), results, strict=True))
        elif eqn not in second:
            eqns.append(substituted(eqn, tuple(resolve(atom, done) for atom in eqn.invars)))
    return simplify(rebuild(jaxpr, eqns, done))


def _maximum_below(eqn: JaxprEqn, sources: Mapping[Atom, JaxprEqn]) -> JaxprEqn | None:
    """Return the maximum of rows if ``eqn`` sums the exponentials of what is above it."""
    if eqn.primitive is not reduce_sum_p:
        return None
    found = [eqn]
    for name in ("exp", "sub"):
        source = sources.get(found[-1].invars[0])
        if source is None or source.primitive.name != name:
            return None
        found.append(source)
    axes = eqn.params["axes"]
    x, shift = found[-1].invars
    # Which axes of the array those of the maximum are, after all that repeats it.
    places = list(range(len(x.aval.shape)))
    kept = [axis for axis in places if axis not in axes]
    while (source := sources.get(shift)) is not None and source.primitive is broadcast_in_dim_p:
        places = [places[dim] for dim in source.params["dims"]]
        (shift,) = source.invars
    fits = source is not None and source.primitive is reduce_max_p and source.invars[0] is x
    if source is None or not fits:
        return None
    return source if source.params["axes"] == axes and places == kept else None


def _both(cut: Cut) -> Callable[[Any], Sequence[Any]]:
    """Return a function of an array: maxima of rows, and the sums of exponentials above them."""

    def both(x: Any) -> Sequence[Any]:
        blocks = convert(in_blocks(x, cut, -np.inf), np.promote_types(x.dtype, np.float32))
        tops = bind(reduce_max_p, blocks, axes=cut.inner)
        # Where all of a block is -inf the difference would be NaN, though others may be finite.
        shift = where(tops == -np.inf, tops.dtype.type(0), tops)
        partial = bind(reduce_sum_p, exp(blocks - expand_dims(shift, cut.inner)), axes=cut.inner)
        top = bind(reduce_max_p, tops, axes=(cut.place,))
        share = exp(tops - expand_dims(top, (cut.place,)))
        total = added(partial * share, cut.place)
        return [convert(top, x.dtype), convert(total, x.dtype)]

    return both

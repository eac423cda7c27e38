"""Totals over rows that a scan only collects: a step reduces each row, what is left comes after."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from minijit.graph.aval import ShapedArray
from minijit.graph.jaxpr import Atom, Jaxpr, JaxprEqn, Literal, Var
from minijit.graph.primitive import Kind
from minijit.transforms.rewrite import with_bodies

__all__ = ["split_totals"]

_Row = tuple[tuple[int, ...], tuple[int, ...]]
"""The shape of an array of rows, and the axes along which one lies."""


def split_totals(jaxpr: Jaxpr) -> Jaxpr:
    """Return ``jaxpr`` with scans that reduce across rows no more, where nothing else needs it.

    Rows of what a step multiplies with a matrix, or reduces elsewhere, are independent of each
    other. A total of all of them would couple them at each step, so that no kernel could take
    different rows through all steps at once.

    Before: ``c, y = scan[...] a xs`` with ``y = reduce_sum[axes=(0, 1)] h`` in its body; after:
    ``c, p = scan[...] a xs; y = reduce_sum[axes=(1,)] p`` with ``p = reduce_sum[axes=(1,)] h``.
    """
    eqns: list[JaxprEqn] = []
    for eqn in jaxpr.eqns:
        eqn = with_bodies(eqn, split_totals)
        after: list[JaxprEqn] = []
        if eqn.primitive.name == "scan":
            for total, row in _totals(eqn):
                parts = _split(eqn, total, row)
                if parts is not None:
                    eqn, moved = parts
                    after = moved + after
        eqns += [eqn, *after]
    return dataclasses.replace(jaxpr, eqns=tuple(eqns))


def _totals(scan: JaxprEqn) -> list[tuple[JaxprEqn, _Row]]:
    """Return the reductions of a body that go on where a row of the body ends, with that row."""
    body: Jaxpr = scan.params["jaxpr"]
    rows = list(_rows(body, scan.params["consts"]))
    found = []
    for eqn in body.eqns:
        monoid = eqn.primitive.monoid
        if monoid is None or not monoid.is_fold or eqn.invars[0].aval.dtype == np.float16:
            continue
        own = set(eqn.params["axes"])
        inner = [row for row in rows if row[0] == eqn.invars[0].aval.shape and set(row[1]) < own]
        if inner:
            found.append((eqn, min(inner, key=lambda row: len(row[1]))))
    return found


def _rows(body: Jaxpr, consts: int) -> Iterator[_Row]:
    """Yield the rows that a body reduces, or multiplies with a matrix."""
    fixed: set[Atom] = set(body.invars[:consts])
    for eqn in body.eqns:
        if eqn.primitive.kind is Kind.VIEW and fixed.issuperset(eqn.invars):
            fixed.update(eqn.outvars)
        if eqn.primitive.kind is Kind.REDUCTION:
            yield eqn.invars[0].aval.shape, tuple(eqn.params["axes"])
        elif eqn.primitive.contraction is not None:
            left, right = eqn.invars
            if left not in fixed:
                yield left.aval.shape, (len(left.aval.shape) - 1,)
            if right not in fixed:
                yield right.aval.shape, (max(len(right.aval.shape) - 2, 0),)


def _split(scan: JaxprEqn, total: JaxprEqn, row: _Row) -> tuple[JaxprEqn, list[JaxprEqn]] | None:
    """Return the scan with rows reduced alone and what comes after it; None if a step needs it."""
    body: Jaxpr = scan.params["jaxpr"]
    carries, length = scan.params["carries"], scan.params["length"]
    late = _users(body, total)
    results = {var for eqn in late for var in eqn.outvars}
    gathered = [var for var in body.outvars[carries:] if var in results]
    if not late or len(gathered) != len(set(gathered)) or results & set(body.outvars[:carries]):
        return None
    consts = scan.invars[: scan.params["consts"]]
    outside: dict[Atom, Atom] = dict(zip(body.invars, consts, strict=False))

    def stacked(var: Var, shape: tuple[int, ...]) -> Var:
        return Var(ShapedArray((length, *shape), var.aval.dtype, var.aval.weak_type))

    shape, axes = row
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    partial = Var(ShapedArray(tuple(shape[a] for a in kept), total.outvars[0].aval.dtype))
    part = dataclasses.replace(total, outvars=(partial,), params={**total.params, "axes": axes})
    collected = stacked(partial, partial.aval.shape)
    rest = tuple(1 + n for n, axis in enumerate(kept) if axis in total.params["axes"])
    for inner, outer in zip(body.outvars[carries:], scan.outvars[carries:], strict=True):
        if inner in results:
            outside.setdefault(inner, outer)
    moved = []
    for eqn in late:
        (own,) = eqn.outvars
        outvar = outside.setdefault(own, stacked(own, own.aval.shape))
        assert isinstance(outvar, Var)
        if eqn is total:
            params = {**eqn.params, "axes": rest}
            moved.append(
                dataclasses.replace(eqn, invars=(collected,), outvars=(outvar,), params=params)
            )
            continue
        invars = tuple(outside.get(atom, atom) for atom in eqn.invars)
        for atom, old in zip(invars, eqn.invars, strict=True):
            known = isinstance(old, Literal) or old in outside
            if not known or (old in results and old.aval.shape != own.aval.shape):
                return None
            if old not in results and atom.aval.shape:
                return None
        moved.append(dataclasses.replace(eqn, invars=invars, outvars=(outvar,)))
    eqns = tuple(
        part if eqn is total else eqn for eqn in body.eqns if eqn is total or eqn not in late
    )
    stay = [n for n, var in enumerate(body.outvars) if n < carries or var not in results]
    body = dataclasses.replace(body, eqns=eqns, outvars=(*(body.outvars[n] for n in stay), partial))
    scan = dataclasses.replace(
        scan,
        outvars=(*(scan.outvars[n] for n in stay), collected),
        params={**scan.params, "jaxpr": body},
    )
    return scan, moved


def _users(body: Jaxpr, total: JaxprEqn) -> list[JaxprEqn]:
    """Return ``total`` and what is computed from it; nothing if that is not all elementwise."""
    known = set(total.outvars)
    found = [total]
    for eqn in body.eqns:
        if known.intersection(eqn.invars):
            if eqn.primitive.kind is not Kind.ELEMENTWISE:
                return []
            found.append(eqn)
            known.update(eqn.outvars)
    return found

"""Indices followed back from results to memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit.numpy as jnp
from minijit.graph.index import Affine, SplitDimension
from minijit.lowering.demand import Blocked, Demand, Program, Request, Space
from minijit.lowering.follow import follow
from tests.transforms.random_programs import trace

I0, I1 = Affine.dim(0, 2), Affine.dim(1, 2)


def demand_of(function: Any, *args: Any, columns: tuple[Affine, ...] = ()) -> tuple[Any, Demand]:
    jaxpr = trace(lambda *xs: [function(*xs)], args)
    program = Program(jaxpr)
    (result,) = jaxpr.outvars
    shape = result.aval.shape
    extents = shape if not columns else (*shape, *args[0].shape[len(shape) :])
    index = tuple(Affine.dim(d, n) for d, n in enumerate(shape))
    stored = frozenset(jaxpr.invars)
    return jaxpr, follow(program, [Request(result, index)], Space(extents, columns), stored)


def loaded(demand: Demand) -> list[tuple[str, tuple[str, ...], int]]:
    return [(r.var.name, tuple(map(str, r.index)), len(r.conditions)) for r in demand.loaded]


X = np.ones((4, 6))


def test_elementwise_reads_where_it_writes() -> None:
    _, demand = demand_of(lambda x, y: x * 2 + y, X, X)
    assert loaded(demand) == [("x1", ("i0", "i1"), 0), ("x0", ("i0", "i1"), 0)]


def test_one_value_at_two_places_is_two_requests() -> None:
    _, demand = demand_of(lambda x: x[1:] - x[:-1], X)
    assert {r[1] for r in loaded(demand)} == {("i0 + 1", "i1"), ("i0", "i1")}


def test_what_is_used_twice_at_one_place_is_asked_once() -> None:
    jaxpr, demand = demand_of(lambda x: jnp.exp(x) * jnp.exp(x), X)
    assert len(demand.loaded) == 1
    assert len(demand.computed) == len(jaxpr.eqns)


def test_computed_in_an_order_in_which_everything_is_known() -> None:
    jaxpr, demand = demand_of(lambda x: (x + 1) * (x - 1) + (x + 1).T.T, X)
    position = {v: n for n, eqn in enumerate(jaxpr.eqns) for v in eqn.outvars}
    order = [position[r.var] for r in demand.computed]
    assert order == sorted(order)


def test_unit_axes_need_no_dimension() -> None:
    _, demand = demand_of(lambda x, y: x + y, X, np.ones((4, 1)))
    assert ("x1", ("i0", "0"), 0) in loaded(demand)


def test_reductions_read_at_the_columns() -> None:
    _, demand = demand_of(lambda x: x.max(1), X, columns=(I1,))
    assert loaded(demand) == [("x0", ("i0", "i1"), 0)]


def test_parts_that_cannot_hold_are_not_asked_for() -> None:
    _, demand = demand_of(lambda x, y: jnp.concatenate([x, y])[:4], X, X)
    assert loaded(demand) == [("x0", ("i0", "i1"), 0)]
    _, demand = demand_of(lambda x, y: jnp.concatenate([x, y])[4:], X, X)
    assert loaded(demand) == [("x1", ("i0", "i1"), 0)]


def test_parts_are_read_under_conditions_also_the_last() -> None:
    _, demand = demand_of(lambda x, y: jnp.concatenate([x, y]), X, X)
    assert sorted(loaded(demand)) == [("x0", ("i0", "i1"), 1), ("x1", ("i0 - 4", "i1"), 1)]
    by_name = sorted(demand.loaded, key=lambda request: request.var.name)
    for request, rows in zip(by_name, ((0, 4), (4, 8)), strict=True):
        ((expression, low, high),) = request.conditions
        assert (low - expression.offset, high - expression.offset) == rows


def test_a_reshape_asks_for_a_split() -> None:
    with pytest.raises(SplitDimension) as caught:
        demand_of(lambda x: x.reshape(24) + 1, X)
    assert (caught.value.dim, caught.value.inner) == (0, 6)


def test_a_reshape_without_affine_index_is_blocked() -> None:
    with pytest.raises(Blocked) as caught:
        demand_of(lambda x: x.reshape(3, 8) + 1, X)
    assert caught.value.eqn.primitive.name == "reshape"


def test_splitting_a_dimension_renumbers_the_ones_behind() -> None:
    space, replaced = Space((6, 5), (I1,)).split(0, 3)
    assert space.extents == (2, 3, 5)
    assert space.columns == (Affine(0, ((2, 1),)),)
    assert replaced[0] == Affine(0, ((0, 3), (1, 1)))
    assert replaced[1] == Affine(0, ((2, 1),))

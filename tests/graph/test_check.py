"""The checker refuses every kind of malformed program, and names the line at fault."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.graph.aval import ShapedArray
from minijit.graph.check import JaxprTypeError, check_jaxpr
from minijit.graph.jaxpr import Jaxpr, Literal, Var

X = np.ones((3,), np.float32)


@pytest.fixture
def jaxpr() -> Jaxpr:
    captured = np.ones(3, np.float32)
    result = minijit.make_jaxpr(lambda x: (x + captured) * 2.0)(X)
    check_jaxpr(result)
    assert len(result.eqns) == 2
    return result


def with_eqn(jaxpr: Jaxpr, position: int, **fields: Any) -> Jaxpr:
    eqns = list(jaxpr.eqns)
    eqns[position] = dataclasses.replace(eqns[position], **fields)
    return dataclasses.replace(jaxpr, eqns=tuple(eqns))


def refuse(jaxpr: Jaxpr, message: str) -> None:
    with pytest.raises(JaxprTypeError, match=message):
        check_jaxpr(jaxpr)


def test_constants_without_values(jaxpr: Jaxpr) -> None:
    refuse(dataclasses.replace(jaxpr, consts=()), "1 constvars but 0 consts")


def test_inputs_twice(jaxpr: Jaxpr) -> None:
    refuse(dataclasses.replace(jaxpr, invars=jaxpr.invars * 2), "appears twice")
    refuse(dataclasses.replace(jaxpr, invars=jaxpr.constvars), "appears twice")


def test_use_before_definition(jaxpr: Jaxpr) -> None:
    refuse(
        dataclasses.replace(jaxpr, eqns=jaxpr.eqns[::-1]),
        r"used before it is defined:\n.*# test_check.py",
    )


def test_result_that_nothing_defines(jaxpr: Jaxpr) -> None:
    stranger = Var(ShapedArray((3,), np.dtype(np.float32)))
    refuse(dataclasses.replace(jaxpr, outvars=(stranger,)), r"type f32\[3\] is never defined")


def test_two_definitions(jaxpr: Jaxpr) -> None:
    refuse(with_eqn(jaxpr, 1, outvars=jaxpr.eqns[0].outvars), "defined twice")
    refuse(with_eqn(jaxpr, 0, outvars=jaxpr.invars), "defined twice")


def test_a_type_that_is_not_the_rules(jaxpr: Jaxpr) -> None:
    wrong = Var(ShapedArray((3,), np.dtype(np.float64)))
    changed = with_eqn(jaxpr, 1, outvars=(wrong,))
    refuse(dataclasses.replace(changed, outvars=(wrong,)), r"the rule of mul gives f32\[3\]")


def test_a_literal_that_is_not_what_it_says(jaxpr: Jaxpr) -> None:
    aval = ShapedArray((), np.dtype(np.float32))
    operand = jaxpr.eqns[1].invars[0]
    refuse(with_eqn(jaxpr, 1, invars=(operand, Literal(2.0, aval))), "literal")
    refuse(with_eqn(jaxpr, 1, invars=(operand, Literal(np.float64(2), aval))), "literal")


def test_programs_inside(jaxpr: Jaxpr) -> None:
    inner = minijit.jit(lambda v: v + 1)
    outer = minijit.make_jaxpr(lambda x: inner(x))(X)
    check_jaxpr(outer)
    called = outer.eqns[0].params["jaxpr"]
    broken = dataclasses.replace(called, eqns=())
    params = {**outer.eqns[0].params, "jaxpr": broken}
    refuse(with_eqn(outer, 0, params=params), "never defined in '<lambda>'")


def test_weakness_may_be_lost_by_a_rewrite(jaxpr: Jaxpr) -> None:
    weak = Var(ShapedArray((3,), np.dtype(np.float32), weak_type=True))
    changed = with_eqn(jaxpr, 1, outvars=(weak,))
    check_jaxpr(dataclasses.replace(changed, outvars=(weak,)))

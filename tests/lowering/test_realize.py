"""Which values get a definition of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import minijit.numpy as jnp
from minijit.lowering.demand import Program
from minijit.lowering.realize import realize
from minijit.runtime.pipeline import optimize
from tests.transforms.random_programs import trace

X = np.ones((8, 8), np.float32)
WIDE = np.ones((4096, 64), np.float32)


def realized(function: Callable[..., list[Any]], *args: Any) -> tuple[list[str], list[str]]:
    """The primitives that define nodes, and those that the array library runs."""
    program = Program(optimize(trace(function, args)))
    result = realize(program, frozenset())
    defined = [program.definition(var) for var in result.nodes]
    eager = [program.jaxpr.eqns[position] for position in sorted(result.eager)]
    return [e.primitive.name for e in defined if e], [e.primitive.name for e in eager]


def test_results_and_reductions_are_nodes_the_rest_is_inlined() -> None:
    nodes, eager = realized(lambda x: [jnp.exp(x * 2) - 1, (x + 1).max(0)], X)
    assert nodes == ["sub", "reduce_max"]
    assert not eager


def test_cheap_values_are_computed_by_each_reader_costly_ones_once() -> None:
    cheap, _ = realized(lambda x: (lambda y: [y.sum(0), y.max(1)])(x + 1), X)
    assert "add" not in cheap
    costly, _ = realized(lambda x: (lambda y: [y.sum(0), y.max(1)])(jnp.exp(jnp.sin(x))), X)
    assert "exp" in costly


def test_a_view_is_never_a_node_but_its_readers_are_counted() -> None:
    nodes, _ = realized(lambda x: (lambda y: [y.T.sum(0), y.max(0)])(jnp.exp(jnp.sin(x))), X)
    assert "exp" in nodes
    assert "transpose" not in nodes


def test_costly_values_that_broadcasting_repeats_are_nodes() -> None:
    def scaled(x: Any) -> list[Any]:
        return [x * jnp.exp(jnp.sin(x[:, :1]))]

    nodes, _ = realized(scaled, WIDE)
    assert "exp" in nodes
    small, _ = realized(scaled, X)
    assert "exp" not in small


def test_the_array_library_gets_stored_operands() -> None:
    nodes, eager = realized(lambda x: [jnp.tanh((x + 1) @ x.T)], X)
    assert nodes == ["add", "tanh"]
    assert len(eager) == 1


def test_empty_arrays_are_left_to_the_array_library() -> None:
    nodes, eager = realized(lambda x: [x * 2, jnp.exp(x)], np.ones((0, 3), np.float32))
    assert nodes == []
    assert eager == ["mul", "exp"]

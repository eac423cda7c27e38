"""Recording: captures, nesting, leaks, threads, and a state that every exception leaves clean."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit.graph.aval import ShapedArray
from minijit.graph.check import check_jaxpr
from minijit.graph.errors import UnexpectedTracerError
from minijit.graph.primitive import find_primitive
from minijit.graph.trace import Traced, bind, current_trace, trace_function

AVAL = ShapedArray((3,), np.dtype(np.float32))
X = np.arange(3, dtype=np.float32)


def traced(function: Any, **options: Any) -> Traced:
    return trace_function(lambda ts: [function(*ts)], [AVAL], ["x"], "f", **options)


def test_outside_of_tracing_operations_run_at_once() -> None:
    assert current_trace() is None
    np.testing.assert_array_equal(bind(find_primitive("add"), X, X), X + X)


def test_scalars_become_literals_and_arrays_hidden_inputs() -> None:
    weights = np.ones(3, np.float32)
    jaxpr = traced(lambda x: x * weights + 2.0 + weights).jaxpr
    check_jaxpr(jaxpr)
    assert jaxpr.consts == (weights,)
    assert jaxpr.consts[0] is weights  # no copy
    assert len(jaxpr.invars) == 1


def test_a_nested_trace_captures_what_encloses_it() -> None:
    weights = np.ones(3, np.float32)
    inner: list[Traced] = []

    def outer(x: Any) -> Any:
        y = x * 2
        inner.append(traced(lambda v: v + y + weights))
        return y

    traced(outer)
    (found,) = inner
    assert len(found.captures) == 2
    assert found.captures[1] is weights
    assert len(found.jaxpr.invars) == 3  # the captured values first
    assert not found.jaxpr.constvars
    check_jaxpr(found.jaxpr)


def test_a_trace_alone_does_not_see_the_one_around_it() -> None:
    weights = np.ones(3, np.float32)
    inner: list[Traced] = []
    traced(lambda x: inner.append(traced(lambda v: v + weights, alone=True)) or x)
    assert len(inner[0].jaxpr.invars) == 1
    assert inner[0].jaxpr.consts == (weights,)

    def captures(x: Any) -> Any:
        return traced(lambda v: v + x, alone=True)

    with pytest.raises(UnexpectedTracerError):
        traced(captures)


def test_leaks_name_the_line_that_made_and_the_line_that_used_them() -> None:
    kept: list[Any] = []

    def leaky(x: Any) -> Any:
        kept.append(x * 2)
        return x

    trace_function(lambda ts: [leaky(*ts)], [AVAL], ["x"], "leaky")
    made = leaky.__code__.co_firstlineno + 1
    uses = (
        lambda: kept[0] + 1,
        lambda: jnp.sum(kept[0]),
        lambda: traced(lambda v: v + kept[0]),
        lambda: traced(lambda v: kept[0]),
        lambda: minijit.jit(lambda v: v)(kept[0]),
    )
    for use in uses:
        with pytest.raises(UnexpectedTracerError) as caught:
            use()
        text = str(caught.value)
        assert f"test_trace.py:{made} (leaky)" in text
        assert "used at test_trace.py:" in text
        assert "'leaky'" in text
        assert "return it from the function" in text
    assert current_trace() is None


def test_values_of_a_finished_inner_trace_have_leaked_too() -> None:
    kept: list[Any] = []

    def outer(x: Any) -> Any:
        traced(lambda v: kept.append(v + 1) or v)
        return x + kept[0]

    with pytest.raises(UnexpectedTracerError):
        traced(outer)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_exceptions_restore_every_level(depth: int) -> None:
    class Mine(Exception):
        pass

    def nest(x: Any, level: int) -> Any:
        if level == 0:
            raise Mine
        return traced(lambda v: nest(v, level - 1))

    with pytest.raises(Mine):
        nest(X, depth)
    assert current_trace() is None


def test_an_inner_exception_that_is_caught_leaves_the_outer_trace_in_charge() -> None:
    def bad(v: Any) -> Any:
        raise ValueError

    def outer(x: Any) -> Any:
        try:
            traced(bad)
        except ValueError:
            return x + 1
        raise AssertionError

    assert [eqn.primitive.name for eqn in traced(outer).jaxpr.eqns] == ["add"]


def test_results_must_be_arrays() -> None:
    with pytest.raises(TypeError, match=r"'f' returned 'text': .* is not an array"):
        traced(lambda x: "text")


def test_threads_trace_independently() -> None:
    barrier, failures = threading.Barrier(4), []

    def work(number: int) -> None:
        def function(x: Any) -> Any:
            for _ in range(50):
                barrier.wait(20)
                x = x + number
            return x

        try:
            jaxpr = traced(function).jaxpr
            assert len(jaxpr.eqns) == 50
            values = {float(eqn.invars[1].value) for eqn in jaxpr.eqns}
            assert values == {float(number)}
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


def test_a_tracer_of_another_thread_is_refused() -> None:
    caught: list[BaseException] = []

    def outer(x: Any) -> Any:
        def use() -> None:
            try:
                jnp.exp(x)
            except UnexpectedTracerError as error:
                caught.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join(20)
        return x

    traced(outer)
    assert len(caught) == 1

"""Jitted functions inside jitted functions, recursion, threads, and failures that leave nothing."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit.graph.trace import current_trace
from minijit.runtime import pipeline
from tests.conftest import Device

X = np.arange(6, dtype=np.float32)


def test_equal_inner_calls_are_traced_once(device: Device) -> None:
    traces: list[tuple[int, ...]] = []

    @minijit.jit
    def inner(v: Any) -> Any:
        traces.append(v.shape)
        return v * 2

    outer = minijit.jit(lambda x: inner(x) + inner(x + 1) + inner(inner(x)) + inner(x[:1]))
    np.testing.assert_array_equal(
        device.get(outer(device.put(X))), X * 2 + (X + 1) * 2 + X * 4 + X[:1] * 2
    )
    assert traces == [(6,), (1,)]


def test_a_call_inside_is_part_of_the_kernel_around_it(
    device: Device, counts: Counter[str]
) -> None:
    inner = minijit.jit(lambda v: jnp.exp(v))
    outer = minijit.jit(lambda x: inner(x) * inner(-x) + 1)
    outer(device.put(X))
    assert counts["launch"] == 1
    assert inner._cache_size() == 0


def test_inner_functions_may_use_outer_values(device: Device) -> None:
    def outer(x: Any, scale: Any) -> Any:
        y = x * scale
        inner = minijit.jit(lambda v: v + y)
        return inner(x) + inner(y)

    f = minijit.jit(outer)
    for scale in (2.0, 3.0):
        np.testing.assert_array_equal(
            device.get(f(device.put(X), scale)), (X + X * scale) + (X * scale + X * scale)
        )


def test_an_outer_value_that_comes_by_a_list_belongs_to_its_trace(device: Device) -> None:
    box: list[Any] = [None]
    inner = minijit.jit(lambda v: v + box[0])

    def outer(x: Any) -> Any:
        box[0] = x * 2
        return inner(x)

    f = minijit.jit(outer)
    for _ in range(2):
        np.testing.assert_array_equal(device.get(f(device.put(X))), X * 3)
        f.clear_cache()  # traced again, with the same signature


def test_inner_programs_are_bounded(device: Device) -> None:
    inner = minijit.jit(lambda v: v * 2)
    outer = minijit.jit(lambda x: [inner(x[:n]) for n in (1, 2, 3, 4)])
    with minijit.config.override(cache_entries=2):
        outer(device.put(X))
        assert len(inner._cache._inner) == 2


def test_statics_and_scalars_pass_through(device: Device) -> None:
    inner = minijit.jit(lambda v, n, s: v[:n] * s, static_argnums=1)
    outer = minijit.jit(lambda x, n, s: inner(x, n, s) + inner(x, n, s=2.0), static_argnums=1)
    for n in (2, 3):
        np.testing.assert_array_equal(
            device.get(outer(device.put(X), n, 3.0)), X[:n] * 3 + X[:n] * 2
        )


def test_recursion_over_a_static_number(device: Device) -> None:
    def power(x: Any, n: int) -> Any:
        return x * recurse(x, n - 1) if n else x * 0 + 1

    recurse = minijit.jit(power, static_argnums=1)
    np.testing.assert_array_equal(device.get(recurse(device.put(X), 5)), X**5)


def test_endless_recursion_is_pythons_error_and_leaves_nothing(device: Device) -> None:
    def endless(x: Any) -> Any:
        return again(x)

    again = minijit.jit(endless)
    with pytest.raises(RecursionError):
        again(device.put(X))
    assert current_trace() is None
    assert again._cache_size() == 0


def test_looking_at_another_function_while_tracing_leaves_it_whole(device: Device) -> None:
    weights = device.put(np.ones(6, np.float32))
    other = minijit.jit(lambda v: v + weights)

    def f(x: Any) -> Any:
        other.lower(x)
        minijit.eval_shape(other, x)
        return x * 2

    np.testing.assert_array_equal(device.get(minijit.jit(f)(device.put(X))), X * 2)
    np.testing.assert_array_equal(device.get(other(device.put(X))), X + 1)


def test_a_leaked_argument_spoils_nothing(device: Device) -> None:
    weights, kept = device.put(X + 1), []
    minijit.jit(lambda x: kept.append(x) or x)(device.put(X))
    inner = minijit.jit(lambda v: v + weights)
    with pytest.raises(minijit.UnexpectedTracerError):
        inner(kept[0])
    outer = minijit.jit(lambda x: inner(x) * 2)
    np.testing.assert_array_equal(device.get(outer(device.put(X))), (X + X + 1) * 2)


class Mine(Exception):
    pass


def test_a_failed_trace_leaves_nothing(device: Device, counts: Counter[str]) -> None:
    failing = [True]

    def f(x: Any) -> Any:
        y = minijit.jit(lambda v: v + 1)(x)
        if failing[0]:
            raise Mine("on purpose")
        return y * 2

    g = minijit.jit(f)
    for _ in range(2):
        with pytest.raises(Mine, match="on purpose"):
            g(device.put(X))
        assert (g._cache_size(), current_trace()) == (0, None)
    failing[0] = False
    np.testing.assert_array_equal(device.get(g(device.put(X))), (X + 1) * 2)
    assert (g._cache_size(), counts["launch"]) == (1, 1)


def test_a_failure_for_one_signature_keeps_the_others(device: Device) -> None:
    def f(x: Any) -> Any:
        if x.shape[0] == 3:
            raise Mine
        return x.sum()

    g = minijit.jit(f)
    assert device.get(g(device.put(X))) == 15
    with pytest.raises(Mine):
        g(device.put(X[:3].copy()))
    assert device.get(g(device.put(X))) == 15
    assert g._cache_size() == 1


def test_a_failed_compile_leaves_nothing(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise Mine

    f = minijit.jit(lambda x: x + 1)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "compile_plan", broken)
        for _ in range(2):
            with pytest.raises(Mine):
                f(device.put(X))
            assert f._cache_size() == 0
    np.testing.assert_array_equal(device.get(f(device.put(X))), X + 1)


def in_threads(count: int, work: Any) -> None:
    barrier, failures = threading.Barrier(count), []

    def run(number: int) -> None:
        try:
            barrier.wait(30)
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


def test_threads_share_one_trace_and_one_compile(device: Device, counts: Counter[str]) -> None:
    f = minijit.jit(lambda x: (x * 2, x.sum()))

    def work(number: int) -> None:
        with minijit.default_device(device.name):
            doubled, total = device.get(f(device.put(np.full(50, number, np.float32))))
        assert (doubled == 2 * number).all()
        assert total == 50 * number

    in_threads(8, work)
    assert (counts["trace"], counts["program"], f._cache_size()) == (1, 1, 1)


def test_threads_with_many_signatures_and_a_small_cache(device: Device) -> None:
    f = minijit.jit(lambda x: (x * 2).sum())

    def work(number: int) -> None:
        for _ in range(10):
            for n in (3, 5, 8):
                assert device.get(f(device.put(np.full(n, number, np.float32)))) == 2 * n * number

    with minijit.config.override(cache_entries=2):
        in_threads(6, work)
        assert f._cache_size() <= 2


def test_disabling_jit_is_for_one_thread_and_one_block(device: Device) -> None:
    seen: list[float] = []
    f = minijit.jit(lambda x: (seen.append(float(x[0])), x * 2)[1])
    with minijit.disable_jit():
        np.testing.assert_array_equal(device.get(f(device.put(X + 3))), (X + 3) * 2)
        with minijit.disable_jit(False):
            f(device.put(X))
    assert seen == [3, 0]
    assert f._cache_size() == 0
    with pytest.raises(minijit.ConcretizationTypeError):
        f(device.put(X))
    with pytest.raises(Mine), minijit.disable_jit():
        raise Mine
    with pytest.raises(minijit.ConcretizationTypeError):
        f(device.put(X))

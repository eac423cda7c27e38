"""What is counted, announced and allocated where the host drives loops and branches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.backends.registry import get_backend
from minijit.graph import events
from tests.conftest import Device
from tests.runtime.host_programs import f32, rnn


def test_loops_and_their_steps_are_announced(device: Device) -> None:
    seen: list[int] = []

    def listen(event: str, data: dict[str, Any]) -> None:
        if event == "host_loop":
            seen.append(data["steps"])

    scan = minijit.jit(rnn)
    until = minijit.jit(lambda x: lax.while_loop(lambda v: v[0] < 3, lambda v: jnp.roll(v, 1), x))
    with events.subscribe(listen):
        scan(device.put(f32(3, 4)), device.put(f32(4, 4)), device.put(f32(6, 3, 4)))
        until(device.put(np.array([0, 5, 1, 2], np.float32)))
        until(device.put(np.array([9, 5, 1, 2], np.float32)))
    assert seen == [6, 3, 0]


def test_steps_allocate_nothing(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Counter[tuple[int, ...]]()
    backend = get_backend(device.name)
    original = backend.allocator

    def allocator(shape: Any, dtype: Any) -> Callable[[], Any]:
        allocate = original(shape, dtype)

        def counted() -> Any:
            made[tuple(shape)] += 1
            return allocate()

        return counted

    def f(h: Any, v: Any, w: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            wide = jnp.tanh(jnp.roll(c, 1, 0) @ v)
            return jnp.roll(wide @ w, 1, 1) + x, wide.sum()

        return lax.scan(step, h, xs)

    monkeypatch.setattr(backend, "allocator", allocator)
    jitted = minijit.jit(f)
    for count in (4, 40):
        shapes = ((3, 4), (4, 9), (9, 4), (count, 3, 4))
        args = [device.put(f32(*shape)) for shape in shapes]
        jitted(*args)
        made.clear()
        jitted(*args)
        assert (made.pop((count,)), made.pop((count, 3))) == (1, 1)
        # Two for the carry, one for what the library reads, and one for its product before the
        # last roll; steps of even and of odd number share what lies between.
        assert made == {(3, 4): 4, (3, 9): 2}


def test_nan_is_found_among_results_only(device: Device) -> None:
    def f(x: Any) -> Any:
        def step(c: Any, _: None) -> Any:
            masked = lax.cond(c[0] > 0, lambda v: jnp.log(-v @ v), lambda v: v @ v, c)
            return jnp.roll(c, 1) + jnp.where(jnp.isnan(masked), 0, masked), None

        return lax.scan(step, x, None, length=3)[0]

    def bad(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, v: jnp.log(jnp.roll(v, 1) - 5), x)

    x = device.put(np.full(3, 2, np.float32))
    with minijit.config.override(debug_nans=True):
        minijit.jit(f)(x)
        with pytest.raises(FloatingPointError, match="result 0 of 'bad' holds NaN"):
            minijit.jit(bad)(x)
    assert np.isnan(device.get(minijit.jit(bad)(x))).all()


def test_stats_and_kernels_show_what_bodies_consist_of(device: Device) -> None:
    def f(flag: Any, h: Any, w: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = lax.cond(flag, lambda v: jnp.tanh(v @ w), lambda v: v[::-1] @ w, c)
            return c + x, c.sum()

        return lax.scan(step, h, xs)

    jitted = minijit.jit(f)
    args = [np.bool_(True), *map(device.put, (f32(3), f32(3, 3), f32(5, 3)))]
    jitted(*args)
    stats = jitted.stats()
    assert (stats["host_loops"], stats["host_branches"], stats["plans"]) == (1, 1, 1)
    assert stats["eager_steps"] >= 2
    compiled = jitted.lower(*args).compile()
    kernels = compiled.kernels()
    assert len(kernels) == stats["kernels"] >= 2
    assert all(kernel.source in compiled.as_text().replace("\n    ", "\n") for kernel in kernels)
    assert any("tanh" in kernel.ir for kernel in kernels)
    costs = compiled.cost_analysis()
    assert costs["kernels"] == stats["kernels"]

    longer = [*args[:3], device.put(f32(50, 3))]
    more = jitted.lower(*longer).compile().cost_analysis()
    assert more["bytes accessed"] == 10 * costs["bytes accessed"] > 0
    assert more["flops"] >= 9 * costs["flops"] > 0


def test_kernels_that_hold_their_loop_count_as_kernels(device: Device) -> None:
    f = minijit.jit(lambda x: lax.fori_loop(0, 9, lambda i, v: v * 0.5 + i, x))
    x = device.put(f32(7))
    f(x)
    stats = f.stats()
    assert (stats["kernels"], stats["host_loops"], stats["host_branches"]) == (1, 0, 0)
    few, many = (
        minijit.jit(lambda x, n=n: lax.fori_loop(0, n, lambda i, v: jnp.sin(v), x))
        .lower(x)
        .compile()
        .cost_analysis()
        for n in (10, 1000)
    )
    assert many["flops"] >= 90 * few["flops"] > 0

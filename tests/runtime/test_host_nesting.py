"""Loops and branches in each other, at least one of them driven by the host."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.graph import events
from tests.conftest import Device
from tests.runtime.host_programs import check, f32
from tests.sampling import paired


def test_a_loop_in_a_loop(device: Device) -> None:
    def f(x: Any, xs: Any) -> Any:
        def inner(c: Any, row: Any) -> Any:
            c = jnp.roll(c, 1) + row
            return c, c

        def outer(c: Any, rows: Any) -> Any:
            c, ys = lax.scan(inner, c, rows)
            c, zs = lax.scan(inner, c[::-1], rows, reverse=True)
            return c, (ys, zs.sum())

        return lax.scan(outer, x, xs)

    check(device, f, f32(4), f32(3, 2, 4), loops=3)


def test_a_while_loop_in_a_scan(device: Device) -> None:
    def f(xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            v = lax.while_loop(lambda v: (v * v).sum() < 50, lambda v: v @ v.T + 1, x)
            return c + v, v

        return lax.scan(step, jnp.zeros((3, 3), np.float32), xs)

    check(device, f, f32(3, 3, 3), loops=2, tolerance=1e-4)


def shifted(x: Any, steps: int = 3) -> Any:
    return lax.fori_loop(0, steps, lambda i, v: jnp.roll(v, 1) + 1, x)


@pytest.mark.parametrize(("n", "kind"), paired([-3, 0, 1, 2, 9], [np.int32, np.int64, np.array]))
def test_a_loop_in_a_branch(n: int, kind: Any, device: Device) -> None:
    """An index beyond the branches is the nearest one."""

    def f(n: Any, x: Any, w: Any) -> Any:
        branches = [shifted, lambda v: v @ w, lambda v: v]
        return lax.switch(n, branches, x), x + 1

    check(device, f, device.put(kind(n)), f32(3), f32(3, 3), loops=1, branches=1)


def test_a_branch_in_a_loop(device: Device) -> None:
    def f(flags: Any, x: Any, w: Any) -> Any:
        def step(c: Any, flag: Any) -> Any:
            c = lax.cond(flag, lambda v: v @ w, lambda v: v[::-1] * 2, c)
            return c, c.sum()

        return lax.scan(step, x, flags)

    flags = np.array([True, False, False, True, True])
    check(device, f, flags, f32(3), f32(3, 3), branches=1)
    check(device, f, flags.astype(np.int32) * 3, f32(3), f32(3, 3), branches=1)


def test_results_of_branches_are_arrays_of_their_own(device: Device) -> None:
    def f(flag: Any, x: Any, w: Any) -> Any:
        taken = lax.cond(flag, lambda v: (v @ w, v, v.T, 1.0), lambda v: (v, v, v, 2.0), x)
        return taken, x

    for flag in (True, False):
        check(device, f, np.bool_(flag), f32(3, 3), f32(3, 3), loops=0, branches=1)


def test_only_the_branch_that_is_taken_runs(device: Device) -> None:
    def f(flag: Any, x: Any) -> Any:
        return lax.cond(flag, lambda v: v @ v @ v, lambda v: v[::-1] @ v, x)

    ran = Counter[str]()

    def listen(event: str, data: dict[str, Any]) -> None:
        ran[data.get("primitive", event)] += 1

    jitted = minijit.jit(f)
    x = device.put(f32(3, 3))
    jitted(np.bool_(True), x)
    for flag, products in ((True, 2), (False, 1)):
        ran.clear()
        with events.subscribe(listen):
            jitted(np.bool_(flag), x)
        assert (ran["matmul"], ran["host_branch"]) == (products, 1)

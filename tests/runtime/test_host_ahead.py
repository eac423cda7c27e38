"""While loops whose steps are launched before it is known whether they are due."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.backends.registry import get_backend
from minijit.debug import explain_fusion
from tests.conftest import Device, on_each_device
from tests.runtime.host_programs import check


def turned(x: Any, count: Any) -> Any:
    """Carries of which one is coupled, one counts, and one is what the other was a step before."""

    def step(state: Any) -> Any:
        v, _, n = state
        return jnp.roll(v, 1) * 0.5 + n, v, n + 1

    return lax.while_loop(lambda state: state[2] < count, step, (x, x, np.float32(0)))


def expected_reads(device: Device, steps: int) -> int:
    """That of the first condition, then those of 1, 2, 4, ... steps, as many as the device has."""
    reads, launched, due = 1, 0, 1
    while launched < steps:
        reads, launched = reads + 1, launched + due
        due = min(2 * due, get_backend(device.name).steps_ahead)
    return reads


STEPS = (0, 1, 2, 3, 6, 7, 8, 14, 15, 16, 17, 30)


@on_each_device("steps", STEPS, emulated=[0, 1, 7, 16])
def test_carries_are_those_of_the_last_step(steps: int, device: Device) -> None:
    x = np.arange(6, dtype=np.float32)
    check(device, turned, x, np.float32(steps), tolerance=0)


def test_results_are_the_bits_of_steps_one_by_one(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = device.put(np.random.default_rng(3).standard_normal(9).astype(np.float32))
    backend = get_backend(device.name)
    # With a cache each: how far a program goes ahead is decided when it is made.
    several, single = (minijit.jit(lambda *a: turned(*a)) for _ in range(2))
    for steps in STEPS:
        ahead = device.get(several(x, np.float32(steps)))
        with monkeypatch.context() as patch:
            patch.setattr(backend, "steps_ahead", 1)
            alone = device.get(single(x, np.float32(steps)))
        for one, other in zip(ahead, alone, strict=True):
            assert one.tobytes() == other.tobytes()


def test_the_host_reads_conditions_of_several_steps_at_once(device: Device) -> None:
    jitted = minijit.jit(lambda *a: turned(*a))  # with a cache of its own
    x = device.put(np.arange(6, dtype=np.float32))
    steps = reads = 0
    for count in STEPS:
        jitted(x, np.float32(count))
        steps, reads = steps + count, reads + expected_reads(device, count)
        stats = jitted.stats()
        assert (stats["host_steps"], stats["host_reads"]) == (steps, reads)


def test_a_loop_that_may_not_end_is_not_run_beyond_the_end(device: Device) -> None:
    """With the state after the last step the inner loop would go on for ever."""

    def f(x: Any) -> Any:
        def step(v: Any) -> Any:
            inner = lax.while_loop(lambda n: n != 0, lambda n: n - jnp.sign(v[0]), v[0])
            return jnp.roll(v, -1) + inner

        return lax.while_loop(lambda v: v[0] > 0, step, x)

    x = np.array([3, 2, 1, -1], np.float32)
    check(device, f, x, tolerance=0)
    jitted = minijit.jit(f)
    jitted(device.put(x))
    assert jitted.stats()["host_steps"] == 3
    assert jitted.stats()["host_reads"] == 4
    if get_backend(device.name).steps_ahead > 1:
        (loop,) = explain_fusion(f, device.put(x)).loops
        assert loop.how.endswith(
            "; its condition is read at each step, there is a while loop inside"
        )


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (1 << 10, "its condition is read every 8 steps"),
        (1 << 22, "its condition is read every 2 steps"),
        (1 << 23, "its condition is read at each step"),
    ],
)
def test_costly_steps_are_not_risked(size: int, told: str) -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda v: v[0] > 0, lambda v: v[::-1] - 1, x)

    struct = minijit.ShapeDtypeStruct((size,), np.dtype(np.float32))
    with minijit.default_device("cuda-emulated"):
        (loop,) = explain_fusion(f, struct).loops
    assert loop.how.endswith(f"; {told}")
    (loop,) = explain_fusion(f, struct).loops
    assert ";" not in loop.how  # a CPU's launches are done when they return

"""Loops whose steps are captured into graphs and replayed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.backends.registry import get_backend
from minijit.debug import explain_fusion
from minijit.graph import events
from tests.conftest import Device, on_each_device
from tests.runtime.host_programs import check, f32, rnn, rolled


def normalised(x: Any, steps: int) -> Any:
    """Kernels of different shapes, and carries that change places."""

    def step(_: Any, state: Any) -> Any:
        v, before = state
        v = jnp.roll(v, 1, 1)
        v = jnp.roll(v / jnp.abs(v).sum(axis=0), 1, 0)
        return before, v

    return lax.fori_loop(0, steps, step, (x, x[::-1]))


def captures(device: Device) -> bool:
    return get_backend(device.name).graph_launches > 0


GRAPHS = {65: 0, 66: 4, 67: 4, 81: 4, 82: 4, 100: 4, 259: 4, 322: 5}


@on_each_device("steps", GRAPHS, emulated=[65, 66, 82, 322])
def test_numbers_of_steps(steps: int, device: Device) -> None:
    jitted = minijit.jit(lambda x: rolled(x, steps))
    x = f32(6)
    result = device.get(jitted(device.put(x)))
    with minijit.disable_jit():
        np.testing.assert_allclose(result, rolled(x, steps), rtol=1e-5, atol=1e-6)
    stats = jitted.stats()
    assert stats["host_steps"] == steps
    assert stats["graph_launches"] == (GRAPHS[steps] if captures(device) else 0)
    assert stats["host_reads"] == 0


def test_results_are_the_bits_of_single_launches(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = device.put(f32(5, 6))
    backend = get_backend(device.name)
    for program in (lambda v: rolled(v, 71), lambda v: normalised(v, 43)):
        graphs = minijit.jit(lambda v, program=program: program(v))
        with_graphs = device.get(graphs(x))
        assert (graphs.stats()["graph_launches"] > 0) == captures(device)
        with monkeypatch.context() as patch:
            patch.setattr(backend, "graph_launches", 0)
            plain = minijit.jit(lambda v, program=program: program(v))
            without = device.get(plain(x))
            assert plain.stats()["graph_launches"] == 0
        leaves = zip(_leaves(with_graphs), _leaves(without), strict=True)
        assert all(one.tobytes() == other.tobytes() for one, other in leaves)


def _leaves(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def test_memory_is_respected(device: Device) -> None:
    check(device, lambda x: normalised(x, 43), f32(3, 4), tolerance=1e-4)


def test_views_that_are_not_aligned(device: Device) -> None:
    check(device, lambda x: rolled(x, 66), f32(40)[1:34], tolerance=1e-4)


def test_a_graph_in_a_loop_of_single_steps(device: Device) -> None:
    def f(xs: Any, w: Any) -> Any:
        return lax.scan(lambda c, x: (rolled(c @ w, 66) + x, None), xs[0], xs)[0]

    jitted = minijit.jit(f)
    xs, w = f32(3, 4), f32(4, 4)
    with minijit.disable_jit():
        wanted = f(xs, w)
    result = device.get(jitted(device.put(xs), device.put(w)))
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
    stats = jitted.stats()
    assert (stats["host_loops"], stats["host_steps"]) == (2, 3 * (1 + 66))
    assert stats["graph_launches"] == (3 * 4 if captures(device) else 0)


def test_launches_in_graphs_are_announced_by_the_graph(device: Device) -> None:
    seen = Counter[str]()

    def listen(event: str, data: dict[str, Any]) -> None:
        seen[event] += data.get("launches", 1)

    jitted = minijit.jit(lambda x: rolled(x, 71))
    x = device.put(f32(6))
    jitted(x)
    with events.subscribe(listen):
        jitted(x)
    assert seen["launch"] + seen["graph"] == 71
    assert seen["graph"] == (4 * 16 if captures(device) else 0)


def test_reports_count_what_graphs_launch() -> None:
    x = f32(6)
    report = minijit.debug.kernel_report(lambda v: rolled(v, 71), x)
    assert len(report.steps) == 71
    with minijit.disable_jit():
        np.testing.assert_allclose(report.outputs, rolled(x, 71), rtol=1e-5, atol=1e-6)


def scanned(x: Any, xs: Any) -> Any:
    return lax.scan(lambda c, r: (jnp.roll(c, 1) + r, None), x, xs)[0]


def collected(x: Any) -> Any:
    return lax.scan(lambda c, _: (jnp.roll(c, 1), c), x, None, length=100)[1]


REFUSED: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "product": (rnn, (f32(3, 4), f32(4, 4), f32(70, 3, 4)), "not only kernels in a step"),
    "xs": (scanned, (f32(3), f32(70, 3)), "each step takes or gives other rows"),
    "ys": (collected, (f32(3),), "each step takes or gives other rows"),
    "few": (rolled, (f32(3),), "too few launches"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_captured_says_why(name: str, device: Device) -> None:
    function, arguments, reason = REFUSED[name]
    given = [device.put(argument) for argument in arguments]
    jitted = minijit.jit(function)
    jitted(*given)
    assert jitted.stats()["graph_launches"] == 0
    (loop,) = explain_fusion(jitted, *given).loops
    assert loop.how.endswith(f"; no CUDA graph, {reason}") == captures(device)


def test_what_is_captured_says_so(device: Device) -> None:
    x = device.put(f32(5, 6))
    (one,) = explain_fusion(lambda v: rolled(v, 500), x).loops
    (several,) = explain_fusion(lambda v: normalised(v, 500), x).loops
    assert one.how.endswith("; 64 steps in a CUDA graph") == captures(device)
    assert several.how.endswith(" steps in a CUDA graph") == captures(device)

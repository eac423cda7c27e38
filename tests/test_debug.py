"""``explain_fusion`` says of every loop and branch how it runs, and why there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.debug import FusionReport, LoopReport, explain_fusion

X = np.linspace(0.1, 2.0, 24, dtype=np.float32).reshape(6, 4)
W = np.eye(4, dtype=np.float32)


def smoothed(x: Any) -> Any:
    def step(level: Any, row: Any) -> tuple[Any, Any]:
        level = 0.5 * level + 0.5 * row
        return level, level

    return lax.scan(step, x[0], x)


def normalised(x: Any) -> Any:
    def step(level: Any, row: Any) -> tuple[Any, None]:
        level = level + row
        return level / level.sum(), None

    return lax.scan(step, x[0], x)[0]


def chosen(flag: Any, x: Any) -> Any:
    return lax.cond(flag, lambda: jnp.sin(x), lambda: x + 1)


def centred(flag: Any, x: Any) -> Any:
    return lax.cond(flag, lambda: x - x.max(-1, keepdims=True), lambda: x + 1)


def halved(x: Any) -> Any:
    return lax.while_loop(lambda s: s > 1, lambda s: s / 2, x)


def powered(w: Any, v: Any) -> Any:
    return lax.while_loop(
        lambda s: s[1] > 0.1, lambda s: (w @ s[0], s[1] * 0.5), (v, np.float32(1))
    )[0]


def squared(w: Any) -> Any:
    return lax.while_loop(
        lambda s: s[1] > 0.1, lambda s: (s[0] @ s[0], s[1] * 0.5), (w, np.float32(1))
    )[0]


def diffused(x: Any) -> Any:
    return lax.fori_loop(0, 5, lambda _, u: u + jnp.roll(u, 1), x)


def multiplied(flag: Any, x: Any) -> Any:
    return lax.cond(flag, lambda: x @ W, lambda: x + 1)


def empty(x: Any) -> Any:
    return lax.scan(lambda c, row: (c + 1, c), x[0, :0], x)[1]


IN_KERNEL: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str, str]] = {
    "scan": (smoothed, (X,), "scan", "in kernel, element by element"),
    "while": (halved, (np.float32(9),), "while", "in kernel, element by element"),
    "rows": (normalised, (X,), "scan", "in kernel, row by row, 4 values each"),
    "product": (
        powered,
        (W, X[0]),
        "while",
        "in kernel, row by row, 4 values each, multiplied by 1 matrix",
    ),
    "cond": (chosen, (True, X), "cond", "a branch in the kernel, element by element"),
    "cond-rows": (centred, (True, X), "cond", "a branch in the kernel, row by row, 4 values each"),
}


@pytest.mark.parametrize("name", IN_KERNEL)
def test_in_kernel(name: str) -> None:
    function, args, primitive, how = IN_KERNEL[name]
    report = explain_fusion(function, *args)
    (loop,) = report.loops
    assert loop.text.startswith(f"{primitive}  # ")
    assert "test_debug.py" in loop.text
    assert loop.how == how
    assert f"\n{loop.text}: {how}" in str(report)
    assert "driven by the host" not in str(report)
    stats = _stats(function, args)
    assert (stats["host_loops"], stats["host_branches"]) == (0, 0)


DRIVEN: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str, tuple[str, ...]]] = {
    "while": (
        squared, (W,), "both factors of a matmul change at each step", ("condition", "each step"),
    ),
    "stencil": (
        diffused, (X[0],),
        "a step reads other elements of what it carries than its own", ("each step",),
    ),
    "cond": (
        multiplied, (True, X), "matmul is run by the array library", ("branch 0", "branch 1"),
    ),
    "empty": (empty, (X,), "there are arrays without elements", ("each step",)),
}  # fmt: skip


@pytest.mark.parametrize("name", DRIVEN)
def test_driven_by_the_host(name: str) -> None:
    function, args, reason, bodies = DRIVEN[name]
    report = explain_fusion(function, *args)
    (loop,) = report.loops
    assert loop.how == f"driven by the host: {reason}"
    assert tuple(title for title, _ in loop.bodies) == bodies
    assert all(isinstance(body, FusionReport) and body.kernels for _, body in loop.bodies)
    assert any(step[0].startswith("driven by the host: ") for step in report.kernels)
    assert "array library: f32[6,4] = cond" not in str(report)
    stats = _stats(function, args)
    assert stats["host_loops"] + stats["host_branches"] == 1


def test_nested_loops_stand_indented_in_their_loop() -> None:
    def grown(x: Any) -> Any:
        def outer(i: Any, y: Any) -> Any:
            y = lax.cond(i > 3, lambda: y + 1, lambda: y * 2)
            return lax.fori_loop(0, 3, lambda _, z: z * 0.5, y)

        return lax.fori_loop(0, 5, outer, x)

    report = explain_fusion(grown, X)
    (outer,) = report.loops
    assert [loop.text.partition("  # ")[0] for loop in outer.inner] == ["cond", "scan"]
    lines = str(report).splitlines()
    assert sum(line.startswith("    cond  # ") for line in lines) == 1
    assert sum(line.startswith("    scan  # ") for line in lines) == 1


def test_a_loop_in_a_host_driven_body_is_in_that_bodys_report() -> None:
    def mixed(x: Any) -> Any:
        def step(h: Any, row: Any) -> tuple[Any, None]:
            return lax.fori_loop(0, 3, lambda _, z: jnp.tanh(z), jnp.roll(h, 1) + row), None

        return lax.scan(step, x[0], x)[0]

    (outer,) = explain_fusion(mixed, X).loops
    ((title, body),) = outer.bodies
    (inner,) = body.loops
    assert title == "each step"
    assert inner == LoopReport(inner.text, "in kernel, element by element")


def test_a_known_predicate_leaves_no_branch() -> None:
    report = explain_fusion(lambda x: lax.cond(True, lambda: x * 2, lambda: x @ W), X)
    assert report.loops == ()
    assert "matmul" not in str(report)


def test_a_counter_that_nobody_reads_after_the_loop_gets_no_kernel() -> None:
    def grown(x: Any) -> Any:
        return lax.fori_loop(0, 5, lambda i, y: lax.cond(i > 3, lambda: y + 1, lambda: y * 2), x)

    assert len(explain_fusion(grown, X).kernels) == 1
    with minijit.debug.count() as events:
        got = minijit.jit(grown)(X)
    assert events["launch"] == 1
    np.testing.assert_array_equal(got, X * 16 + 1)


def _stats(function: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, int]:
    jitted = minijit.jit(function)
    jitted(*args)
    return jitted.stats()

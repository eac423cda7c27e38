"""The bytes that programs move, counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit.numpy as jnp
from minijit import lax
from minijit.debug import FusionReport, explain_fusion

N = 24 * 4  # bytes of X
ROW = 4 * 4
X = np.linspace(0.1, 2.0, 24, dtype=np.float32).reshape(6, 4)
V = np.ones(4, np.float32)


def smoothed(x: Any) -> Any:
    def step(level: Any, row: Any) -> tuple[Any, Any]:
        level = level + row
        return level, level

    return lax.scan(step, x[0], x)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int, int]] = {
    "chain": (lambda x: (x + 1) * 2, (X,), 4 * N, 2 * N),
    "read-twice": (lambda x: x * x, (X,), 2 * N, 2 * N),
    "softmax": (
        lambda x: (e := jnp.exp(x - x.max(1, keepdims=True))) / e.sum(1, keepdims=True),
        (X,),
        (N + 24) + (2 * N + 24) + 2 * N + (N + 24) + (2 * N + 24),
        2 * N,
    ),
    "broadcast": (lambda x, v: x + v, (X, V), 2 * N + ROW, 2 * N + ROW),
    "views": (lambda x: x[::-1].T * 2, (X,), 2 * N, 2 * N),
    "library": (lambda x: (x + 1) @ x.T, (X,), 2 * N + 2 * N + 144, 2 * N + 2 * N + 144),
    "stored-between": (lambda x: jnp.tanh(x) - jnp.tanh(x)[::-1], (X,), 5 * N, 4 * N),
    "loop": (smoothed, (X,), 6 * 3 * ROW, 2 * N + ROW),
    "host-loop": (
        lambda x: lax.fori_loop(0, 5, lambda _, u: u[::-1] * 2, x), (X,), 10 * N, 10 * N,
    ),
    "branch": (
        lambda p, x: lax.cond(p, lambda: x + 1, lambda: x * 2 - 1), (True, X), 4 * N + 5, 2 * N + 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bytes(name: str) -> None:
    function, args, eager, fused = CASES[name]
    report = explain_fusion(function, *args)
    assert (report.bytes_eager, report.bytes_fused) == (eager, fused)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (1024, "1.02 kB"), (99_950, "100 kB"),
        (999_499, "999 kB"), (999_500, "1.00 MB"), (33_554_432, "33.6 MB"), (5 * 10**15, "5.00 PB"),
    ],
)  # fmt: skip
def test_bytes_are_written_for_people(count: int, text: str) -> None:
    report = FusionReport((), (), 1, 0, count)
    assert str(report) == f"1 operation in 0 steps: {text} moved, 0 B an operation at a time"

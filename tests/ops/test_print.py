"""``debug.print``: at each run, in order, in loops and branches; nothing else changes by it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import debug, lax
from tests.conftest import Device

X = np.arange(4, dtype=np.float32)


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[[], list[str]]:
    return lambda: capsys.readouterr().out.splitlines()


def test_each_call_prints_its_values(device: Device, printed: Any, counts: Counter[str]) -> None:
    def f(x: Any) -> Any:
        debug.print("sum={s:.1f} first={}", x[0], s=x.sum())
        return x + 1

    jitted = minijit.jit(f)
    for offset in (0, 1):
        result = jitted(device.put(X + np.float32(offset)))
        assert printed() == [f"sum={6 + 4 * offset:.1f} first={float(offset)}"]
        np.testing.assert_array_equal(device.get(result), X + offset + 1)
    assert counts["trace"] == 1


def test_order_and_repetition_are_kept(device: Device, printed: Any) -> None:
    def f(x: Any) -> Any:
        debug.print("begin")
        total = jnp.tanh(x).sum()
        debug.print("total {:.2f}", total)
        debug.print("again")
        debug.print("again")
        debug.print("first {}", x[0])
        return x

    minijit.jit(f)(device.put(X))
    assert printed() == [
        "begin", f"total {np.tanh(X).sum():.2f}", "again", "again", "first 0.0",
    ]  # fmt: skip


def test_a_scan_prints_at_each_step(device: Device, printed: Any) -> None:
    def step(carry: Any, x: Any) -> tuple[Any, None]:
        debug.print("step {x} {c}", x=x, c=carry)
        return carry + x, None

    f = minijit.jit(lambda v: lax.scan(step, jnp.float32(0), v)[0])
    assert device.get(f(device.put(X))) == 6
    assert printed() == ["step 0.0 0.0", "step 1.0 0.0", "step 2.0 1.0", "step 3.0 3.0"]
    (loop,) = debug.explain_fusion(f, device.put(X)).loops
    assert loop.how.startswith("driven by the host: it has effects, which the host carries out")


def test_the_branch_that_is_taken_prints(device: Device, printed: Any) -> None:
    def branch(word: str) -> Callable[[Any], Any]:
        def run(v: Any) -> Any:
            debug.print(word + " {}", v)
            return v * 2

        return run

    f = minijit.jit(lambda x: lax.cond(x > 0, branch("yes"), branch("no"), x))
    f(device.put(np.float32(2)))
    f(device.put(np.float32(-2)))
    assert printed() == ["yes 2.0", "no -2.0"]


def test_a_while_loop_prints_no_step_that_is_not_due(device: Device, printed: Any) -> None:
    def body(v: Any) -> Any:
        debug.print("at {}", v)
        return v + 1

    f = minijit.jit(lambda x: lax.while_loop(lambda v: v < 3, body, x))
    assert device.get(f(device.put(np.int32(1)))) == 3
    assert printed() == ["at 1", "at 2"]


def test_loops_whose_results_nobody_needs_print(device: Device, printed: Any) -> None:
    def f(x: Any) -> Any:
        lax.fori_loop(0, 2, lambda n, v: (debug.print("{} {}", n, v[1]), v * 2)[1], x)
        y = x * 100
        debug.print("dead {}", y[1])
        return x + 1

    np.testing.assert_array_equal(device.get(minijit.jit(f)(device.put(X))), X + 1)
    assert printed() == ["0 1.0", "1 2.0", "dead 100.0"]


def test_what_is_the_same_in_each_step_is_printed_in_each(printed: Any) -> None:
    def step(carry: Any, _: Any) -> tuple[Any, None]:
        debug.print("still")
        return carry + 1, None

    minijit.jit(lambda x: lax.scan(step, x, None, length=3)[0])(X)
    assert printed() == ["still"] * 3


def test_nested_functions_and_eager_calls_print(printed: Any) -> None:
    inner = minijit.jit(lambda x: (debug.print("inner {}", x[1]), x * 2)[1])
    minijit.jit(lambda x: inner(x + 1) + inner(x))(X)
    debug.print("eager {}", X)
    with minijit.disable_jit():
        inner(X)
    assert printed() == ["inner 2.0", "inner 1.0", "eager [0. 1. 2. 3.]", "inner 1.0"]


SCRIPT = """
import numpy as np, minijit
from minijit import debug
@minijit.jit
def f(x):
    debug.print("{} {last}", x.sum(), last=x[-1])
    return x * 2
f(np.arange(4, dtype=np.float32))
import sys
print("numba" in sys.modules)
"""


def test_a_warm_process_prints(tmp_path: Path) -> None:
    variables = {"MINIJIT_CACHE": "rw", "MINIJIT_CACHE_DIR": str(tmp_path)}
    said = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={**os.environ, **variables}, check=True,
            capture_output=True, text=True,
        ).stdout.splitlines()
        for _ in range(2)
    ]  # fmt: skip
    assert said == [["6.0 3.0", "True"], ["6.0 3.0", "False"]]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda x: debug.print("{} {}", x), "a field has no value"),
        (lambda x: debug.print("{}", x, x), "no field shows 1"),
        (lambda x: debug.print("{y}", x=x), "no value is named 'y'"),
        (lambda x: debug.print("{", x), "Single '{' encountered"),
    ],
)
def test_a_format_that_does_not_fit_is_refused_with_the_line(call: Any, why: str) -> None:
    with pytest.raises(ValueError, match=r"debug\.print cannot format") as caught:
        minijit.jit(call)(X)
    assert why in str(caught.value)
    assert "test_print.py" in str(caught.value)


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(TypeError, match="type 'str' is not an array"):
        minijit.jit(lambda x: debug.print("{}", "text"))(X)

"""lower, compile, make_jaxpr, eval_shape; and the modes that report or refuse."""

from __future__ import annotations

import logging
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from tests.conftest import Device

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_lowering_shows_the_program_and_runs_nothing(device: Device, counts: Counter[str]) -> None:
    lowered = minijit.jit(lambda x: jnp.exp(x) + jnp.exp(x)).lower(device.put(X))
    assert str(lowered.jaxpr).count("= exp") == 2
    assert lowered.as_text().count("= exp") == 1  # as it is partitioned
    assert counts["launch"] == counts["compile"] == 0


def test_compiling_ahead_warms_the_ordinary_call(device: Device, counts: Counter[str]) -> None:
    f = minijit.jit(lambda x, n: x.sum() * n, static_argnames="n")
    compiled = f.lower(device.put(X), n=2).compile()
    assert (counts["trace"], counts["program"], counts["launch"]) == (1, 1, 0)
    assert device.get(compiled(device.put(X), n=2)) == 30
    assert device.get(f(device.put(X), n=2)) == 30
    assert device.get(compiled(device.put(X + 1), n=2)) == 42
    assert (counts["trace"], counts["program"]) == (1, 1)


def test_abstract_arguments(device: Device, counts: Counter[str]) -> None:
    f = minijit.jit(lambda d: d["x"] * d["s"])
    abstract = minijit.ShapeDtypeStruct(X.shape, X.dtype)
    compiled = f.lower({"x": abstract, "s": 2.0}).compile()
    for call in (compiled, f):
        got = device.get(call({"x": device.put(X), "s": 3.0}))
        np.testing.assert_array_equal(got, X * 3)
    assert (counts["trace"], counts["program"]) == (1, 1)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((X[:1], X), {"n": 2}, r"a: f32\[2,3\] -> f32\[1,3\]"),
        ((X.astype(np.int32), X), {"n": 2}, r"a: f32\[2,3\] -> i32\[2,3\]"),
        ((X, X[0]), {"n": 2}, r"unused: f32\[2,3\] -> f32\[3\]"),
        ((X, X), {"n": 3}, "static n: 2 -> 3"),
        ((X, (X,)), {"n": 2}, r"the structure of unused: \* -> \(\*,\)"),
        ((X, X), {}, r"static|missing"),
    ],
)
def test_a_compiled_program_takes_nothing_else(args: Any, kwargs: Any, message: str) -> None:
    f = minijit.jit(lambda a, unused, n: a * n, static_argnums=2)
    compiled = f.lower(X, X, 2).compile()
    with pytest.raises(TypeError, match=message):
        compiled(*args, **kwargs)
    np.testing.assert_array_equal(compiled(X, X, n=2), X * 2)


def test_a_compiled_program_reads_any_strides(device: Device) -> None:
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    compiled = minijit.jit(lambda x: x * 2).lower(device.put(square)).compile()
    for x in (square.T, square[::-1], np.broadcast_to(square[0], (3, 3))):
        np.testing.assert_array_equal(device.get(compiled(device.put(x))), x * 2)


def test_a_compiled_program_takes_scalars_as_arrays_and_as_numbers(device: Device) -> None:
    f = minijit.jit(lambda s: s + 1)
    for first in (np.float32(1), device.put(np.array(1, np.float32))):
        compiled = f.lower(first).compile()
        for value in (np.float32(5), device.put(np.array(5, np.float32))):
            assert device.get(compiled(value)) == 6


def test_kernels_are_shown_with_what_they_read_and_write(device: Device) -> None:
    def scale(image: Any, factor: Any) -> Any:
        return image * factor

    (kernel,) = minijit.jit(scale).lower(device.put(X), 2.0).compile().kernels()
    assert kernel.inputs == ("float32[6] image", "float32 factor")
    assert kernel.outputs == ("float32[6] out0",)
    assert "scale" in kernel.name
    assert "test_stages.py" in kernel.source
    assert kernel.source in str(kernel).replace("\n    ", "\n") or kernel.name in str(kernel)
    assert kernel.ir.startswith(f"kernel {kernel.name} rows=")


def test_costs_grow_with_the_work(device: Device) -> None:
    def cost(n: int) -> dict[str, float]:
        f = minijit.jit(lambda x: jnp.sin(x) * 2 + x)
        return f.lower(device.put(np.ones(n, np.float32))).compile().cost_analysis()

    small, large = cost(1000), cost(10_000)
    assert small["bytes accessed"] == 8000
    assert large["flops"] == 10 * small["flops"] >= 3000
    assert small["kernels"] == 1


def test_make_jaxpr_neither_runs_nor_caches(device: Device, counts: Counter[str]) -> None:
    f = minijit.jit(lambda x, n: sum([x] * n), static_argnums=1)
    text = str(minijit.make_jaxpr(f)(device.put(X), 4))
    assert text.count("= add") == 4
    assert (f._cache_size(), counts["launch"]) == (0, 0)
    assert "cos" in str(minijit.make_jaxpr(lambda x: jnp.cos(x))(X))
    plain = minijit.make_jaxpr(lambda x, n: sum([x] * n), static_argnames="n")
    assert str(plain(X, n=3)).count("= add") == 3


def test_eval_shape() -> None:
    abstract = minijit.ShapeDtypeStruct((3, 4), np.dtype(np.float32))
    got = minijit.eval_shape(lambda x: {"y": x @ x.T, "n": (x.sum(0), 2)}, abstract)
    assert got["y"] == minijit.ShapeDtypeStruct((3, 3), np.dtype(np.float32))
    assert (got["n"][0].shape, got["n"][1].dtype) == ((4,), np.int64)


def test_eval_shape_inside_a_jitted_function(device: Device) -> None:
    def f(x: Any) -> Any:
        y = x * 2
        shape = minijit.eval_shape(lambda v: (v + y).T, x).shape
        return jnp.reshape(y, shape)

    np.testing.assert_array_equal(device.get(minijit.jit(f)(device.put(X))), (X * 2).reshape(3, 2))


def test_debug_nans(device: Device) -> None:
    f = minijit.jit(lambda x: {"good": x, "bad": jnp.log(x - 10)})
    f(device.put(X))
    with minijit.config.override(debug_nans=True):
        for _ in range(2):
            with pytest.raises(FloatingPointError, match=r"result 0 of '<lambda>' holds NaN"):
                f(device.put(X))
        assert device.get(f(device.put(X + 20))["good"])[0, 0] == 20
    f(device.put(X))


def test_log_compiles(device: Device, caplog: pytest.LogCaptureFixture) -> None:
    def noisy_step(x: Any, s: Any) -> Any:
        return x * s

    f = minijit.jit(noisy_step)
    with minijit.config.override(log_compiles=True), caplog.at_level(logging.WARNING):
        for x in (X, X, X[:1].copy()):
            f(device.put(x), 2.0)
    f(device.put(X.T.copy()), 2.0)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert "noisy_step(f32[2,3], f64[]*)" in lines[0]


def test_misses_are_explained(device: Device, caplog: pytest.LogCaptureFixture) -> None:
    def step(batch: Any, mode: str) -> Any:
        return batch["x"] * 2

    f = minijit.jit(step, static_argnames="mode")
    with minijit.config.override(explain_cache_misses=True), caplog.at_level(logging.WARNING):
        f({"x": device.put(X)}, "a")
        f({"x": device.put(X[:1].copy())}, "a")
        f({"x": device.put(X)}, "b")
        f({"x": device.put(X), "y": device.put(X)}, "b")
    first, shape, mode, tree = (record.getMessage() for record in caplog.records)
    # On the second device this very function was jitted before.
    assert re.fullmatch(r"step is traced anew: (the first call|a new function, whose .*)", first)
    assert "batch['x']: f32[2,3] -> f32[1,3]" in shape
    assert "static mode: 'a' -> 'b'" in mode
    assert "the structure of batch: {'x': *} -> {'x': *, 'y': *}" in tree

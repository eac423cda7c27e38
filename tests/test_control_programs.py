"""Programs with loops and branches through jit on each device: values, and what happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.backends.registry import default_device
from minijit.graph.tree import flatten
from tests.conftest import Device
from tests.sampling import sampled
from tests.transforms.random_bodies import random_loop_program, reference
from tests.transforms.random_programs import assert_equal

RNG = np.random.default_rng(21)
XS = RNG.uniform(-1, 1, (9, 5)).astype(np.float32)
V = RNG.uniform(0.5, 2, 5).astype(np.float32)
ROWS = RNG.uniform(0.5, 2, (6, 4, 7)).astype(np.float32)


def host(tree: Any) -> list[Any]:
    return [x.get() if hasattr(x, "get") else np.asarray(x) for x in flatten(tree)[0]]


def average(x: Any, v: Any) -> Any:
    def step(mean: Any, row: Any) -> Any:
        mean = mean * 0.75 + row * 0.25
        return mean, mean

    last, means = lax.scan(step, v, x)
    return jnp.sqrt(abs(last)), means * 2 - x


def mandelbrot(re: Any, im: Any) -> Any:
    def step(_: Any, state: Any) -> Any:
        x, y, count = state
        inside = x * x + y * y < 4
        return (
            jnp.where(inside, x * x - y * y + re, x),
            jnp.where(inside, 2 * x * y + im, y),
            count + inside,
        )

    return lax.fori_loop(0, 30, step, (re * 0, im * 0, jnp.zeros(re.shape, np.int32)))[2]


def newton(a: Any) -> Any:
    def step(state: Any) -> Any:
        x, _, n = state
        return (x + a / x) / 2, x, n + 1

    return lax.while_loop(lambda s: abs(s[0] - s[1]) > 1e-6, step, (a, a * 0, np.int32(0)))


def sinkhorn(x: Any) -> Any:
    def step(c: Any, rows: Any) -> Any:
        c = c * rows
        return c / c.sum(-1, keepdims=True), c.max(-1)

    return lax.scan(step, x[0], x)


def choose(k: Any, x: Any) -> Any:
    y = x * 2
    return lax.switch(k, [jnp.exp, lambda v: v - v.max(-1, keepdims=True), jnp.negative], y)


def fibonacci(v: Any, n: Any) -> Any:
    return lax.fori_loop(0, n, lambda _, s: (s[1], s[0] + s[1]), (v, v * 2))


def backwards(x: Any, v: Any) -> Any:
    return lax.scan(lambda c, row: (c * row, (c, row)), v, x, reverse=True)


def collatz(n: Any) -> Any:
    def step(s: Any) -> Any:
        value = lax.cond(s[0] % 2 == 0, lambda k: k // 2, lambda k: k * 3 + 1, s[0])
        return value, s[1] + 1

    return lax.while_loop(lambda s: s[0] != 1, step, (n, np.int32(0)))[1]


ONE_KERNEL: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "average": (average, (XS, V)),
    "mandelbrot": (mandelbrot, (XS * 2, XS[::-1].copy())),
    "newton": (newton, (np.float32(7),)),
    "rows": (sinkhorn, (ROWS,)),
    "branch-0": (choose, (np.int32(0), XS)),
    "branch-1": (choose, (np.int32(1), XS)),
    "branch-7": (choose, (np.int32(7), XS)),
    "swap": (fibonacci, (V, np.int32(11))),
    "no-steps": (fibonacci, (V, np.int32(0))),
    "backwards": (backwards, (XS, V)),
    "branch-in-while": (collatz, (np.int32(27),)),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_launch_however_many_steps(device: Device, name: str, counts: Counter[str]) -> None:
    function, args = ONE_KERNEL[name]
    f = minijit.jit(function)
    with np.errstate(all="ignore"):
        want = reference(lambda *xs: flatten(function(*xs))[0], args)
    for _ in range(2):
        counts.clear()
        got = host(f(*args))
        assert (counts["launch"], counts["eager"]) == (1, 0)
        for a, b in zip(got, want, strict=True):
            assert (a.shape, a.dtype) == (np.shape(b), np.asarray(b).dtype)
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert (counts["trace"], counts["compile"]) == (0, 0)


@pytest.mark.parametrize("length", [10, 100_000])
def test_a_long_loop_costs_no_more_to_make(length: int, counts: Counter[str]) -> None:
    minijit.clear_caches()
    f = minijit.jit(average)
    x = np.zeros((length, 5), np.float32)
    f(x, V)
    made = (counts["trace"], counts["compile"], counts["launch"])
    assert made == (1, 1, 1)


def test_the_same_branch_kernel_serves_all_branches(device: Device, counts: Counter[str]) -> None:
    minijit.clear_caches()
    f = minijit.jit(choose)
    results = [host(f(np.int32(k), XS))[0] for k in range(3)]
    assert (counts["trace"], counts["compile"], counts["launch"]) == (1, 1, 3)
    y = XS * 2
    np.testing.assert_allclose(results[0], np.exp(y), rtol=1e-6)
    np.testing.assert_allclose(results[1], y - y.max(-1, keepdims=True), rtol=1e-6)
    np.testing.assert_array_equal(results[2], -y)


@pytest.mark.parametrize("extent", [0, 1])
def test_arrays_of_few_elements(device: Device, extent: int) -> None:
    x, v = XS[:, :extent], V[:extent]
    for function in (average, backwards):
        got = host(minijit.jit(function)(x, v))
        want = reference(lambda *xs, f=function: flatten(f(*xs))[0], (x, v))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_rows_of_one_value(device: Device) -> None:
    """A condition that reduces an array of one element."""

    def function(v: Any) -> Any:
        return lax.while_loop(
            lambda s: (s[0] < 4) & (s[1].max() < 50),
            lambda s: (s[0] + 1, s[1] * 3),
            (np.int32(0), v),
        )

    steps, value = host(minijit.jit(function)(np.ones(1, np.float32)))
    assert (int(steps), value.tolist()) == (4, [81])


def test_side_effects_happen_once() -> None:
    log: list[str] = []

    def noted(word: str, value: Any) -> Any:
        log.append(word)
        return value

    def function(x: Any) -> Any:
        total, _ = lax.scan(lambda c, row: (noted("step", c + row), None), x[0], x)
        total = lax.while_loop(
            lambda c: noted("asked", c.sum() < 50), lambda c: noted("repeated", c * 2), total
        )
        return lax.cond(total[0] > 0, lambda c: noted("yes", c), lambda c: noted("no", -c), total)

    f = minijit.jit(function)
    for x in (abs(XS), abs(XS) * 2, abs(XS)):
        f(x)
    assert sorted(log) == ["asked", "no", "repeated", "step", "yes"]


@pytest.mark.parametrize("seed", sampled(range(9500, 9540, 10), 2))
def test_random_programs(seed: int) -> None:
    for number in range(seed, seed + 10):
        function, args = random_loop_program(number, 4 + number % 10)
        with np.errstate(all="ignore"):
            got = minijit.jit(function)(*args)
        assert_equal(got, reference(function, args))


@pytest.mark.parametrize("seed", [9600, 9603])
def test_random_programs_on_the_emulated_device(seed: int) -> None:
    pytest.importorskip("numba.cuda")
    with default_device("cuda-emulated"):
        for number in range(seed, seed + 3):
            function, args = random_loop_program(number, 4 + number % 6)
            with np.errstate(all="ignore"):
                got = host(minijit.jit(function)(*args))
            assert_equal(got, reference(function, args))

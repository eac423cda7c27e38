"""Loops that the host drives: what no kernel holds, since its elements are coupled."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.backends.registry import default_device, get_backend
from tests.conftest import Device
from tests.runtime.host_programs import check, compare, f32, multiplied, rnn, rolled


def power_iteration(a: Any, v: Any) -> Any:
    def goes_on(state: Any) -> Any:
        _, change, count = state
        return (change > 1e-5) & (count < 100)

    def step(state: Any) -> Any:
        v, _, count = state
        w = multiplied(a, v)
        w = w / jnp.sqrt((w * w).sum())
        return w, jnp.abs(w - v).max(), count + 1

    return lax.while_loop(goes_on, step, (v, np.float32(1), 0))


def test_matmul_in_the_body(device: Device) -> None:
    check(device, rnn, f32(3, 4), f32(4, 4), f32(6, 3, 4))


def test_carries_whose_elements_are_coupled(device: Device) -> None:
    check(device, rolled, f32(37))
    check(device, rolled, f32(5, 7))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_numbers_of_steps(device: Device, count: int) -> None:
    """The last carries lie in other buffers after an odd number of steps."""
    check(device, rnn, f32(3, 4), f32(4, 4), f32(count, 3, 4))
    check(device, lambda x: rolled(x, count), f32(8))


def test_no_steps(device: Device) -> None:
    h, ys = check(device, rnn, f32(3, 4), f32(4, 4), f32(0, 3, 4))
    assert (h.shape, ys.shape) == ((3, 4), (0,))

    def never(x: Any) -> Any:
        return lax.while_loop(lambda v: v.sum() > 1e9, lambda v: v @ v, x)

    check(device, never, f32(3, 3))


def test_norm_of_long_vectors(device: Device) -> None:
    """A while loop whose condition depends on all elements of rows that no kernel keeps."""
    long = get_backend(device.name).most_columns + 5

    def halved(x: Any) -> Any:
        return lax.while_loop(lambda v: (v * v).sum() > 1, lambda v: v * 0.5, x)

    check(device, halved, np.full(long, 3, np.float32))


def test_power_iteration(device: Device) -> None:
    q = np.linalg.qr(f32(6, 6))[0]
    a = (q * np.array([3, 2, 1, 1, 0.5, 0.25], np.float32)) @ q.T
    v, change, count = check(device, power_iteration, a, np.ones(6, np.float32), tolerance=1e-4)
    assert change <= 1e-5
    assert 1 < count < 100
    largest = np.linalg.eigh(a.astype(np.float64))[1][:, -1]
    np.testing.assert_allclose(abs(v @ largest), 1, rtol=1e-5)


def test_rows_without_axes(device: Device) -> None:
    """1-D xs and ys: what a step takes and gives are single elements of them."""

    def f(v: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = jnp.roll(c, 1) + x
            return c, (x * 2, c.sum(), c[0])

        return lax.scan(step, v, xs)

    check(device, f, f32(5), f32(7))


def test_products_of_vectors_are_scalars(device: Device) -> None:
    def f(v: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            size = c @ c
            return jnp.tanh(c + x * jnp.sqrt(size)), (size, c @ x + 1)

        return lax.scan(step, v, xs)

    check(device, f, f32(5), f32(7, 5))


def test_backwards(device: Device) -> None:
    def f(h: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = jnp.roll(c, 1) * 0.5 + x
            return c, c

        return lax.scan(step, h, xs, reverse=True)

    check(device, f, f32(4), f32(6, 4))


def test_without_xs(device: Device) -> None:
    def f(x: Any) -> Any:
        def step(c: Any, _: None) -> Any:
            return jnp.roll(c, 1) * 1.5, c[:2]

        return lax.scan(step, x, None, length=4)

    check(device, f, f32(5))


def test_carries_change_places(device: Device) -> None:
    def f(a: Any, b: Any, w: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            a, b, c = carry
            return (b, a, multiplied(c, w)), (a, b)

        return lax.scan(step, (a, b, a), np.arange(3))

    for _ in range(2):
        check(device, f, f32(3, 3), f32(3, 3), f32(3, 3))


def test_carries_that_stay_and_results_that_are_carries(device: Device) -> None:
    def f(a: Any, b: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            a, b = carry
            a = a @ b
            return (a, b), (a, a, b, x)

        return lax.scan(step, (a, b), np.arange(3, dtype=np.float32))

    check(device, f, f32(3, 3), f32(3, 3))


def test_constants_and_inputs_as_results(device: Device) -> None:
    def f(h: Any, k: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            c, d, _ = carry
            return (jnp.roll(c, 1), k, np.float32(2)), (x, k, np.int32(7), c + d, True)

        return lax.scan(step, (h, h, np.float32(1)), xs)

    check(device, f, f32(4), f32(4), f32(5, 4))

    def all_given(h: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: (x @ x, (c, x)), h, xs)

    check(device, all_given, f32(3, 3), f32(2, 3, 3))


def test_threads_have_memory_of_their_own(device: Device) -> None:
    f = minijit.jit(rnn)
    w = f32(8, 8)
    inputs = [(f32(4, 8), f32(9, 4, 8)) for _ in range(4)]
    with minijit.disable_jit():
        expected = [rnn(h, w, xs) for h, xs in inputs]
    results: list[Any] = [None] * len(inputs)
    name = device.name

    def work(place: int) -> None:
        h, xs = inputs[place]
        with default_device(name):
            for _ in range(5):
                results[place] = f(device.put(h), device.put(w), device.put(xs))

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for got, wanted in zip(results, expected, strict=True):
        compare(device.get(got), wanted)

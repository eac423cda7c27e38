"""What goes into loops that the host drives: any strides, dtypes, scalars, and whoever made it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.graph.mode import mode
from tests.conftest import Device, on_each_device
from tests.runtime.host_programs import RANDOM, check, compare, f32, multiplied, rnn, rolled

WIDE = f32(12, 10, 8)
VIEWS = {
    "transposed": WIDE[:6, :3, :3].transpose(2, 0, 1)[:, :3, :3],
    "strided": WIDE[::3, ::4, ::3],
    "backwards": WIDE[3::-1, 2::-1, 2::-1],
    "moved": WIDE[1:5, 1:4, 1:4],
    "repeated": np.broadcast_to(WIDE[0, :3, :3], (4, 3, 3)),
    "every step the same place": np.broadcast_to(WIDE[0, 0, 0], (4, 3, 3)),
    "fortran": np.asfortranarray(WIDE[:4, :3, :3]),
}


@on_each_device("name", VIEWS, emulated=["transposed", "backwards", "repeated"])
def test_arrays_in_any_strides(name: str, device: Device) -> None:
    xs = VIEWS[name]
    check(device, rnn, xs[0], xs[1 % len(xs)].T, xs)
    check(device, lambda x: rolled(x, 3), xs)
    check(device, lambda x: rolled(x.T[::-1], 3), xs)


def test_scalars_of_python_and_numpy(device: Device) -> None:
    def f(x: Any, factor: Any, start: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            c, n, m = carry
            c = jnp.roll(c, 1) * factor + n
            return (c, n + start, m * 2), (c.sum() * factor, n)

        return lax.scan(step, (x[0], start, 1.5), x)

    for factor, start in [(0.5, 3), (np.float32(0.5), np.float32(3)), (2, np.int16(1))]:
        check(device, f, f32(4, 3), factor, start)
    check(device, f, f32(4, 3), np.array(0.5, np.float32), np.array(2.0, np.float32))


def test_arrays_without_elements(device: Device) -> None:
    def f(h: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            return jnp.roll(c, 1, 0) + x, c * 2

        return lax.scan(step, h, xs)

    check(device, f, f32(0, 3), f32(4, 0, 3))
    check(device, f, f32(2, 0), f32(0, 2, 0))

    def beside(h: Any, nothing: Any) -> Any:
        def step(carry: Any, _: None) -> Any:
            c, n = carry
            return (jnp.roll(c, 1), n * 2), n

        return lax.scan(step, (h, nothing), None, length=3)

    check(device, beside, f32(3), f32(0, 2))


@pytest.mark.parametrize("dtype", [np.bool_, np.float16, np.int8, np.uint64])
def test_dtypes_of_carries(dtype: Any, device: Device) -> None:
    values = (RANDOM.random((3, 8)) * 3).astype(dtype)

    def f(x: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            return jnp.roll(c, 1) | row if dtype == np.bool_ else jnp.roll(c, 1) + row, c

        return lax.scan(step, x[0], x)

    check(device, f, values, tolerance=1e-2 if dtype is np.float16 else 0)


def test_what_kernels_make_enters_a_loop_and_leaves_it(device: Device) -> None:
    def f(x: Any, w: Any) -> Any:
        start = jnp.exp(x) * 0.25
        rows = (start * 2).T[::-1]
        h, ys = lax.scan(lambda c, r: (jnp.tanh(multiplied(c, w)) + r, c), start[0], rows)
        return jnp.sin(h) + 1, ys.T * x.sum(), (w @ start).T

    check(device, f, f32(4, 4), f32(4, 4), tolerance=1e-4)


def test_what_the_library_makes_enters_a_loop(device: Device) -> None:
    """In strides of the library's own: views of its results."""

    def f(x: Any, w: Any) -> Any:
        made = jnp.transpose(x @ w)[::-1]
        return lax.scan(lambda c, r: (jnp.roll(c, 1) + r @ made, c), made[0], made)

    check(device, f, f32(4, 4), f32(4, 4), tolerance=1e-4)


def test_arrays_of_the_surroundings(device: Device) -> None:
    w = f32(3, 3)
    there = device.put(w.copy())

    def f(x: Any) -> Any:
        held = w if mode.disabled else there
        return lax.scan(lambda c, r: (multiplied(c, held) + r, held[0] * c), x[0], x)

    check(device, f, f32(4, 3))
    jitted = minijit.jit(lambda x: lax.scan(lambda c, r: (multiplied(c, there) + r, c), x[0], x)[0])
    x = device.put(f32(4, 3))
    before = np.array(device.get(jitted(x)))
    there *= 2  # values may change from call to call
    with minijit.disable_jit():
        wanted = lax.scan(lambda c, r: (c @ (2 * w) + r, c), device.get(x)[0], device.get(x))[0]
    compare(device.get(jitted(x)), wanted, 1e-4)
    assert not np.array_equal(before, wanted)

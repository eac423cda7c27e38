"""Loops and branches that the host drives: what no kernel holds, since its elements are coupled."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.backends.registry import default_device, get_backend
from minijit.graph import events
from minijit.graph.mode import mode
from minijit.graph.tree import flatten
from tests.conftest import Device

RANDOM = np.random.default_rng(11)
_START = RANDOM.bit_generator.state


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Each test draws the same numbers, whichever ran before it."""
    RANDOM.bit_generator.state = _START


def f32(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def arrays_of(tree: Any) -> list[Any]:
    return [leaf for leaf in flatten(tree)[0] if hasattr(leaf, "shape") and leaf.shape is not None]


def check(
    device: Device,
    function: Callable[..., Any],
    *args: Any,
    loops: int = 1,
    branches: int = 0,
    tolerance: float = 1e-5,
) -> Any:
    """Run on the device, compare with plain Python on NumPy, and see that memory is respected."""
    with minijit.disable_jit(), np.errstate(all="ignore"):
        expected = function(*args)
    jitted = minijit.jit(lambda *values: function(*values))  # with a cache of its own
    given = [device.put(arg) for arg in args]
    kept = [np.array(device.get(arg)) for arg in given]
    first = jitted(*given)
    copies = [np.array(leaf) for leaf in flatten(device.get(first))[0]]
    second = jitted(*given)
    compare(device.get(first), expected, tolerance)
    for leaf, copy in zip(flatten(device.get(first))[0], copies, strict=True):
        np.testing.assert_array_equal(leaf, copy)  # the second call left it alone
    for again, copy in zip(flatten(device.get(second))[0], copies, strict=True):
        np.testing.assert_array_equal(again, copy)
    for arg, before in zip(given, kept, strict=True):
        np.testing.assert_array_equal(device.get(arg), before)
    results = [*arrays_of(first), *arrays_of(second)]
    if device.name != "cuda":
        for place, result in enumerate(results):
            assert result.flags.c_contiguous
            for other in (*results[:place], *arrays_of(given)):
                assert not np.shares_memory(result, other)
    stats = jitted.stats()
    assert (stats["host_loops"], stats["host_branches"]) == (loops, branches)
    return device.get(first)


def compare(got: Any, expected: Any, tolerance: float = 1e-5) -> None:
    got_leaves, got_tree = flatten(got)
    leaves, tree = flatten(expected)
    assert got_tree == tree
    for leaf, wanted in zip(got_leaves, leaves, strict=True):
        assert leaf.shape == np.shape(wanted)
        if hasattr(wanted, "dtype"):
            assert leaf.dtype == wanted.dtype
        np.testing.assert_allclose(leaf, wanted, rtol=tolerance, atol=tolerance)


def rnn(h: Any, w: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(h @ w + x)
        return h, h.sum()

    return lax.scan(step, h, xs)


def rolled(x: Any, steps: int = 5) -> Any:
    """One pass of the heat equation a step, on a ring."""

    def step(_: Any, u: Any) -> Any:
        return u + 0.1 * (jnp.roll(u, 1, 0) - 2 * u + jnp.roll(u, -1, 0))

    return lax.fori_loop(0, steps, step, x)


def power_iteration(a: Any, v: Any) -> Any:
    def goes_on(state: Any) -> Any:
        _, change, count = state
        return (change > 1e-5) & (count < 100)

    def step(state: Any) -> Any:
        v, _, count = state
        w = a @ v
        w = w / jnp.sqrt((w * w).sum())
        return w, jnp.abs(w - v).max(), count + 1

    return lax.while_loop(goes_on, step, (v, np.float32(1), 0))


# Results do not have to be of the very bits: BLAS sums in another order.


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
            return (b, a, c @ w), (a, b)

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


@pytest.mark.parametrize("name", VIEWS)
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


@pytest.mark.parametrize("n", [-3, 0, 1, 2, 9])
def test_a_loop_in_a_branch(n: int, device: Device) -> None:
    """An index beyond the branches is the nearest one."""

    def f(n: Any, x: Any, w: Any) -> Any:
        branches = [shifted, lambda v: v @ w, lambda v: v]
        return lax.switch(n, branches, x), x + 1

    for index in (np.int32(n), np.int64(n), device.put(np.array(n))):
        check(device, f, index, f32(3), f32(3, 3), loops=1, branches=1)


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


def test_what_kernels_make_enters_a_loop_and_leaves_it(device: Device) -> None:
    def f(x: Any, w: Any) -> Any:
        start = jnp.exp(x) * 0.25
        h, ys = lax.scan(lambda c, r: (jnp.tanh(c @ w) + r, c), start[0], (start * 2).T[::-1])
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
        return lax.scan(lambda c, r: (c @ held + r, held[0] * c), x[0], x)

    check(device, f, f32(4, 3))
    jitted = minijit.jit(lambda x: lax.scan(lambda c, r: (c @ there + r, c), x[0], x)[0])
    x = device.put(f32(4, 3))
    before = np.array(device.get(jitted(x)))
    there *= 2  # values may change from call to call
    with minijit.disable_jit():
        wanted = lax.scan(lambda c, r: (c @ (2 * w) + r, c), device.get(x)[0], device.get(x))[0]
    compare(device.get(jitted(x)), wanted, 1e-4)
    assert not np.array_equal(before, wanted)


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


def test_loops_and_their_steps_are_announced(device: Device) -> None:
    seen: list[int] = []

    def listen(event: str, data: dict[str, Any]) -> None:
        if event == "host_loop":
            seen.append(data["steps"])

    scan = minijit.jit(rnn)
    until = minijit.jit(lambda x: lax.while_loop(lambda v: v[0] < 3, lambda v: jnp.roll(v, 1), x))
    with events.subscribe(listen):
        scan(device.put(f32(3, 4)), device.put(f32(4, 4)), device.put(f32(6, 3, 4)))
        until(device.put(np.array([0, 5, 1, 2], np.float32)))
        until(device.put(np.array([9, 5, 1, 2], np.float32)))
    assert seen == [6, 3, 0]


def test_steps_allocate_nothing(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Counter[tuple[int, ...]]()
    backend = get_backend(device.name)
    original = backend.allocator

    def allocator(shape: Any, dtype: Any) -> Callable[[], Any]:
        allocate = original(shape, dtype)

        def counted() -> Any:
            made[tuple(shape)] += 1
            return allocate()

        return counted

    def f(h: Any, v: Any, w: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            wide = jnp.tanh(jnp.roll(c, 1, 0) @ v)
            return jnp.roll(wide @ w, 1, 1) + x, wide.sum()

        return lax.scan(step, h, xs)

    monkeypatch.setattr(backend, "allocator", allocator)
    jitted = minijit.jit(f)
    for count in (4, 40):
        shapes = ((3, 4), (4, 9), (9, 4), (count, 3, 4))
        args = [device.put(f32(*shape)) for shape in shapes]
        jitted(*args)
        made.clear()
        jitted(*args)
        assert made.pop((count,)) == 1
        # Two for the carry, one for what the library reads, and one for its product before the
        # last roll; steps of even and of odd number share what lies between.
        assert made == {(3, 4): 4, (3, 9): 2}


def test_nan_is_found_among_results_only(device: Device) -> None:
    def f(x: Any) -> Any:
        def step(c: Any, _: None) -> Any:
            masked = lax.cond(c[0] > 0, lambda v: jnp.log(-v @ v), lambda v: v @ v, c)
            return jnp.roll(c, 1) + jnp.where(jnp.isnan(masked), 0, masked), None

        return lax.scan(step, x, None, length=3)[0]

    def bad(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, v: jnp.log(jnp.roll(v, 1) - 5), x)

    x = device.put(np.full(3, 2, np.float32))
    with minijit.config.override(debug_nans=True):
        minijit.jit(f)(x)
        with pytest.raises(FloatingPointError, match="result 0 of 'bad' holds NaN"):
            minijit.jit(bad)(x)
    assert np.isnan(device.get(minijit.jit(bad)(x))).all()


def test_stats_and_kernels_show_what_bodies_consist_of(device: Device) -> None:
    def f(flag: Any, h: Any, w: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = lax.cond(flag, lambda v: jnp.tanh(v @ w), lambda v: v[::-1] @ w, c)
            return c + x, c.sum()

        return lax.scan(step, h, xs)

    jitted = minijit.jit(f)
    args = [np.bool_(True), *map(device.put, (f32(3), f32(3, 3), f32(5, 3)))]
    jitted(*args)
    stats = jitted.stats()
    assert (stats["host_loops"], stats["host_branches"], stats["plans"]) == (1, 1, 1)
    assert stats["eager_steps"] >= 2
    compiled = jitted.lower(*args).compile()
    kernels = compiled.kernels()
    assert len(kernels) == stats["kernels"] >= 2
    assert all(kernel.source in compiled.as_text().replace("\n    ", "\n") for kernel in kernels)
    assert any("tanh" in kernel.ir for kernel in kernels)
    costs = compiled.cost_analysis()
    assert costs["kernels"] == stats["kernels"]

    longer = [*args[:3], device.put(f32(50, 3))]
    more = jitted.lower(*longer).compile().cost_analysis()
    assert more["bytes accessed"] == 10 * costs["bytes accessed"] > 0
    assert more["flops"] >= 9 * costs["flops"] > 0


def test_kernels_that_hold_their_loop_count_as_kernels(device: Device) -> None:
    f = minijit.jit(lambda x: lax.fori_loop(0, 9, lambda i, v: v * 0.5 + i, x))
    x = device.put(f32(7))
    f(x)
    stats = f.stats()
    assert (stats["kernels"], stats["host_loops"], stats["host_branches"]) == (1, 0, 0)
    few, many = (
        minijit.jit(lambda x, n=n: lax.fori_loop(0, n, lambda i, v: jnp.sin(v), x))
        .lower(x)
        .compile()
        .cost_analysis()
        for n in (10, 1000)
    )
    assert many["flops"] >= 90 * few["flops"] > 0

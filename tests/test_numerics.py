"""Compiled values against NumPy's: primitives, dtypes, layouts, any number of threads."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit.extend.checks import assert_values
from minijit.graph.config import config
from minijit.graph.primitive import Primitive
from tests.conftest import Device, on_each_device
from tests.ops.samples import (
    DTYPES,
    Signature,
    assert_agrees,
    assert_same,
    elementwise_primitives,
    signatures,
)
from tests.sampling import paired, sampled

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


PRIMITIVES = elementwise_primitives()


def chosen_signatures(device: Device, primitive: Primitive) -> list[Signature]:
    """All dtypes of a primitive; every sixth on the emulated device, other ones for the next."""
    every = signatures(primitive)
    few = device.name == "cuda-emulated"
    return sampled(every, 6, PRIMITIVES.index(primitive)) if few else every


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=str)
def test_every_elementwise_primitive(device: Device, primitive: Primitive) -> None:
    """Compute all dtypes of a primitive in one program; equal lengths make them one kernel."""

    def eager(*columns: Any) -> Any:
        return np.asarray(primitive.eager(np, *columns))

    def agrees(got: Any, want: Any, columns: Any) -> None:
        assert_agrees(primitive, got, want, columns)

    assert_values(primitive, chosen_signatures(device, primitive), eager, agrees)


def test_the_sample_has_every_dtype() -> None:
    taken = {
        dtype
        for primitive in PRIMITIVES
        for signature in chosen_signatures(Device("cuda-emulated"), primitive)
        for dtype in signature
    }
    assert taken == set(DTYPES)


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_casts(device: Device, source: np.dtype[Any]) -> None:
    values = RNG.integers(0, 100, 40).astype(source)
    if source.kind in "iuf":
        values = np.concatenate([values, np.array([0, 1, 2, 99.0, 127, 100], source)])
    if source.kind == "f":
        values = np.concatenate([values, -values, values + source.type(0.5)])
    got = minijit.jit(lambda x: [x.astype(dtype) for dtype in DTYPES])(device.put(values))
    for dtype, result in zip(DTYPES, device.get(got), strict=True):
        unsigned = source.kind == "f" and dtype.kind == "u"
        x, result = (values[values >= 0], result[values >= 0]) if unsigned else (values, result)
        assert_same(result, x.astype(dtype), [x])


REDUCTIONS: dict[str, Callable[..., Any]] = {
    name: (lambda x, axis, keepdims, name=name: getattr(x, name)(axis=axis, keepdims=keepdims))
    for name in ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "mean", "var")
}
AXES = (None, 0, 1, -1, (0, 1), (0, 2), (0, 1, 2))
# What is composed of sums needs no sweep of its own.
COMPOSED_AXES = (None, -1, (0, 2))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_reduction_over_every_axis(device: Device, dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(DTYPES.index(dtype))  # the same numbers whatever ran before
    x = rng.integers(-2 if dtype.kind in "if" else 0, 3, (4, 6, 37)).astype(dtype)
    x[2, 3, :9] = 1

    # The kernels of an axis serve all reductions: the emulated device takes other axes by dtype.
    few = device.name == "cuda-emulated"
    axes = sampled(AXES, 5, DTYPES.index(dtype)) if few else AXES

    def apply(x: Any) -> dict[str, Any]:
        results = {}
        for name, reduce in REDUCTIONS.items():
            for axis in axes:
                if axis not in COMPOSED_AXES and name in ("mean", "var"):
                    continue
                if isinstance(axis, tuple) and name.startswith("arg"):
                    continue
                for keepdims in (False, True) if axis == -1 else (False,):
                    results[f"{name} {axis} {keepdims}"] = reduce(x, axis, keepdims)
        return results

    got, want = device.get(minijit.jit(apply)(device.put(x))), apply(x)
    if dtype == np.float16:  # in which a part of a product overflows where the whole is zero
        wide = apply(x.astype(np.float32))
        want |= {k: wide[k].astype(dtype) for k in want if k.startswith("prod")}
    for name, result in want.items():
        assert (got[name].dtype, got[name].shape) == (result.dtype, np.shape(result)), name
        # Sums of small integers are exact in every dtype; products and quotients are rounded.
        exact = result.dtype.kind != "f" or name.split()[0] not in ("prod", "mean", "var")
        # Another order of adding 888 numbers moves the last few bits.
        tolerance = 0 if exact else 16 * np.finfo(result.dtype).eps
        np.testing.assert_allclose(got[name], result, rtol=tolerance, err_msg=name)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_reductions_of_special_values(device: Device, dtype: str) -> None:
    rows = np.array(
        [
            [1, 2, np.nan, 3],
            [np.inf, 1, 2, 3],
            [-np.inf, np.inf, 1, 2],
            [np.nan, np.nan, np.inf, 1],
            [-np.inf, -np.inf, -1, -2],
            [-0.0, -0.0, -0.0, -0.0],
        ],
        dtype,
    )

    def apply(x: Any) -> list[Any]:
        every = (x.sum(1), x.max(1), x.min(1), x.argmax(1), x.argmin(1), x.prod(1), x.any(1))
        return [*every, x.max(), x.min(), x.argmax(), x.sum(0), x.max(0), x.argmin(0)]

    for got, want in zip(
        device.get(minijit.jit(apply)(device.put(rows))), apply(rows), strict=True
    ):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_empty_arrays(device: Device, shape: tuple[int, ...]) -> None:
    x = np.ones(shape, np.float32)

    def apply(x: Any) -> list[Any]:
        return [x * 2 + 1, x.sum(), x.prod(), x.sum(0), x.sum(-1), x.any(), x.all(), x.sum() + 1]

    for got, want in zip(device.get(minijit.jit(apply)(device.put(x))), apply(x), strict=True):
        np.testing.assert_array_equal(got, want)
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(ValueError, match=r"zero-size|empty|identity"):
            minijit.jit(lambda x, name=name: getattr(x, name)())(device.put(x))


LONG = [(300_000,), (3, 100_000), (20_000, 3), (64, 4097)]
SUMMED = ("float32", "float16")


@on_each_device("case", itertools.product(LONG, SUMMED), emulated=paired(LONG, SUMMED))
def test_sums_are_no_less_accurate_than_pairwise(
    device: Device, case: tuple[tuple[int, ...], str]
) -> None:
    shape, dtype = case
    scale = 1.0 if dtype == "float32" else 0.05
    x = (np.random.default_rng(7).uniform(0.1, 1, shape) * scale).astype(dtype)
    got = device.get(minijit.jit(lambda x: (x.sum(), x.sum(-1), x.sum(0)))(device.put(x)))
    for result, axis in zip(got, (None, -1, 0), strict=True):
        exact = x.astype(np.float64).sum(axis)
        eps = float(np.finfo(dtype).eps)
        error = np.abs(result.astype(np.float64) - exact) / exact
        eager = np.abs(x.sum(axis).astype(np.float64) - exact) / exact
        assert np.max(error) <= max(2 * np.max(eager), 2 * eps)


def mixed(x: Any, y: Any) -> list[Any]:
    e = jnp.exp(-x * y)
    return [e, e.sum(-1), e.sum(0), e.sum(), (x * y).max(0), x.argmin(), (e / e.sum(-1)[:, None])]


@on_each_device(
    "shape", [(700, 500), (3, 200_000), (100_000, 3)], emulated=[(70, 500), (3, 20_000)]
)
def test_results_do_not_depend_on_the_number_of_threads(
    device: Device, shape: tuple[int, ...]
) -> None:
    x, y = (device.put(RNG.standard_normal(shape).astype(np.float32)) for _ in range(2))
    f = minijit.jit(mixed)
    results = []
    for threads in (1, 2, 3, 1):
        with config.override(num_threads=threads):
            results.append([r.copy() for r in device.get(f(x, y))])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert a.tobytes() == b.tobytes()


CHAINS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "multiply-add": lambda a, b, c: a * b + c,
    "add-multiply-subtract": lambda a, b, c: (a + b) * c - a,
    "two-products": lambda a, b, c: a * b - b * c,
    "association": lambda a, b, c: (a + b) + (c + a) + b,
    "division": lambda a, b, c: a / b / c + a / 3.0,
    "negation": lambda a, b, c: -(a - b) * c + (0.0 - a),
    "zero": lambda a, b, c: (a - a) * c + b * 0.0 + (a + 0.0) * -1.0,
    "roots": lambda a, b, c: np.sqrt(np.abs(a)) / (np.sqrt(np.abs(b)) + c),
    "horner": lambda a, b, c: ((a * 0.1 + 0.3) * a + 0.7) * a + 1.1,
    "powers": lambda a, b, c: a**2 + b**2 - c**3,
    "where": lambda a, b, c: np.where(a > b, a * c, b + c) * 1.5,
    "integers": lambda a, b, c: np.floor(a * 8) % 7 // 2 + np.rint(b * 3) - np.sign(c),
    "casts": lambda a, b, c: (a * 100).astype(np.int32) * 3 + b.astype(np.float64) * c,
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_arithmetic_is_bit_for_bit_that_of_single_operations(device: Device, dtype: str) -> None:
    """No contraction to fused multiply-add, no reassociation, no reciprocals, no lost signs."""
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-7, 6e-8, -3e4, 65000.0]
    corners = np.array(np.meshgrid(special, special, special)).reshape(3, -1)
    a, b, c = np.concatenate([RNG.standard_normal((3, 4000)) * 3, corners], 1).astype(dtype)
    chains = dict(CHAINS)
    finite = np.isfinite(a)

    def apply(a: Any, b: Any, c: Any) -> dict[str, Any]:
        return {name: chain(a, b, c) for name, chain in chains.items()}

    got = device.get(minijit.jit(apply)(*map(device.put, (a, b, c))))
    for name, want in apply(a, b, c).items():
        where = finite if name == "casts" else slice(None)  # infinity has no integer
        if name == "powers":
            continue  # NumPy's own pow is within an ulp; squares are compared below
        assert_same(got[name][where], want[where], [a[where], b[where], c[where]])
    squares = device.get(minijit.jit(lambda a: a**2)(device.put(a)))
    assert_same(squares, a**2, [a])


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda a: a[0].copy(),
    "fortran": lambda a: np.asfortranarray(a[0]),
    "transposed": lambda a: a[0].reshape(9, 6).T,
    "negative": lambda a: a[1][::-1, ::-1],
    "last-axis-strided": lambda a: np.moveaxis(a, 0, -1)[..., 1],
    "stepped": lambda a: np.repeat(np.repeat(a[2], 2, 0), 3, 1)[::2, ::-3],
    "offset": lambda a: np.pad(a[0], 3)[3:-3, 3:-3],
    "broadcast-rows": lambda a: np.broadcast_to(a[0, 0], (6, 9)),
    "broadcast-columns": lambda a: np.broadcast_to(a[0, :, :1], (6, 9)),
    "broadcast-all": lambda a: np.broadcast_to(a[0, 0, 0], (6, 9)),
}


def everything(x: Any, y: Any) -> list[Any]:
    rows = [x * 2 + y, x.T @ y, x.sum(0), (x + y).sum(1), x.max(), (x - y).argmax(1)]
    return [*rows, x.T + y.T, x[1:] - y[:-1], x.reshape(3, 18) * 2, np.concatenate([x, y], 1)]


@on_each_device("first", LAYOUTS, emulated=["transposed", "last-axis-strided", "broadcast-rows"])
def test_layouts(device: Device, first: str) -> None:
    """Operands of two layouts each, all through one traced program."""
    base = np.arange(3 * 6 * 9, dtype=np.float32).reshape(3, 6, 9) % 23
    # A function of its own: the programs of another device are kept with the function.
    f = minijit.jit(lambda x, y: everything(x, y))
    x = LAYOUTS[first](base)
    for second in ("contiguous", "negative"):
        y = LAYOUTS[second](base)
        got = device.get(f(device.put(x), device.put(y)))
        for a, b in zip(got, everything(x, y), strict=True):
            np.testing.assert_array_equal(a, b)
    assert f._cache_size() == 1


SHAPES = [
    ((3, 1), (1, 4)),
    ((1,), (5,)),
    ((2, 1, 3), (4, 1)),
    ((), (2, 3)),
    ((1, 1), (3,)),
    ((3, 1), (3, 0)),
    ((4, 1, 2, 1), (3, 1, 5)),
]


def test_broadcasting(device: Device) -> None:
    f = minijit.jit(lambda x, y: (x + y, y - x, x * y + x))
    for a, b in SHAPES:
        x = np.arange(np.prod(a, dtype=int), dtype=np.float32).reshape(a) + 1
        y = np.arange(np.prod(b, dtype=int), dtype=np.float32).reshape(b) * 2
        got = device.get(f(device.put(x), device.put(y)))
        for result, want in zip(got, (x + y, y - x, x * y + x), strict=True):
            np.testing.assert_array_equal(result, want)


LENGTHS = (1, 2, 31, 33, 255, 257, 1025, 4096, 65_537, 300_003)


@on_each_device("n", LENGTHS, emulated=[1, 33, 257, 4096, 300_003])
def test_lengths_around_the_sizes_of_blocks(device: Device, n: int) -> None:
    x = (np.arange(n) % 97).astype(np.int32)
    f = minijit.jit(lambda v: (v * 2 - 1, v.sum(), v.max(), v.argmax(), v[-1], v[::-1]))
    want = (x * 2 - 1, x.sum(), x.max(), x.argmax(), x[-1], x[::-1])
    for got, expected in zip(device.get(f(device.put(x))), want, strict=True):
        np.testing.assert_array_equal(got, expected)


@on_each_device("n", [1, 7, 255, 1341], emulated=[7, 1341])
def test_every_element_of_mixed_widths_is_written(device: Device, n: int) -> None:
    """Narrow and wide elements side by side: vectors of the one, single elements of the other."""
    counts = np.arange(n) % 100 + 1
    narrow, wide = counts.astype(np.int8), [counts / k for k in range(1, 6)]

    def function(a: Any, *wide: Any) -> list[Any]:
        return [np.gcd(a, np.int8(12)), *(np.fmod(a, b) + np.exp2(np.floor(b)) for b in wide)]

    got = device.get(minijit.jit(function)(device.put(narrow), *map(device.put, wide)))
    for result, want in zip(got, function(narrow, *wide), strict=True):
        np.testing.assert_array_equal(result, want)


def test_signs_of_nans_are_read(device: Device) -> None:
    """Also in vectors, their tails, single elements, arguments, and after a rounding."""
    signs = RNG.integers(0, 2, 1003) * 2 - 1
    for dtype in (np.float16, np.float32, np.float64):
        x = np.copysign(dtype(np.nan), signs.astype(dtype))
        f = minijit.jit(
            lambda x, s: (
                np.signbit(x),
                np.signbit(x[::-3]),
                np.copysign(np.abs(s), x),
                np.signbit(np.copysign(np.copysign(x, s), x)),
            )
        )
        results = device.get(f(device.put(x), dtype(-2)))
        want = np.signbit(x)
        np.testing.assert_array_equal(results[0], want)
        np.testing.assert_array_equal(results[1], want[::-3])
        np.testing.assert_array_equal(results[2], np.where(want, -2, 2))
        np.testing.assert_array_equal(results[3], want)
        # A program of its own: it has no sign of the narrow type to keep.
        wider = minijit.jit(lambda x: np.copysign(np.float64(2), x.astype(np.float64)))
        np.testing.assert_array_equal(device.get(wider(device.put(x))), np.where(want, -2, 2))


def test_long_float32_sums_are_no_less_accurate_than_numpys(device: Device) -> None:
    """Also where the sum is put together from parts, each as large as what the others lose."""
    f = minijit.jit(lambda x: x.sum())
    ours, numpys = [], []
    for seed in range(6):
        x = np.random.default_rng(seed).random(300_003, dtype=np.float32)
        exact = math.fsum(x.tolist())
        ours.append(abs(float(device.get(f(device.put(x)))) - exact))
        numpys.append(abs(float(x.sum()) - exact))
    assert max(ours) <= max(numpys)
    assert sum(ours) <= sum(numpys)

"""`@reduction`: tuples of components, one kernel with neighbours, the same bits in every run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.extend import reduction, scope
from minijit.graph.config import config
from minijit.graph.errors import DeclarationError
from tests.conftest import Device, on_each_device

RNG = np.random.default_rng(5)
INTEGERS = ("int8", "int32", "int64", "uint8")

with scope():  # tests of the registry are not to meet these

    @reduction(
        identity=(np.int64(0), 0.0, 0.0),
        element=lambda x: (1, x, 0.0),
        finish=(lambda n, mean, m2: mean, lambda n, mean, m2: m2 / n),
        dtypes="float",
    )
    def welford(n: Any, mean: Any, m2: Any, k: Any, other: Any, s2: Any) -> Any:
        """Mean and variance in one pass (Chan, Golub and LeVeque 1979)."""
        total = n + k
        if total == 0:
            return 0, 0.0, 0.0
        delta, share = other - mean, k / total
        return total, mean + delta * share, m2 + s2 + delta * delta * n * share

    @reduction(
        identity=(-math.inf, 0.0),
        element=lambda x: (x, 1),
        finish=lambda m, s: m + math.log(s),
        dtypes="float",
    )
    def logsumexp(m: Any, s: Any, n: Any, t: Any) -> Any:
        if m == n:
            return m, s + t
        return (m, s + t * math.exp(n - m)) if m > n else (n, t + s * math.exp(m - n))

    @reduction(
        identity=lambda dtype: (np.finfo(dtype).min, np.int64(2**62)),
        element=lambda x, i: (x, i),
        finish=lambda x, i: i,
        position=True,
        result=np.int64,
        only=("float32", "float64"),
    )
    def first_largest(x: Any, i: Any, y: Any, j: Any) -> Any:
        return (x, i) if x > y or (x == y and i < j) else (y, j)

    @reduction(identity=0, only=INTEGERS)
    def all_bits(x: Any, y: Any) -> Any:
        return x | y

    @reduction(
        identity=(False, True),
        element=lambda x: (x > 0, x > 0),
        finish=lambda a, b: a and not b,
        result=bool,
    )
    def mixed_signs(a: Any, b: Any, c: Any, d: Any) -> Any:
        return a or c, b and d

    @reduction(identity=0.0, element=lambda x: x * x, finish=lambda s: math.sqrt(s), dtypes="float")
    def norm(x: Any, y: Any) -> Any:
        return x + y


REFERENCES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "mean": (lambda x, axis: welford(x, axis)[0], lambda x, axis: x.mean(axis)),
    "variance": (lambda x, axis: welford(x, axis)[1], lambda x, axis: x.var(axis)),
    "logsumexp": (logsumexp, lambda x, axis: np.log(np.exp(x).sum(axis))),
    "argmax": (first_largest, lambda x, axis: x.argmax(axis)),
    "mixed": (mixed_signs, lambda x, axis: (x > 0).any(axis) & ~(x > 0).all(axis)),
    "norm": (norm, lambda x, axis: np.sqrt((x * x).sum(axis))),
}
SHAPES = [(5,), (3, 7), (4, 300), (1000, 6), (2, 3, 40), (3, 40_000)]


@on_each_device("shape", SHAPES, emulated=SHAPES[1:5])
def test_values_over_every_axis(device: Device, shape: tuple[int, ...]) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    axes = (None, 0, -1)

    @minijit.jit
    def program(x: Any) -> Any:
        return {(name, axis): f(x, axis) for name, (f, _) in REFERENCES.items() for axis in axes}

    for (name, axis), got in device.get(program(device.put(x))).items():
        want = REFERENCES[name][1](x.astype(np.float64), axis)
        assert np.shape(got) == np.shape(want), name
        assert got.dtype == {"argmax": np.int64, "mixed": np.bool_}.get(name, np.float32)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6, err_msg=f"{name} {axis}")


@pytest.mark.parametrize(
    ("shape", "axis"), [((1, 70_000), 1), ((2, 5000), 1), ((600, 40), 0)], ids=str
)
def test_threads_of_several_warps_exchange_tuples(shape: tuple[int, ...], axis: int) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    f = minijit.jit(lambda x: (welford(x, axis)[1], mixed_signs(x, axis), logsumexp(x, axis)))
    with minijit.default_device("cuda-emulated"):
        variance, mixed, total = map(np.asarray, f(x))
        kernels = f.lower(x).compile().kernels()
    np.testing.assert_allclose(variance, x.var(axis, dtype=np.float64), rtol=1e-4)
    np.testing.assert_array_equal(mixed, (x > 0).any(axis) & ~(x > 0).all(axis))
    np.testing.assert_allclose(total, np.log(np.exp(x.astype(float)).sum(axis)), rtol=1e-5)
    assert "syncthreads" in kernels[0].source
    assert len(kernels) == (2 if shape[0] == 1 else 1)  # few long rows are split


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "uint8"])
def test_other_dtypes(device: Device, dtype: str) -> None:
    x = RNG.integers(0, 9, (4, 33)).astype(dtype)
    mean, variance = device.get(minijit.jit(lambda x: welford(x, 1))(device.put(x)))
    wanted = {"uint8": np.float16, "int32": np.float64}.get(dtype, np.dtype(dtype))
    assert mean.dtype == variance.dtype == wanted
    tolerance = 4e-3 if wanted == np.float16 else 1e-12
    np.testing.assert_allclose(mean, x.mean(1, dtype=np.float64), rtol=tolerance)
    np.testing.assert_allclose(variance, x.var(1, dtype=np.float64), rtol=tolerance)
    if np.dtype(dtype).kind in "iu":
        got = device.get(minijit.jit(lambda x: all_bits(x, 0))(device.put(x)))
        np.testing.assert_array_equal(got, np.bitwise_or.reduce(x, axis=0))
        assert got.dtype == dtype


def test_one_kernel_with_neighbours_and_siblings(device: Device, counts: Counter[str]) -> None:
    def standardised(x: Any) -> Any:
        mean, variance = welford(np.exp(x), -1, keepdims=True)
        return (x - mean) / np.sqrt(variance + 1e-5), logsumexp(x, -1)

    x = RNG.standard_normal((8, 100)).astype(np.float32)
    f = minijit.jit(standardised)
    got = device.get(f(device.put(x)))
    e = np.exp(x.astype(np.float64))
    want = (x - e.mean(-1, keepdims=True)) / np.sqrt(e.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(got[0], want, rtol=1e-4, atol=1e-4)
    assert f.stats()["kernels"] == 1
    (kernel,) = f.lower(device.put(x)).compile().kernels()
    # Mean and variance are made of what is accumulated once.
    assert kernel.source.count("element_welford_float32(") == 1
    assert counts["compile"] == 1


def test_bits_do_not_depend_on_threads() -> None:
    x = RNG.standard_normal((3, 50_000)).astype(np.float32)
    f = minijit.jit(lambda x: (welford(x, 1), welford(x, 0), logsumexp(x)))
    kept = []
    for threads in (1, 2, 3):
        with config.override(num_threads=threads):
            (a, b), (c, d), e = f(x)
            kept.append(b"".join(v.tobytes() for v in (a, b, c, d, e)))
    assert len(set(kept)) == 1


def test_eager_calls_and_keepdims(device: Device, counts: Counter[str]) -> None:
    x = RNG.standard_normal((3, 8)).astype(np.float32)
    got = device.get(logsumexp(device.put(x), 1, keepdims=True))
    np.testing.assert_allclose(got, np.log(np.exp(x).sum(1, keepdims=True)), rtol=1e-6)
    assert got.shape == (3, 1)
    assert counts["compile"] == 1
    np.testing.assert_allclose(device.get(norm(device.put(x), ())), np.abs(x), rtol=1e-6)
    assert float(norm([3, 4])) == 5


def test_rows_of_nothing() -> None:
    x = np.zeros((2, 0), np.float32)
    mean, variance = minijit.jit(lambda x: welford(x, 1))(x)
    np.testing.assert_array_equal(mean, np.zeros(2, np.float32))
    assert np.isnan(variance).all()
    assert minijit.jit(lambda x: norm(x, 0))(x).shape == (0,)
    with pytest.raises(ValueError, match=r"zero-size array to logsumexp.*test_reduction\.py"):
        minijit.jit(lambda x: logsumexp(x, 1))(x)


def test_in_loops(device: Device) -> None:
    x = RNG.standard_normal((4, 9)).astype(np.float32)

    def normalised(x: Any) -> Any:
        return minijit.lax.fori_loop(0, 3, lambda i, v: v - logsumexp(v, 1, keepdims=True), x)

    want = x.astype(np.float64)
    for _ in range(3):
        want = want - np.log(np.exp(want).sum(1, keepdims=True))
    got = device.get(minijit.jit(normalised)(device.put(x)))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_scans_keep_totals_whole(device: Device) -> None:
    """A total of rows must not be taken from totals of parts of them."""
    x = RNG.standard_normal((3, 4, 5)).astype(np.float32)

    def step(carry: Any, row: Any) -> Any:
        h = carry + row - logsumexp(row, 1, keepdims=True)
        return h, norm(h)

    _, got = minijit.jit(lambda x: minijit.lax.scan(step, x[0] * 0, x))(device.put(x))
    carry, want = np.zeros((4, 5)), []
    for row in x.astype(np.float64):
        carry = carry + row - np.log(np.exp(row).sum(1, keepdims=True))
        want.append(np.sqrt((carry**2).sum()))
    np.testing.assert_allclose(device.get(got), want, rtol=1e-5)


@pytest.mark.parametrize(
    ("combine", "options", "message"),
    [
        (lambda x, y: x - y, {"identity": 0.0}, r"\(test_reduction\.py:\d+\): 0 is no identity"),
        (lambda x, y: x + y, {"identity": 1.0}, "1 is no identity: combined with 0 it gives 1"),
        (lambda x, y: x * y + x + y if x < 2 else x + y, {"identity": 0.0}, "not commutative"),
        (lambda x, y: math.sqrt(x * x + y * y) + x * y * 0.1, {"identity": 0.0}, "no identity"),
        (lambda x, y: x + y + 0.25 * x * x * y * y, {"identity": 0.0}, "is not associative.*first"),
        (lambda x, y, z: x, {"identity": 0.0}, "combine of <lambda> .* takes 3 numbers and is giv"),
        (lambda x, y, z, w: (x, z), {"identity": (0.0, 1.0)}, "nothing makes them of an element"),
        (lambda x, y: x + y, {"identity": 0.0, "finish": lambda x, n: x}, "finish of .* takes 2"),
        (lambda x, y: x + y, {"identity": "0"}, "has '0', which is no number"),
        (
            lambda n, s, m, t: (n + m, s + t),
            {"identity": (0, 0.0), "element": lambda x: x},
            r"element of <lambda> \(test_reduction\.py:\d+\) gives 1 numbers.* 2 components",
        ),
    ],
)
def test_what_is_no_reduction_is_refused_at_once(
    combine: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DeclarationError, match=message):
        reduction(name="wrong", **options)(combine)


def test_an_unusable_spelling_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"write @reduction\(identity=\.\.\.\)"):
        reduction(lambda x, y: x + y)  # type: ignore[call-overload]
    reduction(identity=0.0, name="mine")(lambda x, y: x + y)
    with pytest.raises(DeclarationError, match="another monoid named 'mine'"):
        reduction(identity=0.0, name="mine")(lambda x, y: x + y)


def test_an_identity_that_a_dtype_cannot_hold_is_refused_when_it_is_met() -> None:
    with scope():
        both = reduction(identity=-1, name="both")(lambda x, y: x & y)
        assert both(np.array([6, 3, 2], np.int32)) == 2
        with pytest.raises(DeclarationError, match=r"'both' is -1, which uint8 .*_reduction\.py:"):
            both(np.array([6, 3, 2], np.uint8))


def test_components_of_another_kind_are_refused_when_compiled(device: Device) -> None:
    wrong = reduction(identity=(0.0, np.int64(0)), element=lambda x: (x, 0.5), name="kinds")(
        lambda x, i, y, j: (x + y, i + j)
    )
    with pytest.raises(DeclarationError, match=r"it returns float.* where int64 is declared"):
        minijit.jit(lambda x: wrong(x))(device.put(np.ones(3, np.float32)))


def test_a_combination_of_another_kind_is_refused_by_its_line(device: Device) -> None:
    """What is refused is the check of its result, in a line after that of the call."""
    with scope():

        @reduction(identity=lambda dtype: dtype.type(0))
        def added(a: Any, b: Any) -> Any:
            return a + b

        x = device.put(np.array([True, False]))
        refusal = r"^test_reduction.py:\d+ \(added\): it returns int64 where bool is declared"
        with pytest.raises(DeclarationError, match=refusal):
            minijit.jit(lambda x: added(x))(x)

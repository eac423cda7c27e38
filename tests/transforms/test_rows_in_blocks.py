"""Few long rows that are reduced twice, in blocks: the same results, by fewer kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.debug import kernel_report
from minijit.graph.check import check_jaxpr
from minijit.graph.evaluate import evaluate
from minijit.graph.few_rows import FewRows
from minijit.graph.jaxpr import Jaxpr
from minijit.runtime.pipeline import optimize
from minijit.tools import workloads
from minijit.transforms.exponentials_in_blocks import exponentials_in_blocks
from minijit.transforms.sums_in_blocks import sums_in_blocks

RANDOM = np.random.default_rng(11)
FEW = FewRows(264)
F16 = np.float16
Function = Callable[..., Any]


def draw(*shape: int, dtype: Any = np.float32) -> Any:
    return (RANDOM.standard_normal(shape) * 8).astype(dtype)


def softmax(x: Any, axis: Any = -1) -> Any:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def logsumexp(x: Any, axis: Any = -1) -> Any:
    top = x.max(axis=axis, keepdims=True)
    return np.log(np.exp(x - top).sum(axis=axis, keepdims=True)) + top


def standardise(x: Any, axis: Any = -1) -> Any:
    return (x - x.mean(axis=axis, keepdims=True)) / x.std(axis=axis, keepdims=True)


def variance(x: Any, axis: Any = -1) -> Any:
    return x.var(axis=axis)


FUNCTIONS: dict[str, Function] = {
    "softmax": softmax,
    "logsumexp": logsumexp,
    "standardise": standardise,
    "variance": variance,
}
PLACES: dict[str, tuple[tuple[int, ...], Any]] = {
    "rows": ((2, 40_000), -1),
    "columns": ((40_000, 3), 0),
    "between": ((2, 32_768, 3), 1),
    "all": ((256, 200), None),
    "two of three": ((2, 90, 400), (1, 2)),
    "an odd length": ((3, 29 * 1733), -1),
    "a prime length": ((2, 40_009), -1),
    "columns of a prime length": ((40_009, 3), 0),
    "two primes": ((2, 211, 199), (1, 2)),
}


def in_blocks(jaxpr: Jaxpr, few: FewRows = FEW) -> Jaxpr:
    return exponentials_in_blocks(sums_in_blocks(jaxpr, few), few)


def divided(function: Function, *args: Any) -> tuple[Jaxpr, Jaxpr]:
    """Return a program before and after."""
    before = optimize(minijit.make_jaxpr(function)(*args))
    after = in_blocks(before)
    check_jaxpr(after)
    assert after.out_avals == before.out_avals
    return before, after


def reductions(jaxpr: Jaxpr) -> int:
    return sum(eqn.primitive.monoid is not None for eqn in jaxpr.eqns)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_values(name: str, place: str, dtype: Any) -> None:
    shape, axis = PLACES[place]
    x = draw(*shape, dtype=dtype)
    function = partial(FUNCTIONS[name], axis=axis)
    before, after = divided(function, x)
    assert reductions(after) == 2 * reductions(before) + (name in ("standardise", "variance"))
    (got,), wanted = evaluate(after, [x]), function(x.astype(np.float64))
    assert (got.shape, got.dtype) == (wanted.shape, dtype)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())


SPECIAL: dict[str, Callable[[Any], None]] = {
    "nan": lambda x: x.__setitem__((0, 5), np.nan),
    "inf": lambda x: x.__setitem__((0, 5), np.inf),
    "one -inf": lambda x: x.__setitem__((0, 5), -np.inf),
    "a block of -inf": lambda x: x.__setitem__((0, slice(0, 20_000)), -np.inf),
    "a row of -inf": lambda x: x.__setitem__(0, -np.inf),
    "far below zero": lambda x: x.__isub__(np.float32(100)),
    "a block of -inf far below zero": lambda x: (
        x.__isub__(np.float32(100)),
        x.__setitem__((0, slice(0, 20_000)), -np.inf),
    ),
    "too large to sum": lambda x: x.__imul__(np.float32(1e37)),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("columns", [40_000, 40_009])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name: str, columns: int, special: str) -> None:
    x = draw(2, columns)
    SPECIAL[special](x)
    _, after = divided(FUNCTIONS[name], x)
    (got,) = evaluate(after, [x])
    wanted = FUNCTIONS[name](x)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(wanted))
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("columns", [98_304, 98_317])
def test_a_variance_loses_nothing_to_the_rounding_of_the_means_of_blocks(columns: int) -> None:
    x = draw(3, columns) / 2 + np.float32(1000)
    _, after = divided(variance, x)
    (got,) = evaluate(after, [x])
    np.testing.assert_allclose(got, x.astype(np.float64).var(-1), rtol=2e-7)


def two_rests(x: Any) -> Any:
    top = x.max(-1, keepdims=True)
    return np.exp(x - top).sum(-1) + np.exp(x - top).max(-1) + (x - top).sum(-1)


LEFT: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "short": (softmax, (draw(4, 20_000),)),
    "many": (softmax, (draw(300, 32_768),)),
    "squares of halves": (
        lambda x: ((x - x.mean(-1, keepdims=True)) ** 2).sum(-1), (draw(2, 40_000, dtype=F16),),
    ),
    "above another maximum": (lambda x, y: np.exp(x - y.max(-1, keepdims=True)).sum(-1),
                              (draw(2, 40_000), draw(2, 40_000))),
    "above the maximum of all": (lambda x: np.exp(x - x.max()).sum(-1), (draw(2, 40_000),)),
    "above the minimum": (lambda x: np.exp(x - x.min(-1, keepdims=True)).sum(-1),
                          (draw(2, 40_000) / 8,)),
    "products of two differences": (
        lambda x, y: ((x - x.mean(-1, keepdims=True)) * (y - y.mean(-1, keepdims=True))).sum(-1),
        (draw(2, 40_000), draw(2, 40_000)),
    ),
    "maxima along columns of a square": (
        lambda x: np.exp(x - x.max(0)[:, None]).sum(-1), (draw(200, 200),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_others_stay_as_they_are(name: str) -> None:
    function, args = LEFT[name]
    before = optimize(minijit.make_jaxpr(function)(*args))
    few = FewRows(264, 1 << 7) if "square" in name else FEW
    assert in_blocks(before, few) is before


def test_what_else_needs_a_reduction_has_it() -> None:
    x = draw(2, 40_000)
    before, after = divided(two_rests, x)
    assert reductions(after) == reductions(before) + 2
    (got,) = evaluate(after, [x])
    np.testing.assert_allclose(got, two_rests(x.astype(np.float64)), rtol=1e-5)


@pytest.mark.parametrize("name", ["softmax", "logsumexp"])
def test_halves_are_rounded_once(name: str) -> None:
    x = draw(2, 40_009, dtype=F16)
    before, after = divided(FUNCTIONS[name], x)
    assert reductions(after) == 2 * reductions(before)
    (got,), wanted = evaluate(after, [x]), FUNCTIONS[name](x.astype(np.float64))
    assert got.dtype == F16
    np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=2e-3 * np.abs(wanted).max())


def test_rows_abreast_are_a_unit() -> None:
    few = FewRows(264, abreast=8)
    assert few.has((5000, 839), {0})
    assert not few.has((5000, 839), {1})
    assert not few.has((5000, 2200), {0})
    assert not few.has((2048, 2048), {0})
    assert few.has((40_000, 3), {0})
    assert not few.has((8000, 3), {0})
    assert not few.has((40_000, 3), ())


@pytest.mark.parametrize(
    ("function", "arrays", "launches", "passes"),
    [
        (workloads.softmax, 0, 3, 3),
        (workloads.layernorm, 2, 3, 3),
        (workloads.logsumexp, 0, 2, 1),
        (lambda xp, x: softmax(x * 2 + 1), 0, 3, 3),
    ],
    ids=["softmax", "layernorm", "logsumexp", "softmax of what is computed"],
)
@pytest.mark.parametrize("columns", [65_536, 65_537])
def test_kernels_on_cuda(
    function: Any, arrays: int, launches: int, passes: int, columns: int
) -> None:
    """A pass reads the rows or writes them."""
    x, vectors = draw(4, columns), [draw(columns) for _ in range(arrays)]
    report = kernel_report(partial(function, np), x, *vectors)
    assert len(report.kernels) == launches
    assert report.bytes <= 1.02 * passes * x.nbytes + sum(v.nbytes for v in vectors)
    wanted = function(np, x.astype(np.float64), *vectors)
    np.testing.assert_allclose(report.outputs, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(9001, 19), (5000, 83)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_few_long_columns_on_cuda(name: str, shape: tuple[int, ...]) -> None:
    x = draw(*shape)
    report = kernel_report(partial(FUNCTIONS[name], axis=0), x)
    whole = name in ("softmax", "standardise")
    assert len(report.kernels) == 2 + whole
    # Columns that fill no sectors share some of them with the next tile.
    assert report.bytes <= 1.1 * (3 if whole else 1) * x.nbytes
    wanted = FUNCTIONS[name](x.astype(np.float64), axis=0)
    np.testing.assert_allclose(report.outputs, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", ["cpu", "cuda-emulated"])
def test_bits_are_the_same_in_every_run(device: str) -> None:
    x = draw(3, 49_152)
    with minijit.default_device(device):
        f = minijit.jit(lambda x: (softmax(x), standardise(x)))
        first, again = f(x), f(x)
    for one, other, function in zip(first, again, (softmax, standardise), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
        wanted = function(x.astype(np.float64))
        np.testing.assert_allclose(np.asarray(one), wanted, rtol=1e-5, atol=1e-6)


def test_what_reads_nothing_is_no_sum_of_exponentials() -> None:
    jaxpr = minijit.make_jaxpr(lambda x: np.exp(x) + minijit.numpy.arange(3.0))(draw(3))
    assert exponentials_in_blocks(jaxpr, FEW) is jaxpr

"""``vmap`` of what users declare: by kind, by a rule of their own, one by one, or not at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import minijit
from minijit import jit, vmap
from minijit.extend import (
    bind,
    check_primitive,
    custom_call,
    elementwise,
    library,
    reduction,
    sequential,
    unsupported,
)
from minijit.graph.errors import DeclarationError
from tests.conftest import Device

X = np.random.default_rng(5).random((3, 4, 5)).astype(np.float32)

SMOOTH = r"""
extern "C" __global__ void smooth(const float* x, float* y, long long n) {
    for (long long i = threadIdx.x; i < n; i += blockDim.x)
        y[i] = (x[i] + x[i > 0 ? i - 1 : 0]) * 0.5f;
}
"""


def smooth_of_numpy(x: Any) -> Any:
    flat = x.ravel()
    return ((flat + np.concatenate([flat[:1], flat[:-1]])) * np.float32(0.5)).reshape(x.shape)


def smooth(**options: Any) -> Any:
    """An operation in which each element depends on the one before, across all axes."""
    return custom_call(
        "smooth",
        abstract_eval=lambda x: x,
        cuda=SMOOTH,
        launch=lambda x: (1, 32),
        arguments=lambda x: (np.int64(x.size),),
        cpu=smooth_of_numpy,
        **options,
    )


def test_elementwise_and_reductions_need_no_rule(device: Device) -> None:
    @elementwise
    def softsign(x: Any) -> Any:
        return x / (1 + abs(x))

    largest = reduction(identity=0.0, name="largest_square", element=lambda x: x * x)(
        lambda a, b: max(b, a)
    )
    f = jit(vmap(lambda x: softsign(x - largest(x, -1)[:, None]), in_axes=2, out_axes=2))
    got = device.get(f(device.put(X)))
    inner = X - (X * X).max(1, keepdims=True)
    np.testing.assert_allclose(got, inner / (1 + np.abs(inner)), 1e-6)
    assert (got.dtype, f.stats()["kernels"]) == (np.float32, 1)


def test_a_rule_of_ones_own(device: Device) -> None:
    """A product over the last two axes takes a batch in front as it is."""
    seen = []

    def batch(dims: Sequence[int | None], x: Any, *, by: float) -> tuple[Any, int]:
        seen.append(dims)
        return bind(scaled, x if dims[0] == 0 else minijit.numpy.moveaxis(x, dims[0], 0), by=by), 0

    scaled = library(
        "scaled",
        lambda xp, x, *, by: x * xp.float32(by),
        lambda x, *, by: x,
        "Scaled.",
        batch=batch,
    )
    f = jit(vmap(lambda x: bind(scaled, x, by=2.0) + 1, in_axes=1, out_axes=1))
    np.testing.assert_array_equal(device.get(f(device.put(X))), X * 2 + 1)
    assert seen == [(1,)]
    assert f.stats()["eager_steps"] == 2  # the axis that is moved is a view


def test_one_by_one(device: Device) -> None:
    each = smooth(batch=sequential)
    f = jit(vmap(lambda x: each(x * 2), in_axes=1))
    got = device.get(f(device.put(X)))
    want = np.stack([smooth_of_numpy(X[:, n] * 2) for n in range(4)])
    np.testing.assert_array_equal(got, want)
    assert (f.stats()["host_loops"], f.stats()["host_steps"]) == (1, 4)


def test_the_kit_tries_batches() -> None:
    report = str(check_primitive(smooth(batch=sequential), X[0]))
    assert "vmap, cpu" in report
    assert "2 choices of operands and axes against a loop; a loop over the batch" in report
    twice = elementwise(name="twice_and")(lambda x, y: x + x + math.fabs(y))
    report = str(check_primitive(twice, dtypes=("float32",)))
    assert "8 choices of operands and axes against a loop; follows from its kind" in report
    refused = smooth_refused()
    assert "unsupported: rows depend on rows" in str(check_primitive(refused, X[0]))
    with pytest.raises(NotImplementedError, match=r"refused \(at test_batches\.py.*rows depend"):
        vmap(refused)(X)


def smooth_refused() -> Any:
    return custom_call(
        "refused",
        abstract_eval=lambda x: x,
        cpu=smooth_of_numpy,
        cuda=SMOOTH,
        entry="smooth",
        launch=lambda x: (1, 32),
        arguments=lambda x: (np.int64(x.size),),
        batch=unsupported("rows depend on rows"),
    )


def test_the_kit_finds_wrong_batches() -> None:
    wrong = smooth(batch=lambda dims, x: (bind(wrong.primitive, x), dims[0]))
    with pytest.raises(AssertionError, match=r"vmap, cpu +FAILED(.|\n)*differ"):
        check_primitive(wrong, X[0])


def test_a_rule_that_returns_no_batch_is_refused() -> None:
    lost = smooth(batch=lambda dims, x: (bind(lost.primitive, x[0]), 0))
    with pytest.raises(
        DeclarationError, match=r"batch rule of smooth returned f32\[4,5\].*test_batches\.py"
    ):
        vmap(lost)(X)


def test_a_rule_that_returns_no_pair_is_refused() -> None:
    alone = smooth(batch=lambda dims, x: bind(alone.primitive, x))
    with pytest.raises(DeclarationError, match=r"has to return \(result, dim\), not Traced"):
        vmap(alone)(X)
    two = library(
        "two",
        lambda xp, x: (x, x),
        lambda x: (x, x),
        "Twice.",
        multiple_results=True,
        batch=lambda dims, x: (bind(two, x), (dims[0],)),
    )
    with pytest.raises(DeclarationError, match=r"has to return \(results, dims\), a tuple each"):
        vmap(lambda x: bind(two, x)[0])(X)

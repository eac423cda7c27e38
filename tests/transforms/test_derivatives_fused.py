"""How many kernels a derivative takes, and what it keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minijit
import minijit.numpy as jnp
from minijit import lax
from minijit.transforms.simplify import simplify
from tests.conftest import Device

X = np.random.default_rng(0).uniform(-1, 1, (64, 32)).astype(np.float32)
ROW = X[0]


def kernels(device: Device, function: Any, *args: Any) -> int:
    run = minijit.jit(lambda *args: function(*args))  # with a cache of its own
    run(*map(device.put, args))
    stats = run.stats()
    assert (stats["plans"], stats["eager_steps"], stats["host_loops"]) == (1, 0, 0)
    return stats["kernels"]


def cross_entropy(logits: Any, labels: Any) -> Any:
    top = logits.max(-1, keepdims=True)
    log_sum = np.log(np.exp(logits - top).sum(-1)) + top[:, 0]
    return (log_sum - (logits * labels).sum(-1)).mean()


def layer_norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)).sum()


@pytest.mark.parametrize(
    ("function", "args", "count"),
    [
        (lambda x: np.sin(np.exp(x) * 2).sum(), [ROW], 1),
        (lambda x: np.where(x > 0, x * x, np.expm1(x)).mean(), [X], 1),
        (lambda x: ((x[1:] - x[:-1]) ** 2).sum(), [ROW], 1),
        (cross_entropy, [X, X], 1),
        (layer_norm, [X], 1),
        (lambda x: x.max(1).sum(), [X], 1),
    ],
    ids=["chain", "where", "differences", "cross-entropy", "layer-norm", "max"],
)
def test_a_gradient_is_one_kernel(device: Device, function: Any, args: Any, count: int) -> None:
    assert kernels(device, minijit.grad(function), *args) == count


def test_value_and_gradient_share_what_they_read(device: Device) -> None:
    both = minijit.value_and_grad(lambda x: np.sin(np.exp(x) * 2).sum())
    assert kernels(device, both, ROW) == 1
    # Rows and their derivatives in one, the mean of the rows in the other.
    assert kernels(device, minijit.value_and_grad(cross_entropy), X, X) == 2


def _smoothed(xs: Any, a: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        c = a * x + (1 - a) * c
        return c, np.tanh(c)

    return lax.scan(step, xs[0], xs)[1].sum()


def _scans(function: Any, *args: Any) -> list[Any]:
    jaxpr = simplify(minijit.make_jaxpr(function)(*args))
    return [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "scan"]


def test_a_scan_keeps_its_carries_and_computes_the_rest_again() -> None:
    first, second = _scans(minijit.grad(_smoothed), X, ROW)
    kept = first.outvars[first.params["carries"] :]
    assert [var.aval.shape for var in kept] == [X.shape]
    assert sum(eqn.primitive.name == "tanh" for eqn in second.params["jaxpr"].eqns) == 1


def test_a_scan_that_is_linear_keeps_nothing() -> None:
    def summed(xs: Any) -> Any:
        return lax.scan(lambda c, x: (c + 2 * x, None), ROW, xs)[0].sum()

    (only,) = _scans(minijit.grad(summed), X)
    assert only.params["reverse"]


def test_the_slope_of_a_number_that_all_cells_read_is_summed_at_the_end(device: Device) -> None:
    def shared(a: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: ((1 - a) * c + a * x - 3 * a, None), xs[0], xs)[0].sum()

    (_, back) = _scans(minijit.grad(shared), np.float32(0.3), X)
    body = back.params["jaxpr"]
    assert not [eqn for eqn in body.eqns if eqn.primitive.name == "reduce_sum"]
    assert {var.aval.shape for var in back.outvars} == {ROW.shape}
    run = minijit.jit(minijit.grad(shared))
    got = device.get(run(np.float32(0.3), device.put(X)))
    ends = [shared(np.float64(0.3 + s), X.astype(np.float64)) for s in (1e-6, -1e-6)]
    np.testing.assert_allclose(got, (ends[0] - ends[1]) / 2e-6, rtol=1e-4)
    assert run.stats()["kernels"] == 3  # two loops and the sum


def test_what_is_not_asked_for_is_not_computed() -> None:
    def f(x: Any, y: Any) -> Any:
        return (x * y).sum() + (np.exp(y) * y).sum(), jnp.tanh(x)

    compiled = minijit.jit(minijit.grad(f, has_aux=True)).lower(X, X).compile()
    source = "".join(kernel.source for kernel in compiled.kernels())
    assert "exp(" not in source


def test_a_branch_stays_one(device: Device) -> None:
    def f(x: Any) -> Any:
        return lax.cond(x[0] > 0, lambda x: np.exp(x).sum(), lambda x: (x * x).sum(), x)

    jaxpr = minijit.make_jaxpr(minijit.grad(f))(ROW)
    branches = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "cond"]
    assert len(branches) == 2
    for sign in (1, -1):
        x = sign * np.abs(ROW)
        want = np.exp(x) if sign > 0 else 2 * x
        got = device.get(minijit.grad(f)(device.put(x)))
        np.testing.assert_allclose(got, want, rtol=1e-5)

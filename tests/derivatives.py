"""Derivatives against central differences in float64, forward against reverse, and both twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import minijit
from tests.conftest import Device

STEP = 1e-5
Array = np.ndarray[Any, Any]


def assert_differentiable(
    device: Device,
    function: Callable[..., Any],
    operands: Sequence[Array],
    *,
    twice: bool = True,
    rtol: float = 1e-6,
) -> None:
    """Assert the first derivative of an array function of float64 arrays, and the second one.

    Along one random direction, and weighted by random numbers: a wrong element shows in both. What
    is differentiated twice is a program like any other: the CPU is enough.
    """
    twice = twice and device.name == "cpu"
    rng = np.random.default_rng(7)
    run = minijit.jit(function)
    weights = rng.uniform(0.5, 1.5, np.shape(run(*map(device.put, operands))))
    along = [rng.uniform(0.5, 1.5, x.shape) for x in operands]
    numbers = tuple(range(len(operands)))
    weighted = device.put(weights)
    gradient = minijit.jit(minijit.grad(lambda *xs: (weighted * function(*xs)).sum(), numbers))

    @minijit.jit
    def derivatives(xs: Any, ts: Any) -> Any:
        value, tangent = minijit.jvp(function, xs, ts)
        second = minijit.jvp(gradient, xs, ts)[1] if twice else ()
        return value, tangent, gradient(*xs), second

    given = [tuple(map(device.put, each)) for each in (operands, along)]
    value, tangent, slopes, second = device.get(derivatives(*given))
    assert (tangent.shape, tangent.dtype) == (value.shape, value.dtype)
    assert_near(tangent, differences(device, run, operands, along), rtol)
    for slope, x in zip(slopes, operands, strict=True):
        assert (slope.shape, slope.dtype) == (x.shape, x.dtype)
    # Reverse mode is the transpose of forward mode.
    products = sum((s * t).sum() for s, t in zip(slopes, along, strict=True))
    assert_near(products, (weights * tangent).sum(), 1e-10)
    for number, curve in enumerate(second):
        wanted = differences(device, lambda *xs, n=number: gradient(*xs)[n], operands, along)
        assert_near(curve, wanted, rtol)


def differences(
    device: Device, function: Callable[..., Any], operands: Sequence[Array], along: Sequence[Array]
) -> Array:
    """How ``function`` changes along a direction: central differences."""
    high, low = (
        device.get(
            function(
                *(device.put(x + sign * STEP * t) for x, t in zip(operands, along, strict=True))
            )
        )
        for sign in (1, -1)
    )
    return np.asarray((high - low) / (2 * STEP))


def assert_near(got: Any, want: Any, rtol: float) -> None:
    """Assert values that are equal but for a fraction of the largest."""
    scale = float(np.max(np.abs(want), initial=1.0))
    np.testing.assert_allclose(got, want, rtol=0, atol=rtol * scale)

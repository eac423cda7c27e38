"""What bench compares: eager NumPy or CuPy, JAX where it is installed, and minijit."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import minijit

Device = Literal["cpu", "cuda"]


@dataclass(frozen=True, slots=True)
class System:
    """One way to run a workload.

    Attributes:
        name: Heads its column.
        version: Printed with the results.
        prepare: Makes of `function(xp, *inputs)` a function of the inputs alone.
        put: Moves a NumPy array to where the system computes.
        wait: Returns when a result is complete.
        get: Brings one output back as a NumPy array.
    """

    name: str
    version: str
    prepare: Callable[[Callable[..., Any]], Any]
    put: Callable[[Any], Any]
    wait: Callable[[Any], Any]
    get: Callable[[Any], Any]


def systems(device: Device) -> tuple[System, ...]:
    """Return the systems for a device, the eager one first, minijit last.

    Raises:
        ImportError: `device` is `cuda` and CuPy is not installed.
    """
    jax = _jax(device)
    if device == "cpu":
        eager = _numpy()
        ours = _minijit(np, np.asarray, np.asarray)
    else:
        cupy = importlib.import_module("cupy")
        eager = _cupy(cupy)
        ours = _minijit(cupy, cupy.asarray, cupy.asnumpy)
    return (eager, *((jax,) if jax else ()), ours)


def _bound(namespace: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*inputs: Any) -> Any:
        return function(namespace, *inputs)

    call.__name__ = function.__name__
    return call


def _numpy() -> System:
    prepare = functools.partial(_bound, np)
    return System("numpy", np.__version__, prepare, np.asarray, lambda result: result, np.asarray)


def _cupy(cupy: Any) -> System:
    def wait(result: Any) -> Any:
        cupy.cuda.get_current_stream().synchronize()
        return result

    prepare = functools.partial(_bound, cupy)
    return System("cupy", cupy.__version__, prepare, cupy.asarray, wait, cupy.asnumpy)


def _minijit(namespace: Any, put: Callable[..., Any], get: Callable[..., Any]) -> System:
    def prepare(function: Callable[..., Any]) -> Any:
        return minijit.jit(_bound(namespace, function))

    return System("minijit", minijit.__version__, prepare, put, minijit.block_until_ready, get)


def _jax(device: Device) -> System | None:
    """JAX is compared with where it is installed for the same device, and never required."""
    if importlib.util.find_spec("jax") is None:
        return None
    if device == "cpu":
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    jax = importlib.import_module("jax")
    if (jax.default_backend() == "cpu") != (device == "cpu"):
        return None
    jnp = importlib.import_module("jax.numpy")

    def prepare(function: Callable[..., Any]) -> Any:
        return jax.jit(_bound(jnp, function))

    return System("jax", jax.__version__, prepare, jnp.asarray, jax.block_until_ready, np.asarray)

"""What bench compares: eager NumPy or CuPy, other compilers where they are installed, minijit."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import minijit
from minijit.tools.timing import Clock, device_clock, host_clock

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
        clock: Times it; events of CuPy's stream see only what is launched on that stream.
    """

    name: str
    version: str
    prepare: Callable[[Callable[..., Any]], Any]
    put: Callable[[Any], Any]
    wait: Callable[[Any], Any]
    get: Callable[[Any], Any]
    clock: Clock = host_clock


def systems(device: Device) -> tuple[System, ...]:
    """Return the systems for a device, the eager one first, minijit last.

    Raises:
        ImportError: `device` is `cuda` and CuPy is not installed.
    """
    jax = _jax(device)
    others = (jax,) if jax else ()
    if device == "cpu":
        return (_numpy(), *others, _minijit(np, np.asarray, np.asarray, host_clock))
    cupy = importlib.import_module("cupy")
    torch = _torch()
    others = (_cupy_fuse(cupy), *others, *((torch,) if torch else ()))
    return (_cupy(cupy), *others, _minijit(cupy, cupy.asarray, cupy.asnumpy, device_clock))


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
    put, get = cupy.asarray, cupy.asnumpy
    return System("cupy", cupy.__version__, prepare, put, wait, get, device_clock)


def _cupy_fuse(cupy: Any) -> System:
    """CuPy's own fusion; it refuses much of what is not elementwise, which is then reported."""
    return dataclasses.replace(
        _cupy(cupy),
        name="cupy.fuse",
        prepare=lambda function: cupy.fuse(_bound(cupy, function)),
    )


def _minijit(
    namespace: Any, put: Callable[..., Any], get: Callable[..., Any], clock: Clock
) -> System:
    def prepare(function: Callable[..., Any]) -> Any:
        return minijit.jit(_bound(namespace, function))

    wait = minijit.block_until_ready
    return System("minijit", minijit.__version__, prepare, put, wait, get, clock)


def _torch() -> System | None:
    """PyTorch's compiler, which takes NumPy code as it is; only where it has a GPU."""
    if importlib.util.find_spec("torch") is None:
        return None
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return None

    def prepare(function: Callable[..., Any]) -> Any:
        return torch.compile(torch.compiler.wrap_numpy(_bound(np, function)), dynamic=False)

    def wait(result: Any) -> Any:
        torch.cuda.synchronize()
        return result

    def put(array: Any) -> Any:
        return torch.from_numpy(np.asarray(array)).cuda()

    def get(tensor: Any) -> Any:
        return tensor.cpu().numpy()

    # PyTorch's default stream is the one that CuPy starts with.
    return System("torch", torch.__version__, prepare, put, wait, get, device_clock)


def _jax(device: Device) -> System | None:
    """JAX is compared with where it is installed for the same device, and never required."""
    if importlib.util.find_spec("jax") is None:
        return None
    if device == "cpu":
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    # The others need memory as well.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = importlib.import_module("jax")
    if (jax.default_backend() == "cpu") != (device == "cpu"):
        return None
    jnp = importlib.import_module("jax.numpy")

    def prepare(function: Callable[..., Any]) -> Any:
        return jax.jit(_bound(jnp, function))

    return System("jax", jax.__version__, prepare, jnp.asarray, jax.block_until_ready, np.asarray)

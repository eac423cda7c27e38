"""What bench compares: eager NumPy or CuPy, other compilers where they are installed, minijit."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import os
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

import minijit
from minijit.backends.registry import get_backend
from minijit.tools.numexpr import numexpr_system
from minijit.tools.system import Compared, NotHereError, System
from minijit.tools.timing import Clock, device_clock, host_clock

Device = Literal["cpu", "cuda", "cuda-emulated"]
DEVICES: tuple[Device, ...] = ("cpu", "cuda", "cuda-emulated")


def systems(device: Device) -> Compared:
    """Return the systems for a device.

    Raises:
        ImportError: `device` is `cuda` and CuPy is not installed.
    """
    if device == "cpu":
        absent, found = _found(
            {
                "numexpr": numexpr_system,
                "jax": lambda: _jax(device),
                "torch": lambda: _torch(device),
            }
        )
        ours = _minijit(np, np.asarray, np.asarray, host_clock)
        return Compared((_numpy(), *found, ours), absent)
    if device == "cuda-emulated":
        why = "needs a real GPU"
        backend = get_backend(device)
        ours = _minijit(backend.xp, backend.asarray, np.asarray, host_clock)
        return Compared((_numpy(), ours), dict.fromkeys(("cupy", "cupy.fuse", "jax", "torch"), why))
    cupy = importlib.import_module("cupy")
    absent, found = _found({"jax": lambda: _jax(device), "torch": lambda: _torch(device)})
    ours = _minijit(cupy, cupy.asarray, cupy.asnumpy, device_clock)
    return Compared((_cupy(cupy), _cupy_fuse(cupy), *found, ours), absent)


def _found(makers: dict[str, Callable[[], System]]) -> tuple[dict[str, str], list[System]]:
    absent, found = {}, []
    for name, make in makers.items():
        try:
            found.append(make())
        # Installed for another CUDA or Python, a library can fail to import in any way.
        except Exception as error:
            absent[name] = in_a_line(error)
    return absent, found


def in_a_line(error: BaseException) -> str:
    """Return what was raised, in one line that is not too long."""
    text = (str(error).strip().splitlines() or [""])[0]
    return (text if isinstance(error, NotHereError) else f"{type(error).__name__}: {text}")[:200]


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


def _torch(device: Device) -> System:
    """PyTorch's compiler, which takes NumPy code as it is."""
    if importlib.util.find_spec("torch") is None:
        raise NotHereError("not installed")
    torch = importlib.import_module("torch")
    on_gpu = device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        raise NotHereError("installed without a GPU that it can use")

    def prepare(function: Callable[..., Any]) -> Any:
        return torch.compile(torch.compiler.wrap_numpy(_bound(np, function)), dynamic=False)

    def wait(result: Any) -> Any:
        if on_gpu:
            torch.cuda.synchronize()
        return result

    def put(array: Any) -> Any:
        return torch.from_numpy(np.asarray(array)).to(device)

    def get(tensor: Any) -> Any:
        return tensor.cpu().numpy()

    # PyTorch's default stream is the one that CuPy starts with.
    clock = device_clock if on_gpu else host_clock
    return System("torch", torch.__version__, prepare, put, wait, get, clock)


def _jax(device: Device) -> System:
    """JAX is compared with where it is installed for the same device, and never required."""
    if importlib.util.find_spec("jax") is None:
        raise NotHereError("not installed")
    if device == "cpu":
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    # The others need memory as well.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = importlib.import_module("jax")
    if (jax.default_backend() == "cpu") != (device == "cpu"):
        raise NotHereError(f"installed for {jax.default_backend()}")
    # Else it would take float64 for float32; Python's numbers take the type of the arrays anyway.
    jax.config.update("jax_enable_x64", True)
    # On a GPU it multiplies matrices with 10 bits unless told; the others take float32 whole.
    jax.config.update("jax_default_matmul_precision", "highest")
    jnp = importlib.import_module("jax.numpy")

    def prepare(function: Callable[..., Any]) -> Any:
        return jax.jit(_bound(jnp, function))

    return System("jax", jax.__version__, prepare, jnp.asarray, jax.block_until_ready, np.asarray)

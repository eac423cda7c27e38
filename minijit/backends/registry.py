"""Which devices there are, and which one a call runs on."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from minijit.backends.base import Backend
from minijit.graph.config import config
from minijit.graph.errors import ForkedCUDAError
from minijit.graph.locks import process_lock

__all__ = ["adopt", "backend_of", "default_device", "devices", "get_backend", "lost_devices"]

_FACTORIES = {
    "cpu": ("minijit.backends.cpu.backend", "CpuBackend"),
    "cuda": ("minijit.backends.cuda.backend", "CudaBackend"),
    "cuda-emulated": ("minijit.backends.emulator.backend", "EmulatedBackend"),
}
_backends: dict[str, Backend] = {}
lost_devices: set[str] = set()
"""Devices that the parent of this process used and that do not work in a forked child."""
_lock = process_lock()
_DLPACK_HOST = 1  # kDLCPU of the DLPack standard


def get_backend(name: str) -> Backend:
    """Return the backend called ``name``, made at first use.

    Raises:
        ValueError: there is none of that name.
        RuntimeError: its device cannot be used; the message says why.
        ForkedCUDAError: this is a child of a process that used it.
    """
    backend = _backends.get(name)
    if backend is not None:
        return backend
    if name in lost_devices:
        raise ForkedCUDAError(
            "this process was forked from one that had used the GPU, and CUDA does not work in "
            "such a child: start it by multiprocessing.get_context('spawn'), fork before the GPU "
            "is first used, or compute with device='cpu'"
        )
    if name not in _FACTORIES:
        raise ValueError(f"no device {name!r}; the devices are {', '.join(_FACTORIES)}")
    module, factory = _FACTORIES[name]
    with _lock:
        if name not in _backends:
            made = getattr(importlib.import_module(module), factory)()
            _backends[name] = cast(Backend, made)
    return _backends[name]


def _after_fork() -> None:
    if _backends.pop("cuda", None) is not None:
        lost_devices.add("cuda")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def backend_of(leaves: Sequence[Any]) -> Backend:
    """Return the backend of a call: the configured one, or that of the arguments."""
    name: str = config.device
    if not name:
        on_cuda = any(
            not isinstance(leaf, (np.ndarray, np.generic))
            and hasattr(leaf, "__cuda_array_interface__")
            for leaf in leaves
        )
        name = "cuda" if on_cuda else "cpu"
    return get_backend(name)


def adopt(value: Any) -> Any:
    """Return another library's array as one of NumPy's or CuPy's in the same memory.

    Such arrays offer DLPack or ``__cuda_array_interface__``; everything else comes back as it is.
    """
    kind = type(value)
    if isinstance(value, (np.ndarray, np.generic)) or kind.__module__.startswith("cupy"):
        return value
    if hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__"):
        on_host = value.__dlpack_device__()[0] == _DLPACK_HOST
        return np.from_dlpack(value) if on_host else get_backend("cuda").asarray(value)
    if hasattr(kind, "__cuda_array_interface__"):
        return get_backend("cuda").asarray(value)
    return value


def devices() -> tuple[str, ...]:
    """Return the names of the devices that can be used now, the default one first.

    The emulated device is listed where it is the default; it can be chosen anywhere.
    """
    usable = []
    for name in dict.fromkeys((config.device or "cpu", "cpu", "cuda")):
        try:
            get_backend(name)
        except (ImportError, RuntimeError):
            continue
        usable.append(name)
    return tuple(usable)


@contextmanager
def default_device(name: str) -> Iterator[None]:
    """Run everything in the ``with`` block on the device called ``name``.

    The devices are ``"cpu"``, ``"cuda"``, and ``"cuda-emulated"``, which runs the very CUDA kernels
    without a GPU: slowly, with every access checked.

    Other threads are not concerned: each opens a block of its own, or all follow
    ``config.update("device", name)``. Arrays that live elsewhere are copied over, which ``stats``
    counts.
    """
    get_backend(name)
    with config.override(device=name):
        yield

"""What the machine has: CPUs, and GPUs as the driver tells them (through ctypes, no context)."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass

_COMPUTE_CAPABILITY_MAJOR = 75
_COMPUTE_CAPABILITY_MINOR = 76


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device, as the driver names it."""

    name: str
    compute_capability: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver: the newest CUDA version it runs (13000 is 13.0), and its devices."""

    version: int
    gpus: tuple[Gpu, ...]

    @property
    def cuda(self) -> str:
        """The version as people write it, for example `13.0`."""
        return f"{self.version // 1000}.{self.version % 1000 // 10}"


def available_threads() -> int:
    """Return how many CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def find_driver() -> Driver | str:
    """Return the driver, or in one phrase why there is none."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError:
        return f"no NVIDIA driver ({name} not found)"
    status = library.cuInit(0)
    if status != 0:
        return f"the NVIDIA driver does not start (cuInit returned {status})"
    version, count = ctypes.c_int(), ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    library.cuDeviceGetCount(ctypes.byref(count))
    return Driver(version.value, tuple(_gpu(library, ordinal) for ordinal in range(count.value)))


def _gpu(library: ctypes.CDLL, ordinal: int) -> Gpu:
    device = ctypes.c_int()
    library.cuDeviceGet(ctypes.byref(device), ordinal)
    name = ctypes.create_string_buffer(256)
    library.cuDeviceGetName(name, len(name), device)
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.cuDeviceGetAttribute(ctypes.byref(major), _COMPUTE_CAPABILITY_MAJOR, device)
    library.cuDeviceGetAttribute(ctypes.byref(minor), _COMPUTE_CAPABILITY_MINOR, device)
    return Gpu(name.value.decode(), (major.value, minor.value))

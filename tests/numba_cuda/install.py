"""Replaces what numba-cuda takes from the driver and from cuda.core, in this process for good."""

from __future__ import annotations

import ctypes
from typing import Any

import cuda.core
import cuda.core.utils
from cuda.bindings import driver

from tests.numba_cuda import core, views
from tests.numba_cuda.driver import FakeDriver, wrapped


class _Library(ctypes.CDLL):
    """Loads libraries; the driver's is this very process."""

    def __init__(self, name: Any, *args: Any, **options: Any) -> None:
        super().__init__(None if name == "libcuda.so" else name, *args, **options)


def install() -> None:
    """Make numba-cuda, imported afterwards, see one emulated device."""
    ctypes.CDLL = _Library  # type: ignore[misc]
    fake = FakeDriver()
    for name in dir(driver):
        if name.startswith("cu") and name[2:3].isupper() and callable(getattr(driver, name)):
            setattr(driver, name, wrapped(name, fake))
    for name in ("Device", "LaunchConfig", "Linker", "ObjectCode", "Program", "Stream", "launch"):
        setattr(cuda.core, name, getattr(core, name))
    cuda.core.Buffer = views.Buffer  # type: ignore[misc]
    cuda.core.utils.StridedMemoryView = views.StridedMemoryView  # type: ignore[misc]

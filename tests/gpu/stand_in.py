"""The emulated device in the place of a GPU, for code that asks for ``cuda`` and imports CuPy."""

from __future__ import annotations

import sys
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from minijit.backends import registry
from minijit.backends.base import Backend


class StandInCupy(types.ModuleType):
    """NumPy, with what benchmark and examples take from CuPy beyond that."""

    __version__ = "stand-in"

    def __init__(self, backend: Backend) -> None:
        super().__init__("cupy")
        self.asarray, self.asnumpy = backend.asarray, np.asarray
        stream = types.SimpleNamespace(synchronize=lambda: None)
        self.cuda = types.SimpleNamespace(
            Event=_Event,
            get_elapsed_time=lambda start, end: (end.time - start.time) * 1e3,
            get_current_stream=lambda: stream,
            runtime=types.SimpleNamespace(getDeviceCount=lambda: 1),
            Device=lambda: types.SimpleNamespace(attributes={"L2CacheSize": 100}),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def fuse(self, function: Any) -> Any:
        def fused(*arrays: Any) -> Any:
            raise NotImplementedError("no fusion here")

        return fused


class _Event:
    def record(self) -> None:
        self.time = time.perf_counter()

    def synchronize(self) -> None:
        assert self.time


@contextmanager
def emulated_cuda() -> Iterator[None]:
    """Make the emulated device the one called ``cuda``, and let ``import cupy`` give NumPy."""
    backend = registry.get_backend("cuda-emulated")
    # Not by patch.dict: it would also forget every module that is first imported inside.
    before = sys.modules.get("cupy")
    sys.modules["cupy"] = StandInCupy(backend)
    try:
        with mock.patch.dict(registry._backends, {"cuda": backend}):
            yield
    finally:
        del sys.modules["cupy"]
        if before is not None:
            sys.modules["cupy"] = before

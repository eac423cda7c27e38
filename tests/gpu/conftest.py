"""Where the tests of this folder run: on a GPU where there is one, on an emulated one anywhere."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.backends.base import Backend
from minijit.backends.registry import get_backend
from minijit.graph.tree import flatten, unflatten
from minijit.runtime.launchers import clear_kernels
from tests.gpu.stand_in import emulated_cuda


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a test runs.

    Attributes:
        device: `cuda`, or `cuda-emulated`.
    """

    device: str

    @property
    def real(self) -> bool:
        """Whether it is a GPU."""
        return self.device == "cuda"

    @property
    def backend(self) -> Backend:
        """What compiles for it and launches there."""
        return get_backend(self.device)

    def cupy(self) -> contextlib.AbstractContextManager[Any]:
        """Let ``import cupy`` work, and the device called ``cuda`` be this one."""
        return contextlib.nullcontext() if self.real else emulated_cuda()

    @property
    def xp(self) -> Any:
        """The array library: CuPy, or NumPy."""
        return self.backend.xp

    def size(self, real: int, here: int) -> int:
        """Return a size for a GPU, or one that the emulator runs in a moment."""
        return real if self.real else here

    def put(self, array: Any) -> Any:
        """Return an array of the device."""
        return self.backend.asarray(array)

    def get(self, tree: Any) -> Any:
        """Return a pytree with NumPy arrays."""
        leaves, treedef = flatten(tree)
        return unflatten(treedef, [x.get() if hasattr(x, "get") else np.asarray(x) for x in leaves])

    @contextlib.contextmanager
    def stream(self) -> Iterator[None]:
        """Run what is inside on a stream of its own, which waits for no other."""
        if not self.real:
            yield
            return
        with self.xp.cuda.Stream(non_blocking=True) as stream:
            yield
            stream.synchronize()


@pytest.fixture(params=["cuda-emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """The GPU, and the emulated one, as the device on which everything runs."""
    here = Place(request.param)
    minijit.clear_caches()
    clear_kernels()
    with _memory() if here.real else contextlib.nullcontext(), minijit.default_device(here.device):
        yield here
    minijit.clear_caches()
    clear_kernels()


def _memory() -> contextlib.AbstractContextManager[Any]:
    """Memory from CuPy's pool, or where a sanitizer watches, each buffer from the driver."""
    if os.environ.get("MINIJIT_TEST_POOL") != "off":
        return contextlib.nullcontext()
    import cupy

    manager: contextlib.AbstractContextManager[Any] = cupy.cuda.using_allocator(None)
    return manager

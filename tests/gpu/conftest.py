"""Where the tests of this folder run: on a GPU where there is one, and on a stand-in anywhere."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import minijit
from minijit.backends.registry import get_backend
from minijit.graph.tree import flatten, unflatten
from minijit.runtime.pipeline import clear_kernels
from tests.gpu.stand_in import SimtDevice, stand_in, stand_in_cupy


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """The device called ``cuda`` in a test.

    Attributes:
        stand_in: The device made of Python; None on a GPU.
    """

    stand_in: SimtDevice | None

    @property
    def real(self) -> bool:
        """Whether it is a GPU."""
        return self.stand_in is None

    def cupy(self) -> contextlib.AbstractContextManager[Any]:
        """Let ``import cupy`` work."""
        return contextlib.nullcontext() if self.stand_in is None else stand_in_cupy(self.stand_in)

    @property
    def xp(self) -> Any:
        """The array library: CuPy, or NumPy."""
        return get_backend("cuda").xp

    def size(self, real: int, here: int) -> int:
        """Return a size for a GPU, or one that Python runs in a moment."""
        return real if self.real else here

    def put(self, array: Any) -> Any:
        """Return an array of the device."""
        return get_backend("cuda").asarray(array)

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


@pytest.fixture(params=["stand-in", pytest.param("gpu", marks=pytest.mark.gpu)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """The GPU, and the stand-in, as the device on which everything runs."""
    real = request.param == "gpu"
    minijit.clear_caches()
    clear_kernels()
    with _memory() if real else stand_in() as device, minijit.default_device("cuda"):
        yield Place(None if real else device)
    minijit.clear_caches()
    clear_kernels()


def _memory() -> contextlib.AbstractContextManager[Any]:
    """Memory from CuPy's pool, or where a sanitizer watches, each buffer from the driver."""
    if os.environ.get("MINIJIT_TEST_POOL") != "off":
        return contextlib.nullcontext()
    import cupy

    manager: contextlib.AbstractContextManager[Any] = cupy.cuda.using_allocator(None)
    return manager

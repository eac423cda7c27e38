"""Arrays of another device: moved first, then read in the strides they have where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minijit

BASE = np.arange(1, 13, dtype=np.float32)
VIEWS: dict[str, Any] = {
    "transposed": BASE.reshape(3, 4).T,
    "reversed": BASE.reshape(4, 3)[::-1, ::-1],
    "stepped": np.arange(48, dtype=np.float32).reshape(8, 6)[::2, ::2],
    "broadcast": np.broadcast_to(BASE[:3], (4, 3)),
    "contiguous": BASE.reshape(4, 3),
}


class Elsewhere:
    """Stands for an array of CuPy, whose copies on the host are C-ordered."""

    __module__ = "cupy"

    def __init__(self, data: Any) -> None:
        self._data = data
        self.shape, self.strides, self.dtype = data.shape, data.strides, data.dtype
        self.__cuda_array_interface__ = {"shape": data.shape}

    def get(self) -> Any:
        return self._data.copy(order="C")


PROGRAMS: list[Callable[[Any, Any], Any]] = [
    lambda x, w: x + w * 2,
    lambda x, w: (x * w).sum(0),
    lambda x, w: w.T @ x,
]


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_arguments_and_captured_arrays(name: str, program: Callable[[Any, Any], Any]) -> None:
    x, view = BASE.reshape(4, 3), VIEWS[name]
    want = program(x, view)
    captured = Elsewhere(view)
    f = minijit.jit(program)
    g = minijit.jit(lambda x: program(x, minijit.numpy.add(captured, 0)))
    with minijit.default_device("cpu"):
        compiled = f.lower(x, Elsewhere(view)).compile()
        for _ in range(2):
            np.testing.assert_array_equal(f(x, Elsewhere(view)), want)
            np.testing.assert_array_equal(f(Elsewhere(x), view), want)
            np.testing.assert_array_equal(f(x, w=Elsewhere(view)), want)
            np.testing.assert_array_equal(compiled(x, Elsewhere(view)), want)
            np.testing.assert_array_equal(g(x), want)


def test_copies_are_counted_and_layouts_are_those_of_the_copies() -> None:
    f = minijit.jit(lambda x: x + 1)
    with minijit.default_device("cpu"):
        for view in VIEWS.values():
            f(Elsewhere(view))
    stats = f.stats()
    assert (stats["copies"], stats["plans"], stats["traces"]) == (len(VIEWS), 1, 1)

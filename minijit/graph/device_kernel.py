"""A whole CUDA kernel of a user's own, as a primitive carries it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

__all__ = ["DeviceKernel"]


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceKernel:
    """What a CUDA device runs for a primitive.

    Attributes:
        code: CUDA C, or a Python function as ``numba.cuda.jit`` takes it, of the operands, then the
            results, then the further arguments: pointers in C, contiguous arrays in Python.
        entry: Name of the kernel.
        launch: ``(*avals, **params)`` -> ``(grid, block)`` or ``(grid, block, bytes of dynamic
            shared memory)``; grid and block are integers or tuples of up to three.
        arguments: ``(*avals, **params)`` -> NumPy scalars that are passed after the arrays.
        zeroed: Whether results are zero before the launch.
        options: Of the compiler of CUDA C.
    """

    code: str | Callable[..., None]
    entry: str
    launch: Callable[..., tuple[Any, ...]]
    arguments: Callable[..., tuple[Any, ...]]
    zeroed: bool = False
    options: tuple[str, ...] = ()

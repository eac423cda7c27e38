"""Compiles Python kernels to PTX as a user of Numba would, and runs them on the emulated device."""

from __future__ import annotations

import re
import struct
import types
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np
from numba import cuda
from numba.core import types as numba_types
from numba.cuda import dispatcher
from numba.np.numpy_support import from_dtype

from minijit.backends.emulator.counters import Counters
from minijit.backends.emulator.memory import GlobalMemory
from minijit.backends.emulator.program import Program

Capability = tuple[int, int]


def ptx_of(function: Callable[..., Any], signature: Any, cc: Capability = (9, 0)) -> str:
    """Compile a plain Python function as a kernel, with source lines in the text."""
    device = types.SimpleNamespace(compute_capability=cc)
    with mock.patch.object(dispatcher, "get_current_device", return_value=device):
        text, _ = cuda.compile(
            function, signature, device=False, abi="numba", cc=cc, output="ptx", lineinfo=True
        )
    return str(text)


def launch(
    text: str,
    arguments: Sequence[Any],
    grid: int = 1,
    block: int = 32,
    *,
    memory: GlobalMemory | None = None,
    counters: Counters | None = None,
    **options: Any,
) -> None:
    """Run the only kernel of a PTX text on arrays, which it changes, and NumPy scalars."""
    memory = GlobalMemory() if memory is None else memory
    entry = re.search(r"\.visible \.entry ([\w$]+)", text)
    assert entry is not None
    program = Program.of(text, entry[1], memory)
    values = [
        struct.pack("<Q", memory.address(x)) if x.ndim else x.tobytes()
        for x in map(np.asarray, arguments)
    ]
    program.launch(memory, values, (grid, 1, 1), (block, 1, 1), counters=counters, **options)


def run(
    function: Callable[..., Any],
    *arguments: Any,
    grid: int = 1,
    block: int = 32,
    cc: Capability = (9, 0),
    **options: Any,
) -> None:
    """Compile ``function`` for the types of ``arguments`` and run it."""
    kinds = [
        numba_types.CPointer(from_dtype(x.dtype)) if x.ndim else from_dtype(x.dtype)
        for x in map(np.asarray, arguments)
    ]
    text = ptx_of(function, numba_types.void(*kinds), cc)
    launch(text, arguments, grid, block, **options)


def unwritten(memory: GlobalMemory, size: int, dtype: Any) -> Any:
    """Return device memory that nothing has written."""
    array = np.empty(size, dtype)
    memory.adopt(array).mark_fresh()
    return array

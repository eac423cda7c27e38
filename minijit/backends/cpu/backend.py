"""The CPU as a backend: NumPy holds the arrays, compiled kernels run on our threads.

What lowers and compiles is imported by the methods that do: a warm process only loads.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from minijit.backends.array import Array
from minijit.backends.base import Binary, Build, Launcher
from minijit.backends.cpu.launch import interface_of, make_launcher
from minijit.backends.cpu.loader import Code, load_object, processor
from minijit.backends.cpu.memory import empty, expect, is_small
from minijit.backends.cpu.native import launch_path
from minijit.backends.environment import compilers
from minijit.graph.few_rows import FewRows
from minijit.graph.interrupts import uninterrupted

if TYPE_CHECKING:
    from minijit.lowering.cpu_launch import CpuLaunch
    from minijit.lowering.kernel_ir import Kernel
    from minijit.lowering.source import KernelSource

__all__ = ["CpuBackend"]

_VECTORS = (0, 2, 4, 8)
"""How many vectors an innermost loop may work on at a time; 0 lets the compiler choose."""


class CpuBackend:
    """Implements :class:`minijit.backends.base.Backend`."""

    name = "cpu"
    xp: Any = np
    # A fixed number, not that of the cores: results must not depend on how many threads run.
    few_rows = FewRows(32)
    splits_columns = True
    reduces_in_blocks = False
    most_buffers = 256
    most_columns = 1 << 15
    """Longer rows are worth both threads: a loop keeps its row on one."""
    most_matrix_bytes = 1 << 18
    """Half of a usual second cache: each step reads them again."""
    steps_ahead = 1
    graph_launches = 0

    def __init__(self) -> None:
        """Have nothing loaded."""
        # One code serves kernels of several sizes.
        self._loaded: weakref.WeakValueDictionary[bytes, Code] = weakref.WeakValueDictionary()

    def emit(self, kernel: Kernel) -> KernelSource:
        """Choose a schedule for ``kernel`` and write its source."""
        from minijit.lowering.cpu import emit_cpu

        return emit_cpu(kernel)

    def variants(self, source: KernelSource) -> tuple[KernelSource, ...]:
        """Return ``source`` alone."""
        return (source,)

    def candidates(self, source: KernelSource) -> tuple[KernelSource, ...]:
        """Return ``source``, and the same with other numbers of vectors at a time."""
        launch: CpuLaunch = source.launch
        if launch.unroll:
            return (source,)
        others = [count for count in _VECTORS if count != launch.interleave]
        return source, *(_interleaved(source, launch, count) for count in others)

    def compile(self, source: KernelSource) -> Binary:
        """Compile a source to a relocatable object file."""
        from minijit.backends.cpu.compiler import compile_source

        return uninterrupted(partial(compile_source, source))

    def environment(self) -> Mapping[str, str]:
        """Return the compilers, and the processor with its instructions."""
        return processor() | compilers("cpu", "numba", "llvmlite")

    def parameters(self, source: KernelSource) -> Mapping[str, Any]:
        """Return the types of the scratch arrays, and what the optimiser may do."""
        launch: CpuLaunch = source.launch
        scratch = [[array.dtype.name, array.length] for array in launch.scratch]
        hints = {"unroll": launch.unroll, "interleave": launch.interleave, "wide": launch.wide}
        return {"scratch": scratch} | hints

    def custom(self, kernel: Any, operands: Any, results: Any, params: Any, build: Any) -> None:
        """Return None: CUDA kernels do not run here."""

    def interface(self, source: KernelSource, binary: Binary) -> Mapping[str, Any]:
        """Return the operands, and how the space is cut into units."""
        return interface_of(source)

    def load(
        self,
        interface: Mapping[str, Any],
        binary: Binary,
        source: Callable[[], KernelSource],
        build: Build | None = None,
    ) -> Launcher:
        """Load an object file; the launcher keeps its code alive."""
        path = launch_path(build)
        code = self._loaded.get(binary.code)
        if code is None:
            loaded = uninterrupted(partial(load_object, binary.code, binary.entry))
            code = self._loaded.setdefault(binary.code, loaded)
        return make_launcher(interface, code, path)

    def allocator(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Callable[[], Array]:
        """Return a function that allocates an uninitialised C-contiguous array at each call."""
        return partial(Array if is_small(shape, dtype) else empty, shape, dtype)

    def expect(self, sizes: Sequence[int]) -> None:
        """Let as much memory lie idle between calls."""
        expect(sizes)

    def asarray(self, value: Any) -> np.ndarray[Any, Any]:
        """Return ``value`` as a NumPy array.

        An array of another device is copied by its ``get`` method (CuPy).
        """
        if not isinstance(value, np.ndarray) and hasattr(value, "__cuda_array_interface__"):
            value = value.get()
        return np.asarray(value)

    def is_array(self, value: object) -> bool:
        """Whether ``value`` is a NumPy array."""
        return isinstance(value, np.ndarray)

    def result(self, array: Any) -> Array:
        """Return a NumPy array as an :class:`Array` of the same memory."""
        return array if type(array) is Array else np.asarray(array).view(Array)

    def plain(self, value: Any) -> Any:
        """Return an :class:`Array` as a NumPy array: NumPy is slower on a subclass."""
        return value.view(np.ndarray) if isinstance(value, Array) else value

    def reader(self, array: Any) -> Callable[[], bytes]:
        """Return a function that reads ``array``, which is always finished."""
        read: Callable[[], bytes] = array.tobytes
        return read

    def capture(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Return ``launch``: a launch is a call."""
        return launch

    def synchronize(self) -> None:
        """Return at once: launches return when they have finished."""


def _interleaved(source: KernelSource, launch: CpuLaunch, count: int) -> KernelSource:
    """Return ``source`` with another number of vectors at a time."""
    schedule = f"{source.schedule}, {count or 'the usual number of'} vectors at a time"
    launch = dataclasses.replace(launch, interleave=count)
    return dataclasses.replace(source, schedule=schedule, launch=launch)

"""A CUDA device made of Python: the backend's own launch code, with kernels run thread by thread.

Compiling, packing of arguments and the choice of the kernel for unaligned buffers are the
backend's; only what CuPy does is replaced. Memory is NumPy's.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
import types
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import numpy as np

from minijit.backends import registry
from minijit.backends.base import Binary
from minijit.backends.cuda import backend as module
from minijit.backends.cuda.backend import CudaBackend
from minijit.backends.cuda.device import Function
from minijit.lowering.kernel_ir import Role
from minijit.lowering.source import KernelSource, held_dtype
from tests.lowering.simt import Pointer, run


class DeviceArray(np.ndarray[Any, Any]):
    """Stands for ``cupy.ndarray``."""


class SimtDevice:
    """Runs the source of a cubin; implements :class:`minijit.backends.cuda.device.Device`."""

    compute_capability = (9, 0)
    xp: Any = np

    def __init__(self) -> None:
        self.sources: dict[bytes, KernelSource] = {}
        self._asked = threading.local()

    def load(self, code: bytes, entry: str, grid: int, block: int, shared: int) -> Function:
        source = self.sources[code]
        kernel, launch = source.kernel, source.launch
        assert (entry, grid, block, shared) == (
            kernel.name,
            launch.grid,
            launch.block,
            launch.shared,
        )
        count = len(kernel.buffers)
        scalars = [held_dtype(argument.dtype) for argument in kernel.arguments]

        def start(arguments: int) -> None:
            arrays, self._asked.arrays = self._asked.arrays[-count:], []
            slots = (ctypes.c_uint64 * (count + len(scalars))).from_address(arguments)
            addresses = [ctypes.c_uint64.from_address(slot).value for slot in slots[:count]]
            assert addresses == [array.ctypes.data for array in arrays]
            values = [
                np.frombuffer(ctypes.string_at(slot, dtype.itemsize), dtype)[0]
                for slot, dtype in zip(slots[count:], scalars, strict=True)
            ]
            pointers = [Pointer.of(array) for array in arrays]
            run(source, pointers, values)
            for pointer, buffer in zip(pointers, kernel.buffers, strict=True):
                if buffer.role is Role.OUTPUT:
                    assert (pointer.writes == 1).all(), "an output element was not written"

        return start

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        return np.full(shape, 77, dtype).view(DeviceArray)

    def asarray(self, value: Any) -> Any:
        return np.array(value).view(DeviceArray)

    def pointer(self, array: Any) -> int:
        # A launch asks for its buffers in order: their bounds are not in the address.
        self._asked.arrays = [*getattr(self._asked, "arrays", []), array]
        return int(array.ctypes.data)

    def array_class(self) -> type:
        return DeviceArray

    def wait(self) -> None:
        """Launches return when they have finished."""


@contextmanager
def stand_in() -> Iterator[SimtDevice]:
    """Make the stand-in the device called ``cuda``."""
    device = SimtDevice()
    compile_source = module.compile_source

    def noting(source: KernelSource, cc: tuple[int, int]) -> Binary:
        binary = compile_source(source, cc)
        device.sources[binary.code] = source
        return binary

    with (
        mock.patch.object(module, "compile_source", noting),
        mock.patch.dict(registry._backends, {"cuda": CudaBackend(device)}),
    ):
        yield device


class StandInCupy(types.ModuleType):
    """NumPy, with what benchmark and examples take from CuPy beyond that."""

    __version__ = "stand-in"

    def __init__(self, device: SimtDevice) -> None:
        super().__init__("cupy")
        self.asarray, self.asnumpy = device.asarray, np.asarray
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


def stand_in_cupy(device: SimtDevice) -> AbstractContextManager[Any]:
    """Let ``import cupy`` give NumPy."""
    return mock.patch.dict(sys.modules, {"cupy": StandInCupy(device)})

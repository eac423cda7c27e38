"""The GPU as CuPy reaches it: memory, modules and launches; everything here needs a driver.

A stand-in without hardware has to offer the methods of ``Device``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

__all__ = [
    "ComputeCapability",
    "CudaUnavailableError",
    "CupyDevice",
    "Device",
    "Extent",
    "Function",
    "three",
]

_REMEDY = (
    "minijit needs an NVIDIA driver and CuPy for device='cuda': install them with "
    "pip install 'minijit[cuda13]' (or 'minijit[cuda12]' for a CUDA 12 driver), or compute on the "
    "CPU with device='cpu', or run the CUDA kernels without a GPU with device='cuda-emulated'; "
    "`python -m minijit doctor` shows what is missing"
)
_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_STATIC_LIMIT = 48 * 1024

ComputeCapability = tuple[int, int]
"""Major and minor number."""
Extent = int | tuple[int, int, int]
"""Blocks or threads: along x, or along x, y and z."""
Function = Callable[[int], None]
"""``function(arguments)`` launches on the current stream; ``arguments`` is the address of an array
of addresses of the argument values, as the driver takes them."""


def three(extent: Extent) -> tuple[int, int, int]:
    """Return an extent along x, y and z."""
    return extent if isinstance(extent, tuple) else (extent, 1, 1)


class CudaUnavailableError(RuntimeError):
    """There is no GPU that CuPy can use; the message says why and what to do."""


class Device(Protocol):
    """What a CUDA device offers."""

    xp: Any
    """The array library, with CuPy's interface."""
    compute_capability: ComputeCapability

    def load(self, code: bytes, entry: str, grid: Extent, block: Extent, shared: int) -> Function:
        """Load a cubin; its kernel runs in ``grid`` blocks of ``block`` threads.

        ``shared`` is the dynamic shared memory of a block in bytes.
        """

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """Allocate an uninitialised C-contiguous array."""

    def zeros(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """Allocate a C-contiguous array of zeros."""

    def asarray(self, value: Any) -> Any:
        """Copy a NumPy array to the device, or wrap an array that is there already."""

    def pointer(self, array: Any) -> int:
        """Return the address of the first element of ``array``."""

    def array_class(self) -> type:
        """Return the class of the device's arrays."""

    def read(self, array: Any) -> np.ndarray[Any, Any]:
        """Copy to the host what the current stream computes; waits for it."""

    def capture(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Record what ``launch`` launches, without running it; return what launches all of it."""

    def wait(self) -> None:
        """Wait until everything launched on the current stream has finished."""


class CupyDevice:
    """The current CUDA device, memory from CuPy's pool, launches on CuPy's current stream."""

    def __init__(self) -> None:
        """Import CuPy and look for a device.

        Raises:
            CudaUnavailableError: CuPy is not installed, or it finds no driver or no GPU.
        """
        try:
            import cupy
        except ImportError as error:
            raise CudaUnavailableError(f"CuPy is not installed ({error}). {_REMEDY}") from error
        try:
            count = cupy.cuda.runtime.getDeviceCount()
            if count == 0:
                raise CudaUnavailableError(f"the driver lists no GPU. {_REMEDY}")
            capability = cupy.cuda.Device().compute_capability
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise CudaUnavailableError(f"CUDA does not start ({error}). {_REMEDY}") from error
        self.xp: Any = cupy
        # CuPy writes 9.0 as "90" and 10.0 as "100".
        self.compute_capability = (int(capability[:-1]), int(capability[-1]))

    def load(self, code: bytes, entry: str, grid: Extent, block: Extent, shared: int) -> Function:
        """Load a cubin from memory into the current context."""
        from cupy.cuda import get_current_stream
        from cupy.cuda.function import Module
        from cupy_backends.cuda.api import driver

        module = Module()
        module.load(code)
        function = module.get_function(entry)
        if shared > _STATIC_LIMIT:
            driver.funcSetAttribute(function.ptr, _MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
        launch_kernel, address = driver.launchKernel, function.ptr
        blocks, threads = three(grid), three(block)

        def launch(arguments: int, _module: Any = function) -> None:
            # The default argument keeps the module loaded for as long as it can be launched.
            stream = get_current_stream().ptr
            launch_kernel(address, *blocks, *threads, shared, stream, arguments, 0)

        return launch

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """Allocate from CuPy's memory pool."""
        return self.xp.ndarray(tuple(shape), dtype)

    def zeros(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """Allocate from CuPy's memory pool, and set on the current stream."""
        return self.xp.zeros(tuple(shape), dtype)

    def asarray(self, value: Any) -> Any:
        """Copy or wrap; understands NumPy, ``__cuda_array_interface__`` and DLPack."""
        known = isinstance(value, np.ndarray) or hasattr(value, "__cuda_array_interface__")
        if not known and hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
            return self.xp.from_dlpack(value)
        return self.xp.asarray(value)

    def pointer(self, array: Any) -> int:
        """Return the address of the first element."""
        address: int = array.data.ptr
        return address

    def array_class(self) -> type:
        """Return ``cupy.ndarray``."""
        array_class: type = self.xp.ndarray
        return array_class

    def read(self, array: Any) -> np.ndarray[Any, Any]:
        """Copy to the host, in the order of the current stream."""
        values: np.ndarray[Any, Any] = array.get()
        return values

    def capture(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Capture on a stream of its own, since the default one cannot; launch on the current."""
        stream = self.xp.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            try:
                launch()
            finally:
                # Also after an error, or the stream would go on capturing.
                graph = stream.end_capture()
        replay: Callable[[], None] = graph.launch
        return replay

    def wait(self) -> None:
        """Synchronise CuPy's current stream."""
        self.xp.cuda.get_current_stream().synchronize()

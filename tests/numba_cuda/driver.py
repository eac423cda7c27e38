"""Functions of the driver API that numba-cuda calls, for the emulated device."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as api

from tests.numba_cuda import state

_ATTRIBUTES = {
    "MULTIPROCESSOR_COUNT": 4, "MAX_THREADS_PER_BLOCK": 1024, "WARP_SIZE": 32,
    "MAX_SHARED_MEMORY_PER_BLOCK": 49152, "COMPUTE_CAPABILITY_MAJOR": state.CAPABILITY[0],
    "COMPUTE_CAPABILITY_MINOR": state.CAPABILITY[1], "COMPUTE_MODE": 0, "PCI_DOMAIN_ID": 0,
    "PCI_BUS_ID": 1, "PCI_DEVICE_ID": 0, "KERNEL_EXEC_TIMEOUT": 0, "TCC_DRIVER": 0,
    "MAX_BLOCK_DIM_X": 1024, "MAX_BLOCK_DIM_Y": 1024, "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2**31 - 1, "MAX_GRID_DIM_Y": 65535, "MAX_GRID_DIM_Z": 65535,
    "MAX_REGISTERS_PER_BLOCK": 65536, "TOTAL_CONSTANT_MEMORY": 65536, "MAX_PITCH": 2**31 - 1,
}  # fmt: skip
_CONTEXT = 77
Code = api.CUresult


class DriverError(Exception):
    """A call that returns an error code."""

    def __init__(self, code: Any) -> None:
        super().__init__(code)
        self.code = code


def wrapped(name: str, fake: FakeDriver) -> Callable[..., Any]:
    """Return a function as the bindings have it: it returns the error code before its results."""
    function = getattr(fake, name, None)

    def call(*args: Any) -> tuple[Any, ...]:
        if function is None:
            return (Code.CUDA_ERROR_NOT_SUPPORTED, None)
        if name != "cuInit" and fake.owner != os.getpid():
            return (Code.CUDA_ERROR_NOT_INITIALIZED, None)
        try:
            result = function(*args)
        except DriverError as error:
            return (error.code, None)
        if result is None:
            return (Code.CUDA_SUCCESS,)
        return (Code.CUDA_SUCCESS, *(result if isinstance(result, tuple) else (result,)))

    call.__name__ = call.__qualname__ = name
    return call


def _place(pointer: Any, size: int) -> Any:
    found = state.locate(int(pointer), size)
    if found is None:
        raise DriverError(Code.CUDA_ERROR_INVALID_VALUE)
    return found


class FakeDriver:
    """The functions, under their names in the API; streams are empty as soon as they are asked."""

    def __init__(self) -> None:
        self.owner = 0
        self._local = threading.local()
        self._events: dict[int, float] = {}
        self._host: dict[int, Any] = {}

    # The device and its context.

    def cuInit(self, flags: int) -> None:
        self.owner = os.getpid()

    def cuDriverGetVersion(self) -> int:
        return 13000

    def cuDeviceGetCount(self) -> int:
        return 1

    def cuDeviceGet(self, number: int) -> Any:
        return api.CUdevice(number)

    def cuDeviceGetAttribute(self, code: Any, device: Any) -> int:
        return _ATTRIBUTES.get(code.name.removeprefix("CU_DEVICE_ATTRIBUTE_"), 1)

    def cuDeviceCanAccessPeer(self, device: Any, peer: Any) -> int:
        return 0

    def _stack(self) -> list[Any]:
        if not hasattr(self._local, "stack"):
            self._local.stack = []
        return self._local.stack  # type: ignore[no-any-return]

    def cuCtxGetCurrent(self) -> Any:
        stack = self._stack()
        return stack[-1] if stack else api.CUcontext(0)

    def cuCtxPushCurrent(self, context: Any) -> None:
        self._stack().append(api.CUcontext(int(context)))

    def cuCtxPopCurrent(self) -> Any:
        if not self._stack():
            raise DriverError(Code.CUDA_ERROR_INVALID_CONTEXT)
        return self._stack().pop()

    def cuCtxSetCurrent(self, context: Any) -> None:
        self._stack()[-1:] = [api.CUcontext(int(context))]

    def cuCtxGetDevice(self) -> Any:
        if not self._stack():
            raise DriverError(Code.CUDA_ERROR_INVALID_CONTEXT)
        return api.CUdevice(0)

    def cuCtxCreate(self, *_: Any) -> Any:
        context = api.CUcontext(next(state.handles))
        self._stack().append(context)
        return context

    def cuCtxDestroy(self, context: Any) -> None:
        self._stack()[:] = [c for c in self._stack() if int(c) != int(context)]

    def cuCtxSynchronize(self) -> None:
        """All work is done."""

    def cuDevicePrimaryCtxRetain(self, device: Any) -> Any:
        return api.CUcontext(_CONTEXT)

    def cuDevicePrimaryCtxRelease(self, device: Any) -> None:
        """It always stays."""

    def cuDevicePrimaryCtxReset(self, device: Any) -> None:
        """Whoever has memory frees it."""

    # Memory.

    def cuMemGetInfo(self) -> tuple[int, int]:
        return 1 << 33, 1 << 34

    def cuMemAlloc(self, size: int) -> Any:
        if size <= 0:
            raise DriverError(Code.CUDA_ERROR_INVALID_VALUE)
        if size > 1 << 34:
            raise DriverError(Code.CUDA_ERROR_OUT_OF_MEMORY)
        return api.CUdeviceptr(state.memory.allocate(size))

    def cuMemAllocManaged(self, size: int, flags: int) -> Any:
        return api.CUdeviceptr(state.allocate_managed(size))

    def cuMemFree(self, pointer: Any) -> None:
        if not state.free(int(pointer)):
            raise DriverError(Code.CUDA_ERROR_INVALID_VALUE)

    def cuMemHostAlloc(self, size: int, flags: int) -> int:
        data = (ctypes.c_uint8 * size)()
        address = ctypes.addressof(data)
        self._host[address] = state.host_array(address, size), data
        return address

    def cuMemFreeHost(self, pointer: int) -> None:
        del self._host[int(pointer)]

    def cuMemHostRegister(self, pointer: int, size: int, flags: int) -> None:
        if pointer in self._host:
            raise DriverError(Code.CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        self._host[pointer] = state.host_array(pointer, size), None

    def cuMemHostUnregister(self, pointer: int) -> None:
        del self._host[int(pointer)]

    def cuMemHostGetDevicePointer(self, pointer: int, flags: int) -> Any:
        return api.CUdeviceptr(state.memory.adopt(self._host[int(pointer)][0]).address)

    def cuMemGetAddressRange(self, pointer: Any) -> tuple[Any, int]:
        buffer, _ = _place(pointer, 0)
        return api.CUdeviceptr(buffer.address), buffer.size

    def cuPointerGetAttribute(self, attribute: Any, pointer: Any) -> Any:
        _place(pointer, 0)
        if attribute.name.endswith("_DEVICE_POINTER"):
            return api.CUdeviceptr(int(pointer))
        raise DriverError(Code.CUDA_ERROR_NOT_SUPPORTED)

    def cuMemcpyHtoD(self, target: Any, source: Any, size: int, stream: Any = 0) -> None:
        if size:
            buffer, start = _place(target, size)
            buffer.bytes[start : start + size] = state.host_array(int(source), size)
            state.written(buffer, start, size)

    def cuMemcpyDtoH(self, target: Any, source: Any, size: int, stream: Any = 0) -> None:
        if size:
            buffer, start = _place(source, size)
            state.host_array(int(target), size)[:] = buffer.bytes[start : start + size]

    def cuMemcpyDtoD(self, target: Any, source: Any, size: int, stream: Any = 0) -> None:
        if size:
            (to, at), (buffer, start) = _place(target, size), _place(source, size)
            to.bytes[at : at + size] = buffer.bytes[start : start + size]
            state.written(to, at, size)

    cuMemcpyHtoDAsync, cuMemcpyDtoHAsync, cuMemcpyDtoDAsync = (
        cuMemcpyHtoD, cuMemcpyDtoH, cuMemcpyDtoD,
    )  # fmt: skip

    def cuMemsetD8(self, target: Any, byte: int, size: int, stream: Any = 0) -> None:
        if size:
            buffer, start = _place(target, size)
            buffer.bytes[start : start + size] = byte & 255
            state.written(buffer, start, size)

    cuMemsetD8Async = cuMemsetD8

    # Modules.

    def cuLibraryGetGlobal(self, library: Any, name: bytes) -> tuple[Any, int]:
        try:
            address, size = state.libraries[int(library)].symbol(name.decode())
        except KeyError:
            raise DriverError(Code.CUDA_ERROR_NOT_FOUND) from None
        return api.CUdeviceptr(address), size

    def cuLibraryUnload(self, library: Any) -> None:
        state.libraries.pop(int(library), None)

    def cuKernelSetCacheConfig(self, *_: Any) -> None:
        """There is no cache."""

    cuKernelSetAttribute = cuProfilerStart = cuProfilerStop = cuKernelSetCacheConfig

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, kernel: Any, threads: int, shared: int, flags: int = 0
    ) -> int:
        return 2048 // threads

    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags = (
        cuOccupancyMaxActiveBlocksPerMultiprocessor
    )

    # Streams and events.

    def cuStreamCreate(self, flags: int) -> Any:
        return api.CUstream(next(state.handles))

    def cuStreamSynchronize(self, stream: Any) -> None:
        """All work is done."""

    cuStreamDestroy = cuStreamSynchronize

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> None:
        """All work is done."""

    def cuStreamAddCallback(self, stream: Any, callback: Any, data: int, flags: int) -> None:
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
        call = function(int(callback))
        threading.Thread(target=call, args=(stream, 0, data)).start()

    def cuEventCreate(self, flags: int) -> Any:
        return api.CUevent(next(state.handles))

    def cuEventRecord(self, event: Any, stream: Any) -> None:
        self._events[int(event)] = time.perf_counter()

    def cuEventQuery(self, event: Any) -> None:
        """All work is done."""

    cuEventSynchronize = cuEventQuery

    def cuEventDestroy(self, event: Any) -> None:
        self._events.pop(int(event), None)

    def cuEventElapsedTime(self, start: Any, end: Any) -> float:
        return 1e3 * (self._events[int(end)] - self._events[int(start)])

"""The CUDA backend: emits and compiles anywhere, loads and launches where there is a device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from minijit.backends.array import ARRAY_PLACES
from minijit.backends.base import Binary, Build, Custom, Launcher, Support, load_source
from minijit.backends.cuda.arguments import BlockPerThread
from minijit.backends.cuda.device import ComputeCapability, CupyDevice, Device, Function
from minijit.backends.environment import compilers
from minijit.graph.aval import ShapedArray
from minijit.graph.device_kernel import DeviceKernel
from minijit.graph.events import emit
from minijit.graph.few_rows import FewRows
from minijit.graph.interrupts import uninterrupted

if TYPE_CHECKING:
    from minijit.lowering.cuda_launch import CudaLaunch
    from minijit.lowering.kernel_ir import Kernel
    from minijit.lowering.source import KernelSource

__all__ = ["CudaBackend"]

_ALIGNMENT_MASK = 15
_COMPILERS = (
    "numba",
    "numba-cuda",
    "llvmlite",
    "cuda-core",
    "nvidia-nvvm",
    "nvidia-nvjitlink",
    "cupy-cuda12x",
    "cupy-cuda13x",
)
"""The distributions whose versions decide what a source is compiled to."""


class CudaBackend:
    """An NVIDIA GPU, or, with ``cc`` alone, a compiler for one that need not be there.

    ``emit`` and ``compile`` need neither a device nor CuPy.
    """

    name = "cuda"
    takes_ptx = False
    """Whether the device loads PTX in the place of cubins."""
    few_rows = FewRows(264, abreast=8, block=1 << 12, held=1 << 10)
    """Two units for each multiprocessor of an H100; eight neighbours of 32 bits fill a sector."""
    splits_columns = False
    reduces_in_blocks = True
    most_buffers = 48
    """Beyond that registers spill and compile time explodes."""
    most_columns = 1 << 13
    """Sixteen for each of the threads of a block: the carries of a step stay in registers."""
    most_matrix_bytes = 1 << 17
    """About what the first cache of a multiprocessor holds: each step reads them again."""
    steps_ahead = 8
    """Of small steps this many take as long as the host waits for the device and back."""
    graph_launches = 64
    """More make a longer wait for the first replay, and each of them is as cheap."""

    def __init__(self, device: Device | None = None, cc: ComputeCapability | None = None) -> None:
        """Use ``device`` and compile for ``cc``.

        Args:
            device: Default: CuPy's current one, which is looked for now, or with ``cc`` when it is
                first needed.
            cc: Compute capability; default: the device's.

        Raises:
            CudaUnavailableError: neither is given and CuPy finds no GPU; the message says why and
                what to install.
        """
        self._device = CupyDevice() if device is None and cc is None else device
        self._cc = cc
        self._lock = threading.Lock()
        self._result_class: type | None = None

    @property
    def device(self) -> Device:
        """The device.

        Raises:
            CudaUnavailableError: there is none.
        """
        if self._device is None:
            self._device = CupyDevice()
        return self._device

    @property
    def cc(self) -> ComputeCapability:
        """The compute capability that is compiled for."""
        return self.device.compute_capability if self._cc is None else self._cc

    @property
    def xp(self) -> Any:
        """CuPy, or what stands in for it."""
        return self.device.xp

    def emit(self, kernel: Kernel) -> KernelSource:
        """Choose a schedule and write the source."""
        return self._emitted(kernel)

    def environment(self) -> Mapping[str, str]:
        """Return the compilers and the compute capability."""
        major, minor = self.cc
        return {"target": f"{self.name} sm_{major}{minor}"} | compilers("cuda", *_COMPILERS)

    def parameters(self, source: KernelSource) -> Mapping[str, Any]:
        """Return the launch bounds, and what decides how a kernel that spills is written again."""
        launch: CudaLaunch = source.launch
        return {"bounds": launch.bounds, "vectorize": launch.vectorize, "work": launch.work}

    def variants(self, source: KernelSource) -> tuple[KernelSource, ...]:
        """Return ``source``, and where it has 128-bit accesses the one without them."""
        launch: CudaLaunch = source.launch
        if not launch.aligned:
            return (source,)
        return source, self._emitted(source.kernel, vectorize=False)

    def candidates(self, source: KernelSource) -> tuple[KernelSource, ...]:
        """Return ``source``, and the same with less work for each thread, and without vectors."""
        launch: CudaLaunch = source.launch
        works = [launch.work // share for share in (2, 4) if launch.work >= share]
        less = [self._emitted(source.kernel, work=work) for work in works]
        found = (source, *less, *self.variants(source)[1:])
        return tuple({each.text: each for each in reversed(found)}.values())[::-1]

    def compile(self, source: KernelSource) -> Binary:
        """Compile to a cubin.

        Where registers spill, the kernel is written again with less work for each thread; the work
        of what was compiled in the end is one of the binary's resources.
        """
        best, launch = self._build(source), source.launch
        work = launch.work
        while _in_memory(best) and work > 1:
            work //= 2
            source = self._emitted(source.kernel, vectorize=launch.vectorize, work=work)
            binary = self._build(source)
            if _in_memory(binary) >= _in_memory(best):
                # Not a matter of room: some library functions use a stack for rare arguments.
                break
            best, launch = binary, source.launch
        return Binary(best.code, best.entry, {**best.resources, "work": launch.work})

    def _emitted(
        self, kernel: Kernel, *, vectorize: bool = True, work: int | None = None
    ) -> KernelSource:
        from minijit.lowering.cuda import emit_cuda

        return emit_cuda(kernel, self.cc, vectorize=vectorize, work=work)

    def _build(self, source: KernelSource) -> Binary:
        """Compile one source as it is."""
        from minijit.backends.cuda.compiler import compile_source

        return uninterrupted(partial(compile_source, source, self.cc))

    def custom(
        self,
        kernel: DeviceKernel,
        operands: Sequence[ShapedArray],
        results: Sequence[ShapedArray],
        params: Mapping[str, Any],
        build: Callable[[Support], Binary],
    ) -> Custom:
        """Compile and load a user's whole kernel."""
        from minijit.backends.cuda.custom import Target, custom_launcher

        target = Target(self.device, self.cc, self.takes_ptx)
        launch = custom_launcher(kernel, operands, results, params, target, build)
        reserve = self.device.zeros if kernel.zeroed else self.device.empty

        def allocator(aval: ShapedArray) -> Callable[[], Any]:
            return lambda: self.result(reserve(aval.shape, aval.dtype))

        return Custom(launch, tuple(map(allocator, results)))

    def interface(self, source: KernelSource, binary: Binary) -> Mapping[str, Any]:
        """Return the operands, and grid, block and shared memory for what was compiled."""
        launch: CudaLaunch = source.launch
        work = binary.resources["work"]
        if work != launch.work:
            written = self._emitted(source.kernel, vectorize=launch.vectorize, work=work)
            launch = written.launch
        return {
            "buffers": len(source.kernel.buffers),
            "arguments": [argument.dtype.name for argument in source.kernel.arguments],
            "sizes": list(launch.sizes),
            "grid": launch.grid,
            "block": launch.block,
            "shared": launch.shared,
            "aligned": list(launch.aligned),
        }

    def load(
        self,
        interface: Mapping[str, Any],
        binary: Binary,
        source: Callable[[], KernelSource],
        build: Build | None = None,
    ) -> Launcher:
        """Load the cubin on the current device; the launcher runs it on CuPy's current stream.

        Buffers that are not aligned to 16 bytes (views) are served by a second kernel without
        128-bit accesses, which is compiled when the first such call comes.
        """
        built: Callable[[KernelSource], Binary] = build or self.compile
        sizes = [interface[name] for name in ("grid", "block", "shared")]
        run = self.device.load(binary.code, binary.entry, *sizes)
        scalar: list[Launcher] = []

        def unaligned(arguments: tuple[Any, ...]) -> None:
            with self._lock:
                if not scalar:
                    _, plain = self.variants(source())
                    scalar.append(load_source(self, plain, built(plain), build))
            scalar[0](arguments)

        return _launcher(interface, run, self.device.pointer, unaligned)

    def allocator(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Callable[[], Any]:
        """Return a function that allocates from the device's memory pool at each call."""
        empty, result = self.device.empty, self.result
        return lambda: result(empty(shape, dtype))

    def expect(self, sizes: Sequence[int]) -> None:
        """Do nothing: CuPy's pool keeps all memory."""

    def asarray(self, value: Any) -> Any:
        """Return ``value`` on the device; a copy from the host emits ``copy_to_device``."""
        if self.is_array(value):
            return value
        array = self.device.asarray(value)
        if not hasattr(value, "__cuda_array_interface__"):
            emit("copy_to_device", bytes=array.nbytes)
        return array

    def is_array(self, value: object) -> bool:
        """Whether ``value`` is an array of the device."""
        return isinstance(value, self.device.array_class())

    def result(self, array: Any) -> Any:
        """Return a view of ``array`` whose class adds ``block_until_ready``."""
        if self._result_class is None:
            self._result_class = _result_class(self.device)
            # Calls on such arrays may take the short cut of a hit.
            ARRAY_PLACES[self.device.array_class()] = self.name
            ARRAY_PLACES[self._result_class] = self.name
        return array.view(type=self._result_class)

    def plain(self, value: Any) -> Any:
        """Return ``value``: CuPy works as fast with the class that adds ``block_until_ready``."""
        return value

    def reader(self, array: Any) -> Callable[[], bytes]:
        """Return a function that waits for CuPy's current stream and copies ``array``."""
        return lambda: self.device.read(array).tobytes()

    def capture(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Record a CUDA graph, which is launched on CuPy's current stream."""
        return self.device.capture(launch)

    def synchronize(self) -> None:
        """Wait for CuPy's current stream."""
        self.device.wait()


def _in_memory(binary: Binary) -> int:
    """Return the bytes a thread keeps in memory because registers do not hold them."""
    return max(binary.resources["stack"], binary.resources["spill_stores"])


def _launcher(
    interface: Mapping[str, Any],
    run: Function,
    pointer: Callable[[Any], int],
    unaligned: Launcher,
) -> Launcher:
    buffers, aligned, sizes = (interface[name] for name in ("buffers", "aligned", "sizes"))
    dtypes = list(map(np.dtype, interface["arguments"]))
    local = BlockPerThread(buffers, dtypes + [np.dtype(np.int64)] * len(sizes))

    def start(arguments: tuple[Any, ...]) -> None:
        pointers = [pointer(array) for array in arguments[:buffers]]
        low_bits = 0
        for place in aligned:
            low_bits |= pointers[place]
        if low_bits & _ALIGNMENT_MASK:
            unaligned(arguments)
            return
        local.pack(*pointers, *arguments[buffers:], *sizes)
        run(local.block.address)

    return start


def _result_class(device: Device) -> type:
    """Return a subclass of the device's array class; made here since CuPy is imported lazily."""

    def block_until_ready(self: Any) -> Any:
        """Wait until the value of this array is computed, and return the array."""
        device.wait()
        return self

    return type(
        "Array",
        (device.array_class(),),
        {"block_until_ready": block_until_ready, "__module__": "minijit", "__slots__": ()},
    )

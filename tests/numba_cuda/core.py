"""Classes of cuda.core that numba-cuda uses, for the emulated device."""

from __future__ import annotations

import ctypes
import dataclasses
import re
from collections import namedtuple
from functools import cached_property
from typing import Any, ClassVar

import cuda.core
from cuda.bindings import driver as api
from cuda.core._utils.cuda_utils import CUDAError

from minijit.backends.emulator.image import Image
from minijit.backends.emulator.program import Program as Emulated
from tests.numba_cuda import state
from tests.numba_cuda.views import Buffer, DeviceMemory

_RealLinker, _RealCode, _RealProgram = cuda.core.Linker, cuda.core.ObjectCode, cuda.core.Program
_LinkerOptions = cuda.core.LinkerOptions
_Capability = namedtuple("_Capability", ["major", "minor"])
_LARGEST_BLOCK, _LARGEST_SHARED = 1024, 227 * 1024


@dataclasses.dataclass(frozen=True)
class _Context:
    handle: Any


class Device:
    """The one device."""

    memory_resource = DeviceMemory()

    device_id, name, uuid = 0, "emulated", "00000000-0000-0000-0000-000000000000"
    compute_capability = _Capability(*state.CAPABILITY)
    arch = "{}{}".format(*state.CAPABILITY)

    def __init__(self, number: int = 0) -> None:
        if number:
            raise ValueError(f"device_id must be 0, got {number}")

    @property
    def context(self) -> _Context:
        return _Context(api.cuDevicePrimaryCtxRetain(0)[1])

    def set_current(self) -> None:
        if not int(api.cuCtxGetCurrent()[1]):
            api.cuCtxPushCurrent(self.context.handle)

    def create_stream(self, *_: Any, **__: Any) -> Stream:
        return Stream(api.cuStreamCreate(0)[1])

    def allocate(self, size: int, *, stream: Any = None) -> Buffer:
        return self.memory_resource.allocate(size, stream=stream)

    def sync(self) -> None:
        """All work is done."""


class Stream:
    """A stream in which all work is done."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    @classmethod
    def from_handle(cls, handle: Any) -> Stream:
        return cls(handle)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, int(self.handle)

    def sync(self) -> None:
        """All work is done."""

    close = sync


@dataclasses.dataclass(frozen=True)
class LaunchConfig:
    """How to launch."""

    grid: Any
    block: Any
    shmem_size: int = 0
    is_cooperative: bool = False
    cooperative_launch: bool = False


class ObjectCode:
    """Machine code with the PTX from which it was made, which is what runs."""

    def __init__(self, real: Any, texts: tuple[str, ...]) -> None:
        self.real, self.texts = real, texts

    def __reduce__(self) -> Any:
        return ObjectCode, (self.real, self.texts)

    def __getattr__(self, name: str) -> Any:
        if name == "real":
            raise AttributeError(name)
        return getattr(self.real, name)

    @cached_property
    def image(self) -> Image:
        if not self.texts:
            raise CUDAError("CUDA_ERROR_NO_BINARY_FOR_GPU: there is no PTX for the emulator")
        return Image.of(self.texts, state.memory)

    @cached_property
    def handle(self) -> int:
        number = next(state.handles)
        state.libraries[number] = self.image
        return number

    def get_kernel(self, name: str) -> Kernel:
        return Kernel(self, name)


def _maker(kind: str) -> Any:
    def make(cls: Any, code: Any, name: str = "", symbol_mapping: Any = None) -> ObjectCode:
        real = getattr(_RealCode, kind)(code, name=name, symbol_mapping=symbol_mapping)
        texts = (_text(code),) if kind == "from_ptx" else ()
        return ObjectCode(real, texts)

    return classmethod(make)


for _kind in ("ptx", "cubin", "ltoir", "fatbin", "object", "library"):
    setattr(ObjectCode, f"from_{_kind}", _maker(f"from_{_kind}"))


def _text(code: Any) -> str:
    return code if isinstance(code, str) else bytes(code).decode().rstrip("\0")


class Linker:
    """Links as ever, and keeps the PTX of everything that was linked.

    What is to be optimised is linked to PTX first: the cubin is made of the very text that runs.
    """

    def __init__(self, *codes: Any, options: Any) -> None:
        self.codes = [c.real if isinstance(c, ObjectCode) else c for c in codes]
        self.options = options
        self.linker = _RealLinker(*self.codes, options=options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.linker, name)

    def link(self, kind: str) -> Any:
        if kind != "cubin":
            return self.linker.link(kind)
        rest = [c for c in self.codes if c.code_type != "ltoir"]
        optimised = [c for c in self.codes if c.code_type == "ltoir"]
        if optimised:
            options = dataclasses.replace(self.options, ptx=True)
            text = _RealLinker(*optimised, options=options).link("ptx").code
            rest.append(_RealCode.from_ptx(text.rstrip(b"\0")))
            self.linker.close()
            plain = dataclasses.replace(self.options, link_time_optimization=None, ptx=None)
            self.linker = _RealLinker(*rest, options=plain)
        result = self.linker.link("cubin")
        return ObjectCode(result, tuple(_text(c.code) for c in rest if c.code_type == "ptx"))


class Program:
    """Compiles C++ as ever, each text once: the runtime of Numba comes with many kernels."""

    _compiled: ClassVar[dict[tuple[str, ...], Any]] = {}

    def __init__(self, code: str, code_type: str, options: Any) -> None:
        self.key = (code, code_type, repr(options))
        self.program = _RealProgram(code, code_type, options=options)

    def compile(self, kind: str, **options: Any) -> Any:
        key = (*self.key, kind)
        if key not in self._compiled:
            self._compiled[key] = self.program.compile(kind, **options)
        return self._compiled[key]


class Kernel:
    """One kernel of a module."""

    def __init__(self, code: ObjectCode, name: str) -> None:
        self.name = name
        self.program = Emulated.of_image(code.image, name, state.memory)
        self.handle = next(state.handles)
        constants = [v.size for v in code.image.module.variables if v.space == "const"]
        header = re.compile(rf"\.entry {re.escape(name)}\b[^{{]*?\.maxntid (\d+)")
        largest = header.search("".join(code.texts))
        self.attributes = _Attributes(
            _registers(code.real.code), sum(constants), self.program.layout.local,
            self.program.layout.shared, int(largest[1]) if largest else _LARGEST_BLOCK,
        )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _Attributes:
    num_regs: int
    const_size_bytes: int
    local_size_bytes: int
    shared_size_bytes: int
    max_threads_per_block: int


def _registers(cubin: bytes) -> int:
    """Return the registers of a thread; the .nv.info section has them under attribute 0x2f."""
    found = re.findall(rb"\x04\x2f\x08\0.{4}(.{4})", cubin, re.DOTALL)
    return max((int.from_bytes(count, "little") for count in found), default=0)


def _three(extent: Any) -> tuple[int, int, int]:
    sizes = [int(n) for n in (extent if isinstance(extent, tuple | list) else (extent,))]
    return (*sizes, *[1] * (3 - len(sizes)))  # type: ignore[return-value]


def _packed(value: Any, size: int) -> bytes:
    if hasattr(value, "handle"):
        value = int(value.handle)
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, float):
        value = ctypes.c_double(value)
    if isinstance(value, int):
        return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    data = bytes(value)
    if len(data) != size:
        raise CUDAError(f"CUDA_ERROR_INVALID_VALUE: a parameter of {size} bytes got {len(data)}")
    return data


def launch(stream: Any, config: LaunchConfig, kernel: Kernel, *args: Any) -> None:
    """Run a kernel to its end."""
    grid, block = _three(config.grid), _three(config.block)
    threads = block[0] * block[1] * block[2]
    if not 0 < threads <= kernel.attributes.max_threads_per_block or min(grid) < 1:
        raise CUDAError("CUDA_ERROR_INVALID_VALUE: the grid or the block is empty or too large")
    if config.shmem_size > _LARGEST_SHARED:
        raise CUDAError("CUDA_ERROR_INVALID_VALUE: too much shared memory")
    sizes = [variable.size for variable in kernel.program.flat.params]
    if len(sizes) != len(args):
        raise CUDAError(f"CUDA_ERROR_INVALID_VALUE: {len(args)} of {len(sizes)} parameters")
    values = [_packed(value, size) for value, size in zip(args, sizes, strict=True)]
    kernel.program.launch(state.memory, values, grid, block, shared=config.shmem_size)

"""Whole kernels of users: CUDA C by NVRTC, Python by numba-cuda; neither needs a device."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from minijit.backends.base import Binary, Support
from minijit.backends.cuda.arguments import BlockPerThread
from minijit.backends.cuda.compiler import compile_python, link
from minijit.backends.cuda.device import ComputeCapability, Device
from minijit.graph.aval import ShapedArray
from minijit.graph.device_kernel import DeviceKernel
from minijit.graph.errors import DeclarationError
from minijit.graph.interrupts import uninterrupted

__all__ = ["Target", "custom_launcher"]

_THREADS = 1024
_PARAMETER = re.compile(r"\.param\b.*?\.([usfb])(\d+)\b[^\[]*(?:\[(\d+)\])?$")
Extent = tuple[int, int, int]
Parameter = tuple[bool, int]
"""Whether a parameter is a float, and how many bytes it has."""


class Target(NamedTuple):
    """Where a kernel runs.

    Attributes:
        device: The device.
        cc: What it is compiled for.
        ptx: Whether the device takes PTX in the place of a cubin.
    """

    device: Device
    cc: ComputeCapability
    ptx: bool


def custom_launcher(
    kernel: DeviceKernel,
    operands: Sequence[ShapedArray],
    results: Sequence[ShapedArray],
    params: Mapping[str, Any],
    target: Target,
    build: Callable[[Support], Binary],
) -> Callable[[Sequence[Any]], None]:
    """Return what launches a kernel on contiguous arrays: the operands, then the results.

    Args:
        kernel: The kernel.
        operands: What it reads.
        results: What it writes.
        params: Its static parameters.
        target: Where it runs.
        build: Returns the machine code of one in Python.

    Raises:
        DeclarationError: it does not compile, its launch configuration is none, or it takes other
            parameters than it is given.
    """
    grid, block, shared = _configuration(kernel, operands, params)
    scalars = tuple(map(_scalar, kernel.arguments(*operands, **params)))
    arrays = (*operands, *results)
    in_c = isinstance(kernel.code, str)
    types = tuple(scalar.dtype for scalar in scalars)
    device, cc, ptx = target
    if in_c:
        binary, parameters = _from_c(kernel, cc, ptx)
        _check_parameters(kernel.entry, parameters, len(operands), len(results), types)
    else:
        kinds = tuple((aval.dtype.str, aval.ndim) for aval in arrays)
        binary = _from_python(_Wanted(kernel, kinds, types, cc, ptx, build))
    run = device.load(binary.code, binary.entry, grid, block, shared)
    slots = [1 if in_c else 5 + 2 * aval.ndim for aval in arrays]
    fields = [() if in_c else _fields(aval) for aval in arrays]
    local = BlockPerThread(sum(slots), types)

    def launch(values: Sequence[Any]) -> None:
        packed: list[Any] = []
        for value, field in zip(values, fields, strict=True):
            pointer = device.pointer(value)
            packed += [pointer] if in_c else [*field[:4], pointer, *field[4:]]
        local.pack(*packed, *scalars)
        run(local.block.address)

    return launch


def _fields(aval: ShapedArray) -> tuple[int, ...]:
    """Return what numba-cuda passes of an array but for its address, which comes fifth.

    Owner and parent, number and size of elements; shape and strides.
    """
    size = aval.dtype.itemsize
    strides = [size * int(np.prod(aval.shape[axis + 1 :])) for axis in range(aval.ndim)]
    return (0, 0, aval.size, size, *aval.shape, *strides)


def _configuration(
    kernel: DeviceKernel, operands: Sequence[ShapedArray], params: Mapping[str, Any]
) -> tuple[Extent, Extent, int]:
    given = kernel.launch(*operands, **params)
    if not isinstance(given, tuple) or len(given) not in (2, 3):
        raise DeclarationError(
            f"launch= of kernel {kernel.entry!r} returned {given!r}: return (grid, block) or "
            "(grid, block, bytes of shared memory)"
        )
    grid, block = _extent(given[0], kernel), _extent(given[1], kernel)
    if block[0] * block[1] * block[2] > _THREADS:
        raise DeclarationError(
            f"kernel {kernel.entry!r}: a block of {block} threads is larger than {_THREADS}"
        )
    return grid, block, int(given[2]) if len(given) == 3 else 0


def _extent(given: Any, kernel: DeviceKernel) -> Extent:
    parts = given if isinstance(given, tuple) else (given,)
    if not 1 <= len(parts) <= 3 or any(int(part) < 1 for part in parts):
        raise DeclarationError(f"kernel {kernel.entry!r}: {given!r} is no extent of a launch")
    x, y, z = (*map(int, parts), 1, 1)[:3]
    return x, y, z


def _scalar(value: Any) -> Any:
    if not isinstance(value, np.generic):
        raise DeclarationError(
            f"arguments= gave {value!r}: a kernel's parameter has a size, so give NumPy scalars"
        )
    return value


def _check_parameters(
    entry: str,
    parameters: Sequence[Parameter],
    operands: int,
    results: int,
    types: Sequence[np.dtype[Any]],
) -> None:
    """Refuse a kernel that would read what it is not given, or read it as another type."""
    arrays = operands + results
    order = "it gets the operands, the results, then those of arguments="
    if len(parameters) != arrays + len(types):
        raise DeclarationError(
            f"kernel {entry!r} takes {len(parameters)} parameters and is given "
            f"{arrays + len(types)}: operands {operands}, results {results}, arguments= "
            f"{len(types)}; {order}"
        )
    given = [*[(False, 8)] * arrays, *((dtype.kind == "f", dtype.itemsize) for dtype in types)]
    names = [*["a pointer"] * arrays, *(f"numpy.{dtype.name}" for dtype in types)]
    for place, (parameter, other, name) in enumerate(zip(parameters, given, names, strict=True)):
        # A float of 16 bits is bytes in PTX.
        if parameter != other and not (other == (True, 2) and parameter[1] == 2):
            kind = f"{'a float' if parameter[0] else 'a number or struct'} of {parameter[1]} bytes"
            raise DeclarationError(
                f"parameter {place} of kernel {entry!r}, counted from 0, is {kind} and is given "
                f"{name}: {order}, each a NumPy scalar of the parameter's type"
            )


@dataclasses.dataclass(frozen=True, slots=True)
class _Wanted:
    """A kernel in Python, for operands of some types on a device."""

    kernel: DeviceKernel
    arrays: tuple[tuple[str, int], ...]
    scalars: tuple[np.dtype[Any], ...]
    cc: ComputeCapability
    ptx: bool
    build: Callable[[Support], Binary] = dataclasses.field(compare=False)

    def compiled(self) -> Binary:
        entry, code = self.kernel.entry, self.kernel.code
        python = getattr(code, "py_func", code)
        assert isinstance(python, FunctionType)
        bounds = SimpleNamespace(bounds=(_THREADS, 1))
        text = compile_python(python, self.arrays, self.scalars, entry, self.cc, bounds)
        return Binary(text.encode(), entry, {}) if self.ptx else link(text, self.cc)


@functools.lru_cache(256)
def _from_python(wanted: _Wanted) -> Binary:
    scalars = [dtype.str for dtype in wanted.scalars]
    entry = wanted.kernel.entry
    text = json.dumps([entry, wanted.arrays, scalars, wanted.cc, wanted.ptx])
    return wanted.build(Support(entry, text, lambda: uninterrupted(wanted.compiled)))


@functools.lru_cache(256)
def _from_c(
    kernel: DeviceKernel, cc: ComputeCapability, ptx: bool
) -> tuple[Binary, tuple[Parameter, ...]]:
    """Compile CUDA C; the library is CUDA's own, which needs no driver.

    It is quick, and nothing tells what the headers say that a source includes: so it is compiled in
    every process.
    """
    from cuda.bindings import nvrtc

    source = kernel.code
    assert isinstance(source, str)
    target = f"{'compute' if ptx else 'sm'}_{cc[0]}{cc[1]}"
    options = [f"--gpu-architecture={target}".encode(), *(o.encode() for o in kernel.options)]
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = _read(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
            raise DeclarationError(
                f"kernel {kernel.entry!r} does not compile:\n{log.decode().strip(chr(0)).strip()}"
            )
        text = _read(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).rstrip(b"\0")
        code = text if ptx else _read(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return Binary(code, kernel.entry, {}), _parameters(text.decode(), kernel.entry)


def _read(program: Any, size_of: Callable[..., Any], get: Callable[..., Any]) -> bytes:
    _, size = size_of(program)
    data: bytes = b" " * size
    get(program, data)
    return data


def _parameters(ptx: str, entry: str) -> tuple[Parameter, ...]:
    """Return what a kernel takes, as its declaration in PTX says."""
    found = re.search(rf"\.entry {re.escape(entry)}\((.*?)\)", ptx, re.DOTALL)
    if found is None:
        raise DeclarationError(
            f'the source has no kernel {entry!r}: write extern "C" __global__ void {entry}(...)'
        )
    parameters = []
    for declared in filter(str.strip, found[1].split(",")):
        match = _PARAMETER.search(declared.strip())
        assert match is not None, declared
        kind, bits, count = match.groups()
        parameters.append((kind == "f", int(bits) // 8 * int(count or 1)))
    return tuple(parameters)

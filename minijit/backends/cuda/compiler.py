"""The one module that reaches numba-cuda and cuda-core: generated source to PTX, PTX to a cubin.

Neither step needs a GPU or a driver. Numba types a call of a device function for "the current
device", so a stand-in with the wanted compute capability is put there while it compiles.
"""

from __future__ import annotations

import operator
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from minijit.backends.base import Binary
from minijit.backends.cuda.device import ComputeCapability
from minijit.backends.frontend import FrontendError, Toolkit, kernel_function
from minijit.backends.frontend.refusals import (
    RAISED,
    explained,
    explained_kernel,
    refuse_raising,
)
from minijit.graph.locks import process_lock
from minijit.graph.primitive import find_primitive
from minijit.lowering.source import KernelSource, held_dtype
from minijit.lowering.symbols import resolve_all

__all__ = [
    "CudaCompileError",
    "compile_ptx",
    "compile_python",
    "compile_source",
    "link",
    "source_file",
]

_HOPPER: ComputeCapability = (9, 0)

_lock = process_lock()
_REPORT = {
    "registers": re.compile(r"Used (\d+) registers"),
    "barriers": re.compile(r"used (\d+) barriers"),
    "stack": re.compile(r"(\d+) bytes stack frame"),
    "spill_stores": re.compile(r"(\d+) bytes spill stores"),
    "spill_loads": re.compile(r"(\d+) bytes spill loads"),
}

# Numba writes the working directory before the name of a file.
_FILE = re.compile(r'"[^"\n]*(<minijit cuda [^"\n]*>)"')
_VARIABLE = re.compile(r'^ *call void @"llvm\.dbg\.\w+".*\n', re.MULTILINE)
_SHARED = re.compile(r"\.shared .*\[(\d+)\];")


class CudaCompileError(RuntimeError):
    """Numba or the linker refused a generated kernel; the message holds its source."""


def compile_ptx(
    source: KernelSource, cc: ComputeCapability = _HOPPER, *, lines: bool = False
) -> str:
    """Return the PTX of ``source`` for compute capability ``cc``, its entry named as the kernel.

    The text is the same in every process. User arithmetic is not contracted to fma.

    Args:
        source: The kernel.
        cc: What it is compiled for.
        lines: Add ``.loc`` directives, which lead from an instruction to the line of the source
            (file :func:`source_file`), for tools; binaries for devices are made without them.

    Raises:
        CudaCompileError: Numba cannot compile the text.
        DeclarationError: a scalar function is not one that Numba compiles, or could raise.
    """
    from numba.core import types

    pointers = [types.CPointer(numba_type(buffer.dtype)) for buffer in source.kernel.buffers]
    scalars = [numba_type(held_dtype(argument.dtype)) for argument in source.kernel.arguments]
    scalars += [types.int64 for _ in source.launch.sizes]
    try:
        with _lock, _current_device(cc), _function(source) as function:
            signature = types.void(*pointers, *scalars)
            name, ptx = _numba_ptx(function, signature, cc, source.launch, lines)
    except FrontendError as error:
        reason = explained(error, resolve_all(source.names), source.text)
        if reason is not error:
            raise reason from None
        raise CudaCompileError(f"Numba refused this kernel:\n{source.text}\n{error}") from error
    if RAISED in ptx:
        raise refuse_raising(source.kernel.name, resolve_all(source.names))
    return _stable_names(ptx, name, source.kernel.name)


def compile_python(
    function: FunctionType,
    arrays: Sequence[tuple[str, int]],
    scalars: Sequence[np.dtype[Any]],
    entry: str,
    cc: ComputeCapability,
    launch: Any,
) -> str:
    """Return the PTX of a user's kernel, its entry named ``entry``.

    Args:
        function: A kernel as ``numba.cuda.jit`` takes it.
        arrays: Dtype and number of axes of each array; all are contiguous.
        scalars: Dtypes of the arguments after them.
        entry: The name.
        cc: What it is compiled for.
        launch: Has its ``bounds``.

    Raises:
        DeclarationError: Numba cannot compile it.
    """
    from numba.core import types
    from numba.core.errors import NumbaError

    kinds = [types.Array(numba_type(np.dtype(name)), ndim, "C") for name, ndim in arrays]
    signature = types.void(*kinds, *map(numba_type, scalars))
    try:
        with _lock, _current_device(cc):
            name, ptx = _numba_ptx(function, signature, cc, launch, False, may_raise=True)
    except NumbaError as error:
        raise explained_kernel(function, str(error)) from None
    return _stable_names(ptx, name, entry)


def link(ptx: str, cc: ComputeCapability = _HOPPER) -> Binary:
    """Return the cubin of ``ptx`` with what the assembler reported.

    Resources are ``registers`` (a thread), ``shared`` and ``stack`` (bytes), ``barriers``,
    ``spill_stores`` and ``spill_loads`` (bytes), and ``cc`` (90 for 9.0).

    Raises:
        CudaCompileError: the linker refuses it.
    """
    from cuda.core import Linker, LinkerOptions, ObjectCode

    entry = re.search(r"\.visible \.entry (\w+)", ptx)
    if entry is None:
        raise CudaCompileError("the PTX has no kernel")
    options = LinkerOptions(arch=f"sm_{cc[0]}{cc[1]}", fma=False, ptxas_options=["-v"])
    try:
        linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=options)
    except Exception as error:
        raise CudaCompileError(f"no linker for {options.arch}: {error}") from error
    try:
        code = bytes(linker.link("cubin").code)
        log = linker.get_info_log()
    except Exception as error:
        raise CudaCompileError(f"the linker refused {entry[1]}: {error}\n{ptx}") from error
    finally:
        linker.close()
    resources = {"cc": 10 * cc[0] + cc[1]}
    # The assembler does not report shared memory that other objects could see.
    resources["shared"] = sum(map(int, _SHARED.findall(ptx)))
    for name, pattern in _REPORT.items():
        found = pattern.search(log)
        resources[name] = int(found[1]) if found else 0
    return Binary(code, entry[1], resources)


def compile_source(source: KernelSource, cc: ComputeCapability = _HOPPER) -> Binary:
    """Compile ``source`` to a cubin for compute capability ``cc``."""
    return link(compile_ptx(source, cc), cc)


def numba_type(dtype: np.dtype[Any]) -> Any:
    """Return Numba's type of one element of ``dtype``."""
    from numba.np.numpy_support import from_dtype

    return from_dtype(dtype)


def source_file(source: KernelSource) -> str:
    """Return the name that the text of ``source`` has as a file: another one for another text."""
    return f"<minijit cuda {source.kernel.name} {zlib.crc32(source.text.encode()):08x}>"


_DIVISIONS = {operator.mod: "remainder", operator.floordiv: "floor_divide"}


def _exact(function: Any, dtype: str) -> Any:
    """Return exact code for a division of floats that rounds: that of Numba's is not."""
    if function not in _DIVISIONS:
        return function
    scalar = find_primitive(_DIVISIONS[function]).scalar
    assert scalar is not None
    return scalar.make(np.dtype(dtype))


def _function(source: KernelSource) -> AbstractContextManager[FunctionType]:
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    toolkit = Toolkit(types, intrinsic, _exact)
    return kernel_function(toolkit, source.text, resolve_all(source.names), source_file(source))


def _numba_ptx(
    function: Callable[..., None],
    signature: Any,
    cc: ComputeCapability,
    launch: Any,
    lines: bool,
    *,
    may_raise: bool = False,
) -> tuple[str, str]:
    """Return the mangled entry name and the PTX.

    These are the steps of ``numba.cuda.compile(device=False)``; it is not called since it cannot
    pass ``fma=0`` to NVVM, which otherwise contracts ``a * b + c``.
    """
    from numba.cuda import compiler
    from numba.cuda.cudadrv import nvvm

    options = {"fastmath": False, "opt": 3, "fma": 0}
    result = compiler.compile_cuda(
        function,
        signature.return_type,
        signature.args,
        lineinfo=lines,
        nvvm_options=options,
        cc=cc,
    )
    library, name = result.library, result.fndesc.llvm_func_name
    kernel = library.get_function(name)
    library._entry_name = name
    if not may_raise:
        _mark_raising(kernel)
    compiler.kernel_fixup(kernel, False)
    nvvm.set_launch_bounds(kernel, launch.bounds)
    if lines:
        # Variables are of no use in PTX, and NVVM refuses what Numba says of some of them.
        library._llvm_strs = [_VARIABLE.sub("", text) for text in library.llvm_strs]
    return name, library.get_asm_str(cc=cc)


def _mark_raising(kernel: Any) -> None:
    """Call what does not exist wherever a kernel, not optimised yet, would end with an error."""
    from llvmlite import ir

    module = kernel.module
    for block in kernel.blocks:
        end = block.terminator
        if isinstance(end, ir.Ret) and not _is_fine(end.return_value):
            raised = module.globals.get(RAISED) or ir.Function(
                module, ir.FunctionType(ir.VoidType(), ()), RAISED
            )
            builder = ir.IRBuilder(block)
            builder.position_before(end)
            builder.call(raised, ())


def _is_fine(status: Any) -> bool:
    return getattr(status, "constant", None) == 0


@contextmanager
def _current_device(cc: ComputeCapability) -> Iterator[None]:
    from numba.cuda import dispatcher

    device = SimpleNamespace(compute_capability=cc)
    before = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: device
    try:
        yield
    finally:
        dispatcher.get_current_device = before


def _stable_names(ptx: str, mangled: str, entry: str) -> str:
    """Give the entry and its shared arrays names of their own, the same in every process.

    The entry's name holds a counter of this process, as does that of NumbaEnv, a global which only
    CPU code uses. Shared arrays are public under names that every Numba kernel repeats.
    """
    lines = [line for line in ptx.splitlines() if "NumbaEnv" not in line]
    # Loops that are to be unrolled are unrolled by now; the assembler would fill all registers.
    bounds = max(
        n for n, line in enumerate(lines) if line.startswith((".maxntid", ".minnctapersm"))
    )
    lines.insert(bounds + 1, '.pragma "nounroll";')
    text = "\n".join(lines).replace(mangled, entry).replace(".visible .shared", ".shared")
    names: dict[str, str] = {}

    def renamed(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"{entry}_shared_{len(names)}")

    text = _FILE.sub(r'"\1"', text)
    return re.sub(r"\b_cudapy_smem\w*", renamed, text) + "\n"

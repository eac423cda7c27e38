"""The one module that touches Numba for the CPU: from a kernel's source to its object code."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import math
import operator
import sys
from contextlib import AbstractContextManager
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from minijit.backends.base import Binary
from minijit.backends.cpu.loader import MATH_LIBRARY, compiler_lock, target_machine
from minijit.backends.cpu.support import undefined_symbols
from minijit.backends.frontend import FrontendError, Toolkit, Vectors, kernel_function
from minijit.backends.frontend.refusals import RAISED, explained, refuse_calls, refuse_raising
from minijit.kernels.math import BRANCHING, CPU_FUNCTIONS
from minijit.kernels.math.outlined import wide_bytes
from minijit.lowering.cpu_launch import CpuLaunch
from minijit.lowering.cuda_emitter import MATH
from minijit.lowering.kernel_ir import Map, walk
from minijit.lowering.source import KernelSource, held_dtype
from minijit.lowering.symbols import Symbol, resolve, resolve_all

__all__ = ["assembly", "compile_source", "llvm_code"]

_VECTORISED: dict[Any, str] = {function: name for name, function in MATH.items()}
_VECTORISED |= {math.pow: "power", operator.pow: "power"}
_LLVM_TYPES = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}


def compile_source(source: KernelSource) -> Binary:
    """Compile a kernel to relocatable object code.

    Its entry has the signature ``void(int64 start, int64 stop, void* scratch, int64* args)``;
    ``args`` holds the address of each buffer, then the bits of each scalar argument, then the sizes
    of ``launch.sizes``.

    Raises:
        FrontendError: the text is not one that Numba compiles.
        DeclarationError: a scalar function is not one, or could raise.
        RuntimeError: the code calls a function that is neither its own nor in the C library (a
            DeclarationError where a user's function does).
    """
    with compiler_lock:
        try:
            module = _optimised(source)
        except FrontendError as error:
            raise explained(error, resolve_all(source.names), source.text) from None
        if any(function.name == RAISED for function in module.functions):
            raise refuse_raising(source.kernel.name, resolve_all(source.names))
        code = _machine().emit_object(module)
    calls = tuple(undefined_symbols(code))
    missing = [name for name in calls if not _in_c_library(name)]
    if missing:
        raise refuse_calls(source.kernel.name, resolve_all(source.names), missing)
    return Binary(code, source.kernel.name, {"bytes": len(code), "library_calls": len(calls)})


def assembly(source: KernelSource) -> str:
    """Return the assembly of what :func:`compile_source` compiles."""
    return str(_machine().emit_assembly(_optimised(source)))


def llvm_code(source: KernelSource) -> str:
    """Return the optimised LLVM code of what :func:`compile_source` compiles."""
    return str(_optimised(source))


def _spare_scipy() -> None:
    """Keep Numba's first compile from importing SciPy's linear algebra: half of its time.

    Numba imports it only to note whether it is there, and again where it is used. The caller holds
    Numba's compiler lock: of two threads the second would take the first one's patch for Numba's
    own function.
    """
    if "numba.np.arraymath" in sys.modules:
        return
    from numba.np import linalg

    check = linalg.ensure_blas

    def look() -> None:
        if importlib.util.find_spec("scipy") is None:
            raise ImportError("SciPy is not installed")

    linalg.ensure_blas = look
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = check
    arraymath.ensure_blas = check


@functools.cache
def _machine() -> Any:
    return target_machine(3)


def _in_c_library(name: str) -> bool:
    libraries = (ctypes.CDLL(MATH_LIBRARY[sys.platform]), ctypes.pythonapi)
    return any(hasattr(library, name) for library in libraries)


def _pointee(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of an element in memory as generated code sees it."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    return np.dtype(np.uint16) if dtype == np.float16 else dtype


def _passed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of a scalar argument as generated code sees it."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    return np.dtype(np.float64) if dtype == np.float16 else dtype


def _faster(function: Any, dtype: str) -> Any:
    """Return the vectorisable function for one of the module ``math``, which is scalar code."""
    name = _VECTORISED.get(function, "") if isinstance(function, BuiltinFunctionType) else ""
    if (name, dtype) not in CPU_FUNCTIONS:
        return function
    return _vectorised(name, dtype)


@functools.cache
def _vectorised(name: str, dtype: str) -> Any:
    from numba.core.registry import cpu_target

    from minijit.kernels.math.device import called

    found = resolve(Symbol(*CPU_FUNCTIONS[name, dtype]))
    if (name, dtype) in BRANCHING:
        found = called(found)
    # The compiler may be at work already, and would not have seen what was imported just now.
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
    return found


def _function(source: KernelSource) -> AbstractContextManager[FunctionType]:
    from numba.core import types
    from numba.extending import intrinsic

    filename = f"<minijit {source.kernel.name}>"
    toolkit = Toolkit(types, intrinsic, _faster)
    names = resolve_all(source.names)
    return kernel_function(toolkit, source.text, names, filename, _vectors(source))


def _vectors(source: KernelSource) -> Vectors:
    """Return how innermost loops are to run on this processor."""
    launch: CpuLaunch = source.launch
    computed = (node.out.dtype for node in walk(source.kernel.body) if isinstance(node, Map))
    widest = max((held_dtype(dtype).itemsize for dtype in computed), default=1)
    return Vectors(launch.interleave, wide_bytes() // widest if launch.wide else 0)


def _optimised(source: KernelSource) -> Any:
    """Return the optimised LLVM module whose one exported function is the entry."""
    import llvmlite.binding as llvm
    from numba.core import types
    from numba.core.compiler import Flags, compile_extra
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target
    from numba.np.numpy_support import from_dtype

    launch: CpuLaunch = source.launch
    kernel = source.kernel
    flags = Flags()
    flags.noalias = True
    flags.error_model = "numpy"
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.no_compile = True
    flags.no_rewrites = True
    arguments = [types.int64, types.int64]
    arguments += [types.CPointer(from_dtype(_pointee(s.dtype))) for s in launch.scratch]
    arguments += [types.CPointer(from_dtype(_pointee(b.dtype))) for b in kernel.buffers]
    arguments += [from_dtype(_passed(a.dtype)) for a in kernel.arguments]
    arguments += [types.int64 for _ in launch.sizes]
    with global_compiler_lock, _function(source) as function:
        _spare_scipy()
        context = cpu_target.target_context
        library = context.codegen().create_library(kernel.name)
        # Numba would simplify each function first, and unroll short loops that are to be vectors.
        library._optimize_functions = lambda module: None
        result = compile_extra(
            cpu_target.typing_context,
            context,
            function,
            tuple(arguments),
            types.void,
            flags,
            {},
            library=library,
        )
        module = library._final_module
        for linked in dict.fromkeys(library._linking_libraries):
            module.link_in(linked._get_module_for_linking(), preserve=True)
    inner = result.fndesc.llvm_func_name
    module.link_in(llvm.parse_assembly(_entry(source, inner, module)))
    for function in module.functions:
        if not function.is_declaration and function.name != kernel.name:
            function.linkage = "internal"
    for variable in module.global_variables:
        # Numba's own bookkeeping, named by a counter of the process: nothing here uses it.
        if not variable.name.startswith("llvm."):  # what LLVM itself reads
            variable.linkage = "internal"
    _optimise(module, launch)
    if any(f.is_declaration and f.name.startswith("minijit.") for f in module.functions):
        _settle(module)
    return module


def _settle(module: Any) -> None:
    """Write out what is hidden from LLVM as long as it optimises."""
    import llvmlite.binding as llvm

    from minijit.kernels.cpu.extrema import extrema
    from minijit.kernels.cpu.half import rounding

    module.link_in(llvm.parse_assembly(rounding() + extrema()))
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    options = llvm.create_pipeline_tuning_options(speed_level=0)
    passes.run(module, llvm.create_pass_builder(_machine(), options))


def _optimise(module: Any, launch: CpuLaunch) -> None:
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = False
    options.loop_interleaving = True
    options.loop_unrolling = launch.unroll
    builder = llvm.create_pass_builder(_machine(), options)
    builder.getModulePassManager().run(module, builder)


def _entry(source: KernelSource, inner: str, module: Any) -> str:
    """Return LLVM code of the entry, which unpacks ``args`` and calls the function ``inner``."""
    launch: CpuLaunch = source.launch
    kernel = source.kernel
    lines: list[str] = []
    passed = ["ptr %result", "ptr %error", "i64 %start", "i64 %stop"]
    offset = 0
    for position, scratch in enumerate(launch.scratch):
        lines.append(f"%s{position} = getelementptr i8, ptr %scratch, i64 {offset}")
        passed.append(f"ptr %s{position}")
        offset += scratch.bytes
    for position in range(len(kernel.buffers)):
        lines.append(f"%pb{position} = getelementptr i64, ptr %args, i64 {position}")
        lines.append(f"%b{position} = load ptr, ptr %pb{position}")
        passed.append(f"ptr %b{position}")
    for position, argument in enumerate(kernel.arguments):
        dtype = _passed(argument.dtype)
        kind = {"float32": "float", "float64": "double"}.get(
            dtype.name, _LLVM_TYPES[dtype.itemsize]
        )
        slot = len(kernel.buffers) + position
        lines.append(f"%pa{position} = getelementptr i64, ptr %args, i64 {slot}")
        lines.append(f"%a{position} = load {kind}, ptr %pa{position}")
        passed.append(f"{kind} %a{position}")
    for position in range(len(launch.sizes)):
        slot = len(kernel.buffers) + len(kernel.arguments) + position
        lines.append(f"%pn{position} = getelementptr i64, ptr %args, i64 {slot}")
        lines.append(f"%n{position} = load i64, ptr %pn{position}")
        passed.append(f"i64 %n{position}")
    types = ", ".join(argument.split()[0] for argument in passed)
    body = "\n  ".join(lines)
    return f"""
target triple = "{module.triple}"
target datalayout = "{module.data_layout}"
declare i32 @"{inner}"({types})
declare void @{RAISED}()
define void @"{kernel.name}"(i64 %start, i64 %stop, ptr %scratch, ptr %args) {{
  %result = alloca ptr
  %error = alloca ptr
  {body}
  %status = call i32 @"{inner}"({", ".join(passed)}) alwaysinline
  %raised = icmp ne i32 %status, 0
  br i1 %raised, label %bad, label %good
bad:
  call void @{RAISED}()
  ret void
good:
  ret void
}}
"""

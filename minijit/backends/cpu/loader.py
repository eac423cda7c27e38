"""Loads object code into this process by llvmlite alone; Numba is not needed."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from typing import Any

from minijit.graph.interrupts import uninterrupted
from minijit.graph.locks import process_lock

__all__ = [
    "MATH_LIBRARY",
    "Code",
    "compile_assembly",
    "compiler_lock",
    "load_object",
    "processor",
    "target_machine",
]

MATH_LIBRARY = {"linux": "libm.so.6", "darwin": "libSystem.dylib", "win32": "ucrtbase.dll"}
"""The library with C's mathematical functions, by ``sys.platform``."""

_MAGIC = {"linux": b"\x7fELF", "darwin": b"\xcf\xfa\xed\xfe", "win32": b"\x64\x86"}

compiler_lock = process_lock()
"""Held by whoever compiles or loads code."""


# Engines whose code nobody runs any more.
_dropped: list[Any] = []


class Code:
    """Machine code in this process; it lives as long as this object.

    Attributes:
        address: Where its function starts.
    """

    _drop = _dropped.append  # the module may be taken down before its last object

    def __init__(self, engine: Any, address: int) -> None:
        """Own an LLVM execution engine whose objects are finalised."""
        self._engine = engine
        self.address = address

    def __del__(self) -> None:
        """Leave the engine to the next load, which is not interrupted: LLVM is not called here."""
        self._drop(self._engine)


@functools.cache
def _target() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # Compiled code calls a few functions of the C library: this is where LLVM looks them up.
    llvm.load_library_permanently(MATH_LIBRARY[sys.platform])
    _survive_forks(llvm.ffi.lib._lock)
    _free_pass_managers()
    return llvm.Target.from_default_triple()


def _survive_forks(llvm_lock: Any) -> None:
    """Let a fork wait for LLVM, whose lock no child could ever take again."""

    def hold() -> None:
        # In the order in which a compiling thread takes them.
        compiler_lock.acquire()
        llvm_lock.__enter__()

    def release() -> None:
        llvm_lock.__exit__(None, None, None)
        compiler_lock.release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release)


def _free_pass_managers() -> None:
    """Let llvmlite free the passes of a compile when it drops them: 80 KiB each time.

    Its class of pass managers has two bases that say how to dispose of an object, and the first
    one, which counts, does nothing (llvmlite 0.50).
    """
    from llvmlite.binding.newpassmanagers import ModulePassManager, NewPassManager

    ModulePassManager._dispose = NewPassManager._dispose


@functools.cache
def processor() -> dict[str, str]:
    """Return what this processor is called, and which instructions it has."""
    return uninterrupted(_processor)


def _processor() -> dict[str, str]:
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return {
        "target": f"cpu {llvm.get_host_cpu_name()}",
        "system": llvm.get_process_triple(),
        "instructions": " ".join(sorted(name for name, has in features.items() if has)),
    }


def target_machine(opt: int) -> Any:
    """Return a new LLVM target machine: this processor, optimising at level ``opt``."""
    import llvmlite.binding as llvm

    return _target().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=opt,
        reloc="pic",
        codemodel="jitdefault",
        jit=True,
    )


def _engine(module: Any) -> Any:
    import llvmlite.binding as llvm

    # The engine owns its target machine: it cannot be shared.
    return llvm.create_mcjit_compiler(module, target_machine(2))


def load_object(code: bytes, entry: str, symbols: Mapping[str, int] | None = None) -> Code:
    """Load relocatable object code; the caller vouches for what follows its first bytes.

    Args:
        code: An object file.
        entry: The symbol of its function.
        symbols: Addresses of functions that it calls, beside those of the mathematical library.

    Raises:
        RuntimeError: the bytes are no object file of this system.
        KeyError: it has no such function.
    """
    import llvmlite.binding as llvm

    # LLVM itself would crash.
    if not code.startswith(_MAGIC[sys.platform]):
        raise RuntimeError("this is no object code for this system")

    with compiler_lock:
        _target()
        while _dropped:
            _dropped.pop().close()
        for name, address in (symbols or {}).items():
            llvm.add_symbol(name, address)
        engine = _engine(llvm.parse_assembly(""))
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        address = engine.get_function_address(entry)
    if not address:
        raise KeyError(entry)
    return Code(engine, address)


def compile_assembly(text: str) -> bytes:
    """Compile LLVM assembly to relocatable object code."""
    import llvmlite.binding as llvm

    with compiler_lock:
        machine = target_machine(2)
        code: bytes = machine.emit_object(llvm.parse_assembly(text))
    return code

"""Loads object code into this process by llvmlite alone; Numba is not needed."""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any

__all__ = ["MATH_LIBRARY", "Code", "load_object", "load_text"]

MATH_LIBRARY = {"linux": "libm.so.6", "darwin": "libSystem.dylib", "win32": "ucrtbase.dll"}
"""The library with C's mathematical functions, by ``sys.platform``."""

_MAGIC = {"linux": b"\x7fELF", "darwin": b"\xcf\xfa\xed\xfe", "win32": b"\x64\x86"}
_lock = threading.Lock()


class Code:
    """Machine code in this process; it lives as long as this object."""

    def __init__(self, engine: Any) -> None:
        """Own an LLVM execution engine whose objects are finalised."""
        self._engine = engine

    def address(self, symbol: str) -> int:
        """Return the address of a function.

        Raises:
            KeyError: the code has no such function.
        """
        address = int(self._engine.get_function_address(symbol))
        if not address:
            raise KeyError(symbol)
        return address


@functools.cache
def _target() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # Compiled code calls a few functions of the C library: this is where LLVM looks them up.
    llvm.load_library_permanently(MATH_LIBRARY[sys.platform])
    return llvm.Target.from_default_triple()


def _engine(module: Any) -> Any:
    import llvmlite.binding as llvm

    # The engine owns its target machine: it cannot be shared.
    machine = _target().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="jitdefault",
        jit=True,
    )
    return llvm.create_mcjit_compiler(module, machine)


def load_object(code: bytes) -> Code:
    """Load relocatable object code; the caller vouches for what follows its first bytes.

    Raises:
        RuntimeError: the bytes are no object file of this system.
    """
    import llvmlite.binding as llvm

    # LLVM itself would crash.
    if not code.startswith(_MAGIC[sys.platform]):
        raise RuntimeError("this is no object code for this system")

    with _lock:
        _target()
        engine = _engine(llvm.parse_assembly(""))
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
    return Code(engine)


def load_text(text: str) -> Code:
    """Compile LLVM assembly and load it."""
    import llvmlite.binding as llvm

    with _lock:
        _target()
        engine = _engine(llvm.parse_assembly(text))
        engine.finalize_object()
    return Code(engine)

"""Bringing memory into the cache ahead of its use: rows that lie far apart are no stream.

A prefetch has no effect but that; it takes any address.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

__all__ = ["prefetch_read", "prefetch_write"]

_KEEP, _DATA = 3, 1


def _prefetch(name: str, write: int) -> Any:
    """Return ``(pointer, index) -> None`` by LLVM's intrinsic, for the line of one element."""

    @intrinsic
    def prefetch(typing_context, pointer, index):
        if not isinstance(pointer, types.CPointer):
            raise TypingError(f"{name} takes a pointer, not {pointer}")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(32)
            address = ir.IntType(8).as_pointer()
            kind = ir.FunctionType(ir.VoidType(), [address, word, word, word])
            full = "llvm.prefetch.p0"
            function = builder.module.globals.get(full) or ir.Function(builder.module, kind, full)
            place = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), address)
            builder.call(function, [place, word(write), word(_KEEP), word(_DATA)])
            return context.get_dummy_value()

        return types.void(pointer, index), generate

    return prefetch


prefetch_read = _prefetch("prefetch_read", 0)
prefetch_write = _prefetch("prefetch_write", 1)

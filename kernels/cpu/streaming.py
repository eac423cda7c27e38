"""Stores that pass by the caches: of a line that is written as a whole, nothing need be read.

A processor reads a line into its cache before it changes it there, a third of all traffic where one
array is read and one written. Non-temporal stores gather whole lines and send them to memory.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

__all__ = ["settle_stores", "stream"]

_LINE_BYTES = 64
_BYTE, _WORD = ir.IntType(8), ir.IntType(64)
_ADDRESS = _BYTE.as_pointer()
_LINE = ir.VectorType(_WORD, _LINE_BYTES // 8)
_NAME = "stream_bytes"


@intrinsic
def stream(typing_context, target, first, source, count):
    """Copy ``source[:count]`` to ``target[first : first + count]``, whole lines past the caches.

    Both are pointers to elements of one type, which need not lie at a line's start. What is stored
    is in order with later stores only after :func:`settle_stores`.
    """
    if target != source or not isinstance(target, types.CPointer):
        raise TypingError(f"stream takes two pointers of one type, not {target} and {source}")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, start, given, elements = arguments
        size = context.get_abi_sizeof(context.get_data_type(target.dtype))
        start = context.cast(builder, start, first, types.int64)
        elements = context.cast(builder, elements, count, types.int64)
        places = (builder.gep(to, [start]), given)
        function = builder.module.globals.get(_NAME) or _function(builder.module)
        length = builder.mul(elements, ir.Constant(_WORD, size))
        builder.call(function, [*(builder.bitcast(p, _ADDRESS) for p in places), length])
        return context.get_dummy_value()

    return types.void(target, first, source, count), generate


@intrinsic
def settle_stores(typing_context):
    """Let everything that was streamed be in memory before whatever is stored next."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        # A release fence would be no instruction on x86, where all other stores are in order.
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


def _function(module: Any) -> Any:
    """Return the function ``(target, source, bytes) -> None`` of a module."""
    function = ir.Function(
        module, ir.FunctionType(ir.VoidType(), [_ADDRESS, _ADDRESS, _WORD]), _NAME
    )
    function.linkage = "internal"
    function.attributes.add("noinline")
    target, source, length = function.args
    for pointer in (target, source):
        pointer.add_attribute("noalias")
    entry, test, body, end = map(function.append_basic_block, ("entry", "test", "body", "end"))
    mask = ir.Constant(_WORD, _LINE_BYTES - 1)
    builder = ir.IRBuilder(entry)
    ahead = builder.and_(builder.neg(builder.ptrtoint(target, _WORD)), mask)
    head = builder.select(builder.icmp_unsigned("<", ahead, length), ahead, length)
    _copy(builder, target, source, head)
    whole = builder.and_(builder.sub(length, head), builder.not_(mask))
    last = builder.add(head, whole)
    start = builder.block
    builder.branch(test)
    builder.position_at_end(test)
    at = builder.phi(_WORD)
    at.add_incoming(head, start)
    builder.cbranch(builder.icmp_unsigned("<", at, last), body, end)
    builder.position_at_end(body)
    line = builder.load(_line(builder, source, at), align=1)
    store = builder.store(line, _line(builder, target, at), align=_LINE_BYTES)
    store.set_metadata("nontemporal", module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
    at.add_incoming(builder.add(at, ir.Constant(_WORD, _LINE_BYTES)), body)
    builder.branch(test)
    builder.position_at_end(end)
    _copy(builder, *(builder.gep(p, [last]) for p in (target, source)), builder.sub(length, last))
    builder.ret_void()
    return function


def _line(builder: Any, pointer: Any, at: Any) -> Any:
    return builder.bitcast(builder.gep(pointer, [at]), _LINE.as_pointer())


def _copy(builder: Any, target: Any, source: Any, length: Any) -> None:
    """Write a copy of any number of bytes."""
    kind = ir.FunctionType(ir.VoidType(), [_ADDRESS, _ADDRESS, _WORD, ir.IntType(1)])
    name = "llvm.memcpy.p0.p0.i64"
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    with builder.if_then(builder.icmp_unsigned("!=", length, ir.Constant(_WORD, 0)), likely=False):
        builder.call(function, [target, source, length, ir.Constant(ir.IntType(1), 0)])

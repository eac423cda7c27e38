"""Transposed copies of tiles: squares of elements are turned in registers, not one by one."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

__all__ = ["turn"]

_SIDES = {1: 16, 2: 8, 4: 8}
"""By the bytes of an element, how many on a side of a square: so many vectors fit registers."""
_WORD = ir.IntType(64)


@intrinsic
def turn(typing_context, target, pitch, source, first, stride, rows, columns):
    """Set ``target[pitch*i + j] = source[first + i + stride*j]`` for all rows i and columns j.

    Both are pointers to elements of one type, of at most four bytes, which do not overlap.
    """
    if target != source or not isinstance(target, types.CPointer):
        raise TypingError(f"turn takes two pointers of one type, not {target} and {source}")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, *given = arguments
        size = context.get_abi_sizeof(context.get_data_type(target.dtype))
        kinds = (pitch, source, first, stride, rows, columns)
        wide, origin, start, *numbers = (
            value if kind is source else context.cast(builder, value, kind, types.int64)
            for kind, value in zip(kinds, given, strict=True)
        )
        address = ir.IntType(8 * size).as_pointer()
        places = [builder.bitcast(p, address) for p in (to, builder.gep(origin, [start]))]
        name = f"turn_{size}"
        function = builder.module.globals.get(name) or _function(builder.module, name, size)
        builder.call(function, [places[0], wide, places[1], *numbers])
        return context.get_dummy_value()

    return types.void(target, pitch, source, first, stride, rows, columns), generate


def _function(module: Any, name: str, size: int) -> Any:
    """Return the function ``(target, pitch, source, stride, rows, columns)`` of a module."""
    address = ir.IntType(8 * size).as_pointer()
    kinds = [address, _WORD, address, _WORD, _WORD, _WORD]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    function.linkage = "internal"
    target, pitch, source, stride, rows, columns = function.args
    for pointer in (target, source):
        pointer.add_attribute("noalias")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    side, zero, one = (ir.Constant(_WORD, n) for n in (_SIDES[size], 0, 1))
    whole_rows, whole_columns = (builder.sub(n, builder.urem(n, side)) for n in (rows, columns))

    def places(i: Any, j: Any) -> tuple[Any, Any]:
        return (
            builder.gep(target, [builder.add(builder.mul(i, pitch), j)]),
            builder.gep(source, [builder.add(builder.mul(j, stride), i)]),
        )

    with (
        cgutils.for_range_slice(builder, zero, whole_columns, side, _WORD) as (j, _),
        cgutils.for_range_slice(builder, zero, whole_rows, side, _WORD) as (i, _),
    ):
        _square(builder, *places(i, j), pitch, stride, size)
    with cgutils.for_range_slice(builder, zero, columns, one, _WORD) as (j, _):
        begun = builder.select(builder.icmp_unsigned("<", j, whole_columns), whole_rows, zero)
        with cgutils.for_range_slice(builder, begun, rows, one, _WORD) as (i, _):
            to, origin = places(i, j)
            builder.store(builder.load(origin), to)
    builder.ret_void()
    return function


def _square(builder: Any, to: Any, origin: Any, pitch: Any, stride: Any, size: int) -> None:
    """Write the copy of one square.

    Each bit of the number of a row is exchanged with that of the number of a column (Eklundh, "A
    fast computer method for matrix transposing", 1972).
    """
    side = _SIDES[size]
    vector = ir.VectorType(ir.IntType(8 * size), side)

    def line(pointer: Any, step: Any, number: int) -> Any:
        place = builder.gep(pointer, [builder.mul(step, ir.Constant(_WORD, number))])
        return builder.bitcast(place, vector.as_pointer())

    lines = [builder.load(line(origin, stride, k), align=size) for k in range(side)]
    bit = side // 2
    while bit:
        low = [c if not c & bit else side + (c ^ bit) for c in range(side)]
        high = [c | bit if not c & bit else side + c for c in range(side)]
        for k in (k for k in range(side) if not k & bit):
            pair = lines[k], lines[k | bit]
            lines[k], lines[k | bit] = (_shuffled(builder, *pair, mask) for mask in (low, high))
        bit //= 2
    for k, each in enumerate(lines):
        builder.store(each, line(to, pitch, k), align=size)


def _shuffled(builder: Any, first: Any, second: Any, mask: list[int]) -> Any:
    kind = ir.VectorType(ir.IntType(32), len(mask))
    return builder.shuffle_vector(first, second, ir.Constant(kind, mask))

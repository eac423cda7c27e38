"""tile: neighbouring rows, moved between memory and a tile in shared memory by a whole block.

A tile holds the rows of a block one after the other, as they lie in memory: what a warp asks for at
once is then a run of whole sectors, however short the rows are and wherever they begin. Elements of
a tile have 32 or 64 bits, so that neighbouring ones lie in a bank each.
"""

from __future__ import annotations

from llvmlite import ir
from numba import cuda
from numba.cuda import types
from numba.cuda.extending import intrinsic

from minijit.kernels.cuda.indexing import advance, remainder, thread_index
from minijit.kernels.cuda.memory import (
    VECTOR_BYTES,
    address,
    invariant,
    load,
    load_signed,
    memory_bytes,
    packed,
    store,
    to_memory,
    to_register,
    unpacked,
    vector_kind,
    vector_length,
    zero,
)
from minijit.kernels.cuda.warp import WARP

_AT_ONCE = 4
"""Vectors that a thread waits for together."""

int32 = types.int32
uint32 = types.uint32


def _vector_of(context, builder, tile_type, tile, place):
    """Address of the 128 bits of a tile that begin at an element."""
    data = context.make_array(tile_type)(context, builder, tile).data
    kind = ir.VectorType(data.type.pointee, vector_length(tile_type.dtype))
    return builder.bitcast(builder.gep(data, [place]), kind.as_pointer(data.type.addrspace))


def _load_tile(signed):
    """`tile[place:place + n] = pointer[index:index + n]`, as many as fill 128 bits of the tile.

    Both must be aligned to as many elements. With `signed` float16 NaNs keep their signs.
    """

    @intrinsic
    def load_tile(typing_context, tile, place, pointer, index):
        memory, count = pointer.dtype, vector_length(tile.dtype)
        access = vector_kind(memory, count)

        def generate(context, builder, signature, arguments):
            array, at, base, offset = arguments
            source = address(builder, base, offset, memory, access)
            moved = builder.load(source, align=count * memory_bytes(memory))
            target = _vector_of(context, builder, tile, array, at)
            vector = ir.Constant(target.type.pointee, ir.Undefined)
            for lane, element in enumerate(unpacked(builder, invariant(builder, moved), memory)):
                held = to_register(builder, element, memory, signed)
                if held.type != vector.type.element:
                    widened = builder.sext if getattr(memory, "signed", False) else builder.zext
                    held = widened(held, vector.type.element)
                vector = builder.insert_element(vector, held, ir.Constant(ir.IntType(32), lane))
            builder.store(vector, target, align=VECTOR_BYTES)
            return context.get_dummy_value()

        return types.void(tile, place, pointer, index), generate

    return load_tile


load_tile, load_tile_signed = map(_load_tile, (False, True))


@intrinsic
def store_tile(typing_context, pointer, index, tile, place):
    """`pointer[index:index + n] = tile[place:place + n]`, as many as fill 128 bits of the tile.

    Both must be aligned to as many elements.
    """
    memory, count = pointer.dtype, vector_length(tile.dtype)
    access = vector_kind(memory, count)

    def generate(context, builder, signature, arguments):
        base, offset, array, at = arguments
        source = _vector_of(context, builder, tile, array, at)
        vector = builder.load(source, align=VECTOR_BYTES)
        elements = []
        for lane in range(count):
            held = builder.extract_element(vector, ir.Constant(ir.IntType(32), lane))
            if isinstance(held.type, ir.IntType) and held.type.width > 8 * memory_bytes(memory):
                held = builder.trunc(held, ir.IntType(8 * memory_bytes(memory)))
            elements.append(to_memory(builder, held, memory))
        target = address(builder, base, offset, memory, access)
        moved = packed(builder, elements, memory)
        builder.store(moved, target, align=count * memory_bytes(memory))
        return context.get_dummy_value()

    return types.void(pointer, index, tile, place), generate


def _read_rows(load, load_tile):
    """Fill a tile of ``size`` elements with the ``count`` from ``first`` on, then with zeros.

    All ``threads`` of the block take part, and have to meet before they read the tile. A tile that
    is filled from memory is moved ``width`` elements at a time, which fill 128 bits of it; with a
    width of one the elements need not be aligned, and warps begin where sectors do.
    """

    @cuda.jit(device=True, forceinline=True)
    def read_rows(tile, size, pointer, first, count, threads, width):
        thread = int32(thread_index())
        if width > 1 and count == size:
            begin = int32(width * thread)
            while begin < size:
                for k in range(_AT_ONCE):
                    place = int32(begin + width * threads * k)
                    if place < size:
                        load_tile(tile, place, pointer, first + place)
                begin = advance(begin, width * threads * _AT_ONCE)
        else:
            place = int32(thread - remainder(first, WARP))
            while place < size:
                if place >= 0:
                    value = load(pointer, first + place) if place < count else zero(pointer)
                    tile[uint32(place)] = value
                place = advance(place, threads)

    return read_rows


read_rows, read_rows_signed = map(_read_rows, (load, load_signed), (load_tile, load_tile_signed))


@cuda.jit(device=True, forceinline=True)
def write_rows(tile, size, pointer, first, count, threads, width):
    """Write what ``read_rows`` would read; all threads have met since they wrote to the tile."""
    thread = int32(thread_index())
    if width > 1 and count == size:
        place = int32(width * thread)
        while place < size:
            store_tile(pointer, first + place, tile, place)
            place = advance(place, width * threads)
    else:
        place = int32(thread - remainder(first, WARP))
        while place < count:
            if place >= 0:
                store(pointer, first + place, tile[uint32(place)])
            place = advance(place, threads)

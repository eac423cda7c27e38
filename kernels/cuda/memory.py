"""memory: typed loads and stores through raw pointers, one element or 128 bits at a time.

Every pointer addresses global memory, and a buffer that a kernel reads is never written by it, so
loads are marked invariant (``ld.global.nc``). float16 is held as float32 outside memory, bool is a
byte in memory.
"""

from __future__ import annotations

from llvmlite import ir
from numba import cuda
from numba.cuda import types
from numba.cuda.extending import intrinsic

from minijit.kernels.cuda.numeric import with_sign

VECTOR_BYTES = 16
_GLOBAL = 1
_BYTE = ir.IntType(8)
_WORD = ir.IntType(32)
_HALF = ir.HalfType()


def register_type(memory):
    """The Numba type in which an element of Numba type `memory` is held and computed."""
    return types.float32 if memory == types.float16 else memory


def stored_type(memory):
    """The LLVM type of an element in memory."""
    if memory == types.float16:
        return _HALF
    if memory == types.float32:
        return ir.FloatType()
    if memory == types.float64:
        return ir.DoubleType()
    return _BYTE if memory == types.boolean else ir.IntType(memory.bitwidth)


def memory_bytes(memory):
    """The bytes of an element in memory."""
    return 1 if memory == types.boolean else memory.bitwidth // 8


def address(builder, pointer, index, memory, kind):
    """`&pointer[index]` in the global address space, as a pointer to LLVM type `kind`."""
    stored = builder.bitcast(pointer, stored_type(memory).as_pointer())
    place = builder.gep(
        builder.addrspacecast(stored, stored.type.pointee.as_pointer(_GLOBAL)), [index]
    )
    return builder.bitcast(place, kind.as_pointer(_GLOBAL))


def to_register(builder, value, memory, signed):
    """A value of `stored_type` as it is held; with `signed` float16 NaNs keep their signs."""
    if memory == types.float16:
        wide = builder.fpext(value, ir.FloatType())
        if not signed:
            return wide
        # The conversion makes every NaN the positive one; other signs are there already.
        bits = builder.zext(builder.bitcast(value, ir.IntType(16)), _WORD)
        return with_sign(builder, wide, builder.shl(bits, ir.Constant(_WORD, 16)))
    if memory == types.boolean:
        return builder.icmp_unsigned("!=", value, ir.Constant(_BYTE, 0))
    return value


def to_memory(builder, value, memory):
    """The inverse of `to_register`."""
    if memory == types.float16:
        return builder.fptrunc(value, _HALF)
    if memory == types.boolean:
        return builder.zext(value, _BYTE) if value.type.width == 1 else value
    return value


def invariant(builder, load):
    """The load, marked as one of memory that nothing writes during the launch."""
    load.set_metadata("invariant.load", builder.module.add_metadata([]))
    return load


def _load(signed):
    """`pointer[index]`; with `signed` float16 NaNs keep their signs."""

    @intrinsic
    def load(typing_context, pointer, index):
        memory = pointer.dtype

        def generate(context, builder, signature, arguments):
            place = address(builder, arguments[0], arguments[1], memory, stored_type(memory))
            value = invariant(builder, builder.load(place, align=memory_bytes(memory)))
            return to_register(builder, value, memory, signed)

        return register_type(memory)(pointer, index), generate

    return load


load, load_signed = map(_load, (False, True))


@intrinsic
def zero(typing_context, pointer):
    """The zero of the pointer's register type."""
    held = register_type(pointer.dtype)

    def generate(context, builder, signature, arguments):
        return context.get_constant_null(held)

    return held(pointer), generate


@intrinsic
def store(typing_context, pointer, index, value):
    """`pointer[index] = value`; the value has the pointer's register type."""
    memory = pointer.dtype
    held = register_type(memory)

    def generate(context, builder, signature, arguments):
        place = address(builder, arguments[0], arguments[1], memory, stored_type(memory))
        builder.store(to_memory(builder, arguments[2], memory), place, align=memory_bytes(memory))
        return context.get_dummy_value()

    return types.void(pointer, index, held), generate


def vector_kind(memory, count):
    """The LLVM vector as which `count` elements move; NVVM splits those of less than 32 bits."""
    size = memory_bytes(memory)
    kind = stored_type(memory) if size >= 4 else _WORD
    return ir.VectorType(kind, count * size // max(size, 4))


def vector_length(memory):
    """How many elements fill 128 bits."""
    return VECTOR_BYTES // memory_bytes(memory)


def unpacked(builder, vector, memory):
    """The elements of a moved vector, in order."""
    kind = stored_type(memory)
    found = []
    for place in range(vector.type.count):
        word = builder.extract_element(vector, ir.Constant(_WORD, place))
        if vector.type.element == kind:
            found.append(word)
            continue
        bits = 8 * memory_bytes(memory)
        for shift in range(0, 32, bits):
            part = builder.lshr(word, ir.Constant(_WORD, shift))
            found.append(builder.bitcast(builder.trunc(part, ir.IntType(bits)), kind))
    return found


def packed(builder, elements, memory):
    """The inverse of `unpacked`."""
    kind = vector_kind(memory, len(elements))
    size = memory_bytes(memory)
    words = elements
    if size < 4:
        words = []
        for first in range(0, len(elements), 4 // size):
            word = ir.Constant(_WORD, 0)
            for lane, element in enumerate(elements[first : first + 4 // size]):
                part = builder.zext(builder.bitcast(element, ir.IntType(8 * size)), _WORD)
                word = builder.or_(word, builder.shl(part, ir.Constant(_WORD, 8 * size * lane)))
            words.append(word)
    vector = ir.Constant(kind, ir.Undefined)
    for place, word in enumerate(words):
        vector = builder.insert_element(vector, word, ir.Constant(_WORD, place))
    return vector


def _slot(context, builder, array_type, array, first, lane):
    """Address of `array[first + lane]` of a local array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [builder.add(first, ir.Constant(first.type, lane))])


def _load_vector(signed):
    """`into[first:first + n] = pointer[index:index + n]`, one access of n * itemsize = 16 bytes.

    `pointer + index` must be aligned to 16 bytes; `into` is a local array of the register type.
    With `signed` float16 NaNs keep their signs.
    """

    @intrinsic
    def load_vector(typing_context, into, first, pointer, index):
        memory = pointer.dtype
        access = vector_kind(memory, vector_length(memory))

        def generate(context, builder, signature, arguments):
            array, at, base, offset = arguments
            place = address(builder, base, offset, memory, access)
            vector = invariant(builder, builder.load(place, align=VECTOR_BYTES))
            for lane, element in enumerate(unpacked(builder, vector, memory)):
                slot = _slot(context, builder, into, array, at, lane)
                held = to_register(builder, element, memory, signed)
                context.pack_value(builder, into.dtype, held, slot)
            return context.get_dummy_value()

        return types.void(into, first, pointer, index), generate

    return load_vector


load_vector, load_vector_signed = map(_load_vector, (False, True))


@intrinsic
def store_vector(typing_context, pointer, index, values, first):
    """`pointer[index:index + n] = values[first:first + n]`, one access of n * itemsize = 16 bytes.

    `pointer + index` must be aligned to 16 bytes; `values` is a local array of the register type.
    """
    memory = pointer.dtype
    access = vector_kind(memory, vector_length(memory))

    def generate(context, builder, signature, arguments):
        base, offset, array, at = arguments
        elements = []
        for lane in range(vector_length(memory)):
            slot = _slot(context, builder, values, array, at, lane)
            value = context.unpack_value(builder, values.dtype, slot)
            elements.append(to_memory(builder, value, memory))
        place = address(builder, base, offset, memory, access)
        builder.store(packed(builder, elements, memory), place, align=VECTOR_BYTES)
        return context.get_dummy_value()

    return types.void(pointer, index, values, first), generate


def _load_tail(load):
    """`into[first:first + count] = pointer[index:index + count]`, zero from element `valid` on."""

    @cuda.jit(device=True, forceinline=True)
    def load_tail(into, first, count, pointer, index, valid):
        for k in range(count):
            into[first + k] = load(pointer, index + k) if k < valid else zero(pointer)

    return load_tail


load_tail, load_tail_signed = map(_load_tail, (load, load_signed))


@cuda.jit(device=True, forceinline=True)
def store_tail(pointer, index, values, first, count, valid):
    """`pointer[index:index + n] = values[first:first + n]` where n = min(count, valid)."""
    for k in range(count):
        if k < valid:
            store(pointer, index + k, values[first + k])

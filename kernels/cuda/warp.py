"""warp: exchange of values between the 32 threads of a warp, for every scalar type."""

from __future__ import annotations

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

WARP = 32
_WORD = ir.IntType(32)
_INDEX_MODE = 0
_XOR_MODE = 3
_ALL_LANES = -1
_NO_CLAMP = 0x1F


def _exchange(builder, word, mode, lane):
    """One 32-bit `shfl.sync`."""
    kind = ir.FunctionType(ir.LiteralStructType((_WORD, ir.IntType(1))), [_WORD] * 5)
    name = "llvm.nvvm.shfl.sync.i32"
    module = builder.module
    shuffle = module.globals.get(name) or ir.Function(module, kind, name)
    constants = [ir.Constant(_WORD, number) for number in (_ALL_LANES, mode, _NO_CLAMP)]
    result = builder.call(shuffle, [constants[0], constants[1], word, lane, constants[2]])
    return builder.extract_value(result, 0)


def _shuffle(mode):
    """The value of another thread of the warp; all 32 threads must take part."""

    @intrinsic
    def shuffle(typing_context, value, lane):
        def generate(context, builder, signature, arguments):
            given, other = arguments
            if other.type.width > 32:
                other = builder.trunc(other, _WORD)
            # A bool is one bit as a value.
            width = 1 if value == types.boolean else value.bitwidth
            bits = builder.bitcast(given, ir.IntType(width))
            if width < 32:
                word = _exchange(builder, builder.zext(bits, _WORD), mode, other)
                return builder.bitcast(builder.trunc(word, bits.type), given.type)
            if width == 32:
                return builder.bitcast(_exchange(builder, bits, mode, other), given.type)
            low = _exchange(builder, builder.trunc(bits, _WORD), mode, other)
            upper = builder.lshr(bits, ir.Constant(bits.type, 32))
            high = _exchange(builder, builder.trunc(upper, _WORD), mode, other)
            high = builder.shl(builder.zext(high, bits.type), ir.Constant(bits.type, 32))
            return builder.bitcast(builder.or_(high, builder.zext(low, bits.type)), given.type)

        return value(value, lane), generate

    return shuffle


#: `shuffle_from(value, lane)`: the `value` of that thread; `shuffle_xor(value, mask)`: that of the
#: thread whose lane is `lane ^ mask`.
shuffle_from, shuffle_xor = map(_shuffle, (_INDEX_MODE, _XOR_MODE))

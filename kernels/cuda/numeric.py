"""numeric: maxima and minima that propagate NaN, and rounding to float16, without branches."""

from __future__ import annotations

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic


def _extremum(instruction, sign):
    """`a` or `b`, the one that is further in direction `sign`; NaN when either is, as in NumPy."""

    @intrinsic
    def operation(typing_context, a, b):
        if a != b:
            return None

        def generate(context, builder, signature, arguments):
            left, right = arguments
            if a == types.float32:
                kind = ir.FunctionType(left.type, [left.type, left.type])
                # LLVM has no portable form of it that becomes this one instruction.
                assembly = ir.InlineAsm(kind, f"{instruction}.NaN.f32 $0, $1, $2;", "=f,f,f")
                return builder.call(assembly, [left, right])
            if a == types.float64:
                # Unordered is true as well when `left` is the NaN; then `left` is what is wanted.
                wins = builder.fcmp_ordered(sign, left, right)
                nan = builder.fcmp_unordered("uno", left, left)
                return builder.select(builder.or_(wins, nan), left, right)
            compare = builder.icmp_signed if getattr(a, "signed", False) else builder.icmp_unsigned
            return builder.select(compare(sign, left, right), left, right)

        return a(a, b), generate

    return operation


maximum = _extremum("max", ">")
minimum = _extremum("min", "<")


def with_sign(builder, value, bits):
    """The float32 `value` with the sign bit of the i32 `bits` set where it is set there."""
    word = ir.IntType(32)
    sign = builder.and_(bits, ir.Constant(word, 1 << 31))
    return builder.bitcast(builder.or_(builder.bitcast(value, word), sign), value.type)


def _round_half(signed):
    """`value` (float32 or float64) rounded once to float16, as float32.

    With `signed` a NaN of float32 keeps its sign, which the conversion makes positive.
    """

    @intrinsic
    def round_half(typing_context, value):
        def generate(context, builder, signature, arguments):
            half = builder.fptrunc(arguments[0], ir.HalfType())
            rounded = builder.fpext(half, ir.FloatType())
            if not signed or value != types.float32:
                return rounded
            return with_sign(builder, rounded, builder.bitcast(arguments[0], ir.IntType(32)))

        return types.float32(value), generate

    return round_half


round_half, round_half_signed = map(_round_half, (False, True))


def _rounding(name):
    """Rounding of a float to a whole number of its own type, as one instruction."""

    @intrinsic
    def operation(typing_context, value):
        def generate(context, builder, signature, arguments):
            kind = arguments[0].type
            full_name = f"llvm.{name}.f{value.bitwidth}"
            module = builder.module
            function = module.globals.get(full_name) or ir.Function(
                module, ir.FunctionType(kind, [kind]), full_name
            )
            return builder.call(function, arguments)

        return value(value), generate

    return operation


ceil, floor, trunc = map(_rounding, ("ceil", "floor", "trunc"))


def _float_to(result, through, unsigned=False):
    """A C cast of a float to integer type `result` as x86 computes it.

    The value is truncated to the signed type `through`, whose lowest number stands for NaN and
    for all that does not fit, and then wraps to `result`.
    """
    low = -(2.0 ** (through.bitwidth - 1))

    @intrinsic
    def convert(typing_context, value):
        def truncated(builder, given):
            kind = ir.IntType(through.bitwidth)
            above = builder.fcmp_ordered(">=", given, ir.Constant(given.type, low))
            below = builder.fcmp_ordered("<", given, ir.Constant(given.type, -low))
            # fptosi is undefined out of range; select never takes that value then.
            number = builder.fptosi(given, kind)
            lowest = ir.Constant(kind, -(2 ** (through.bitwidth - 1)))
            return builder.select(builder.and_(above, below), number, lowest)

        def generate(context, builder, signature, arguments):
            (given,) = arguments
            number = truncated(builder, given)
            if unsigned:
                half = ir.Constant(given.type, -low)
                upper = truncated(builder, builder.fsub(given, half))
                upper = builder.xor(upper, ir.Constant(upper.type, -(2**63)))
                number = builder.select(builder.fcmp_ordered(">=", given, half), upper, number)
            width = ir.IntType(result.bitwidth)
            return builder.trunc(number, width) if result.bitwidth < through.bitwidth else number

        return result(value), generate

    return convert


CASTS = {
    "int8_from_float": _float_to(types.int8, types.int32),
    "int16_from_float": _float_to(types.int16, types.int32),
    "int32_from_float": _float_to(types.int32, types.int32),
    "int64_from_float": _float_to(types.int64, types.int64),
    "uint8_from_float": _float_to(types.uint8, types.int32),
    "uint16_from_float": _float_to(types.uint16, types.int32),
    "uint32_from_float": _float_to(types.uint32, types.int64),
    "uint64_from_float": _float_to(types.uint64, types.int64, unsigned=True),
}

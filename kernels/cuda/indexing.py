"""indexing: integer arithmetic that stays in one type, which Numba would widen to int64."""

from __future__ import annotations

from math import sqrt

from llvmlite import ir
from numba import cuda
from numba.cuda import types
from numba.cuda.extending import intrinsic

int32 = types.int32
float32 = types.float32


def _unsigned(name):
    """An unsigned division of a non-negative index by a positive constant: a product and shifts."""

    @intrinsic
    def operation(typing_context, index, divisor):
        def generate(context, builder, signature, arguments):
            value, by = arguments
            by = builder.trunc(by, value.type) if by.type.width > value.type.width else by
            return getattr(builder, name)(value, by)

        return index(index, divisor), generate

    return operation


quotient = _unsigned("udiv")
remainder = _unsigned("urem")


def _register(name):
    @intrinsic
    def operation(typing_context):
        def generate(context, builder, signature, arguments):
            kind = ir.FunctionType(ir.IntType(32), [])
            full_name = f"llvm.nvvm.read.ptx.sreg.{name}.x"
            module = builder.module
            function = module.globals.get(full_name) or ir.Function(module, kind, full_name)
            return builder.call(function, [])

        return types.int32(), generate

    return operation


thread_index = _register("tid")
block_index = _register("ctaid")


@intrinsic
def narrow(typing_context, value):
    """`value` as int32: an index, which Numba computes in int64, that is known to fit."""

    def generate(context, builder, signature, arguments):
        (given,) = arguments
        return builder.trunc(given, ir.IntType(32)) if given.type.width > 32 else given

    return types.int32(value), generate


@intrinsic
def advance(typing_context, position, step):
    """`position + step`, opaque to LLVM, which would unroll its loop until registers spill."""

    def generate(context, builder, signature, arguments):
        value, by = arguments
        kind = value.type
        by = builder.trunc(by, kind) if by.type.width > kind.width else by
        register = "r" if kind.width == 32 else "l"
        assembly = ir.InlineAsm(
            ir.FunctionType(kind, [kind, kind]),
            f"add.s{kind.width} $0, $1, $2;",
            f"={register},{register},{register}",
        )
        return builder.call(assembly, [value, by])

    return position(position, step), generate


@cuda.jit(device=True, forceinline=True)
def mirrored(number):
    """Column and row of a tile of a square, in an order in which mirrors follow each other.

    Tiles are counted in shells that close around the first one: those whose larger coordinate is
    ``edge`` have the numbers from the square of ``edge`` on, a tile before its mirror.
    """
    edge = int32(sqrt(float32(number)))
    if edge * edge > number:  # float32 rounds large numbers, perhaps up to the next square
        edge = narrow(edge - 1)
    place = narrow(number - edge * edge)
    other = quotient(place, 2)
    if remainder(place, 2) == 0:
        return edge, other
    return other, edge

"""Operations on Value that Python has no operator for: fma, rounding, bit casts, select, gather."""

from __future__ import annotations

import hashlib
import struct

from llvmlite import ir

from minijit.kernels.math.value import (
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    Operand,
    Value,
    constant,
)

_SUFFIX = {FLOAT32: "f32", FLOAT64: "f64"}


def _call(name: str, *values: Value) -> Value:
    first = values[0]
    whole = first.ir.type
    lanes = f"v{whole.count}" if isinstance(whole, ir.VectorType) else ""
    function_type = ir.FunctionType(whole, [whole] * len(values))
    full_name = f"{name}.{lanes}{_SUFFIX[first.kind]}"
    module = first.builder.module
    function = module.globals.get(full_name) or ir.Function(module, function_type, full_name)
    return Value(first.builder, first.builder.call(function, [v.ir for v in values]))


def fma(a: Value, b: Operand, c: Operand) -> Value:
    """a * b + c with one rounding."""
    return _call("llvm.fma", a, a.of(b), a.of(c))


def rint(x: Value) -> Value:
    """The nearest whole number, ties to even."""
    return _call("llvm.rint", x)


def floor(x: Value) -> Value:
    """The largest whole number that is not above x."""
    return _call("llvm.floor", x)


def sqrt(x: Value) -> Value:
    """The square root, correctly rounded; NaN below zero."""
    return _call("llvm.sqrt", x)


def absolute(x: Value) -> Value:
    """x without its sign bit."""
    return _call("llvm.fabs", x)


def copysign(magnitude: Value, sign: Value) -> Value:
    """|magnitude| with the sign bit of `sign`."""
    return _call("llvm.copysign", magnitude, sign)


def select(condition: Value, chosen: Operand, otherwise: Operand) -> Value:
    """`chosen` where `condition` holds; one of the two is a Value and gives the type."""
    like = chosen if isinstance(chosen, Value) else otherwise
    if not isinstance(like, Value):
        raise TypeError("select() needs a value on one side")
    builder = condition.builder
    return Value(builder, builder.select(condition.ir, like.of(chosen).ir, like.of(otherwise).ir))


def bits(x: Value) -> Value:
    """The bit pattern of a float as an integer of its width."""
    return Value(x.builder, x.builder.bitcast(x.ir, x.like(INT32 if x.kind == FLOAT32 else INT64)))


def real(x: Value) -> Value:
    """The float whose bit pattern is `x`: the inverse of bits()."""
    kind = FLOAT32 if x.kind == INT32 else FLOAT64
    return Value(x.builder, x.builder.bitcast(x.ir, x.like(kind)))


def shift_right_logical(x: Value, places: int) -> Value:
    """x >> places with zeros shifted in."""
    return Value(x.builder, x.builder.lshr(x.ir, x.of(places).ir))


def to_int32(x: Value) -> Value:
    """The low 32 bits of a 64-bit integer."""
    return Value(x.builder, x.builder.trunc(x.ir, x.like(INT32)))


def to_float64(x: Value) -> Value:
    """A float32 as a float64: exact."""
    return Value(x.builder, x.builder.fpext(x.ir, x.like(FLOAT64)))


def to_float32(x: Value) -> Value:
    """A float64 rounded to float32."""
    return Value(x.builder, x.builder.fptrunc(x.ir, x.like(FLOAT32)))


def from_integer(x: Value) -> Value:
    """The float of the integer's width that is nearest to it."""
    kind = FLOAT32 if x.kind == INT32 else FLOAT64
    return Value(x.builder, x.builder.sitofp(x.ir, x.like(kind)))


def gather(table: tuple[float, ...], index: Value, kind: ir.Type = FLOAT64) -> Value:
    """table[index], where 0 <= index < len(table) must hold; equal tables share one constant."""
    builder = index.builder
    module = builder.module
    digest = hashlib.sha256(struct.pack(f"{len(table)}d", *table)).hexdigest()[:16]
    name = f"minijit.table.{_SUFFIX[kind]}.{digest}"
    found = module.globals.get(name)
    if found is None:
        array_type = ir.ArrayType(kind, len(table))
        found = ir.GlobalVariable(module, array_type, name)
        found.initializer = ir.Constant(array_type, [constant(kind, entry) for entry in table])
        found.linkage = "internal"
        found.global_constant = True
        found.unnamed_addr = True
        found.align = 64

    def entry(place: ir.Value) -> ir.Value:
        return builder.load(builder.gep(found, [ir.Constant(INT32, 0), place], inbounds=True))

    whole = index.ir.type
    if not isinstance(whole, ir.VectorType):
        return Value(builder, entry(index.ir))
    result = ir.Constant(index.like(kind), ir.Undefined)
    for lane in (ir.Constant(INT32, number) for number in range(whole.count)):
        one = entry(builder.extract_element(index.ir, lane))
        result = builder.insert_element(result, one, lane)
    return Value(builder, result)

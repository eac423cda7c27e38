"""Value: a typed LLVM scalar, or vector, under construction, with the operators of formulas."""

from __future__ import annotations

import struct

from llvmlite import ir

FLOAT32 = ir.FloatType()
FLOAT64 = ir.DoubleType()
BOOL = ir.IntType(1)
INT32 = ir.IntType(32)
INT64 = ir.IntType(64)


def constant(kind: ir.Type, number: float | int) -> ir.Constant:
    """A constant of LLVM type `kind`; a float is rounded to that type, an integer wraps."""
    if kind == FLOAT32:
        return ir.Constant(kind, struct.unpack("f", struct.pack("f", number))[0])
    if kind == FLOAT64:
        return ir.Constant(kind, float(number))
    if not isinstance(number, int):
        raise TypeError(f"an integer value meets the float {number!r}")
    return ir.Constant(kind, number & ((1 << kind.width) - 1))


class Value:
    """A scalar of LLVM type float, double, i1, i32 or i64, or a vector of such.

    A formula does not see which: it is one for each lane.

    Operators never promote: both sides have one type, and a Python number takes the type of the
    other side. This is what keeps a float32 formula in float32 and an int32 in 32 bits, so that
    the loop around it fills whole vectors. Arithmetic is IEEE, one rounding per operator, without
    contraction; integers wrap. Comparisons with NaN are false, except `!=`.
    """

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("builder", "ir")

    def __init__(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        self.builder = builder
        self.ir = value

    @property
    def kind(self) -> ir.Type:
        """The LLVM type of a lane."""
        whole = self.ir.type
        return whole.element if isinstance(whole, ir.VectorType) else whole

    def like(self, kind: ir.Type) -> ir.Type:
        """The LLVM type of as many lanes of another kind."""
        whole = self.ir.type
        return ir.VectorType(kind, whole.count) if isinstance(whole, ir.VectorType) else kind

    @property
    def is_float(self) -> bool:
        """Whether the type is float or double."""
        return self.kind in (FLOAT32, FLOAT64)

    def __bool__(self) -> bool:
        raise TypeError("a value under construction has no truth: use select()")

    def of(self, number: float | int | Value) -> Value:
        """`number` as a value of this value's type."""
        if isinstance(number, Value):
            if number.ir.type != self.ir.type:
                raise TypeError(f"{self.ir.type} meets {number.ir.type}: convert one of them")
            return number
        lane, whole = constant(self.kind, number), self.ir.type
        if isinstance(whole, ir.VectorType):
            lane = ir.Constant(whole, [lane] * whole.count)
        return Value(self.builder, lane)

    def _binary(self, of_float: str | None, of_int: str | None, left: Operand, right: Operand):
        name = of_float if self.is_float else of_int
        if name is None:
            raise TypeError(f"no such operator on {self.kind}")
        emit = getattr(self.builder, name)
        return Value(self.builder, emit(self.of(left).ir, self.of(right).ir))

    def _compare(self, sign: str, other: Operand) -> Value:
        right = self.of(other).ir
        if not self.is_float:
            return Value(self.builder, self.builder.icmp_signed(sign, self.ir, right))
        # `!=` is the one comparison that holds for NaN.
        emit = self.builder.fcmp_unordered if sign == "!=" else self.builder.fcmp_ordered
        return Value(self.builder, emit(sign, self.ir, right))

    def __add__(self, other: Operand) -> Value:
        return self._binary("fadd", "add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return self._binary("fadd", "add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return self._binary("fsub", "sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return self._binary("fsub", "sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return self._binary("fmul", "mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return self._binary("fmul", "mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return self._binary("fdiv", None, self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self._binary("fdiv", None, other, self)

    def __and__(self, other: Operand) -> Value:
        return self._binary(None, "and_", self, other)

    def __or__(self, other: Operand) -> Value:
        return self._binary(None, "or_", self, other)

    def __xor__(self, other: Operand) -> Value:
        return self._binary(None, "xor", self, other)

    def __lshift__(self, other: Operand) -> Value:
        return self._binary(None, "shl", self, other)

    def __rshift__(self, other: Operand) -> Value:
        """Arithmetic: the sign is copied in."""
        return self._binary(None, "ashr", self, other)

    def __neg__(self) -> Value:
        emit = self.builder.fneg if self.is_float else self.builder.neg
        return Value(self.builder, emit(self.ir))

    def __invert__(self) -> Value:
        return Value(self.builder, self.builder.not_(self.ir))

    def __lt__(self, other: Operand) -> Value:
        return self._compare("<", other)

    def __le__(self, other: Operand) -> Value:
        return self._compare("<=", other)

    def __gt__(self, other: Operand) -> Value:
        return self._compare(">", other)

    def __ge__(self, other: Operand) -> Value:
        return self._compare(">=", other)

    def __eq__(self, other: Operand) -> Value:  # type: ignore[override]
        return self._compare("==", other)

    def __ne__(self, other: Operand) -> Value:  # type: ignore[override]
        return self._compare("!=", other)


Operand = Value | float | int

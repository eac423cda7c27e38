"""Expressions of kernels."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from minijit.backends.frontend.numba import Numba
from minijit.backends.frontend.sources import device_code
from minijit.backends.frontend.values import Known, Operand, Returned, Typed, Unsupported
from minijit.graph.errors import DeclarationError

__all__ = ["Expressions"]

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_BUILTINS = {"abs": abs, "bool": bool, "float": float, "int": int, "max": max, "min": min}


class Expressions:
    """Walks expressions; names are looked up by whoever has the variables.

    Attributes:
        numba: Types and writes single operations.
    """

    def __init__(self, numba: Numba) -> None:
        """Write at the place of Numba's builder."""
        self.numba = numba

    def load(self, name: str) -> Operand | None:
        """Return what a name stands for, or None."""
        raise NotImplementedError

    def inline(self, function: FunctionType, operands: list[Operand]) -> Operand | None:
        """Return the result of a Python function; None if its source cannot be inlined."""
        raise NotImplementedError

    def evaluate(self, node: ast.expr) -> Operand:
        """Write an expression and return its value."""
        match node:
            case ast.Constant(value=int() | float()):
                return Known(node.value)
            case ast.Name():
                return self._name(node.id)
            case ast.BinOp():
                return self.operate(node.op, self.evaluate(node.left), self.evaluate(node.right))
            case ast.UnaryOp():
                return self.operate(node.op, self.evaluate(node.operand))
            case ast.Compare(ops=[op], comparators=[right]):
                return self.operate(op, self.evaluate(node.left), self.evaluate(right))
            case ast.Subscript():
                place = self.evaluate(node.value), self.evaluate(node.slice)
                return self.numba.apply(operator.getitem, *place)
            case ast.Call(keywords=[]):
                return self._call(node)
            case ast.Attribute():
                return self.numba.attribute(self.evaluate(node.value), node.attr)
            case ast.IfExp():
                return self._conditional(node)
            case ast.BoolOp():
                return self._connect(node.op, node.values)
            case ast.Tuple():
                return tuple(map(self._single, node.elts))
        raise Unsupported(node)

    def operate(self, op: ast.AST, *operands: Operand) -> Operand:
        """Return the result of an operator; that of known numbers is known."""
        function = _OPERATORS.get(type(op))
        if function is None:
            raise Unsupported(op)
        if function is operator.not_ and isinstance(operands[0], Known):
            return Known(not operands[0].value)
        known = [o.value for o in operands if isinstance(o, Known)]
        if len(known) == len(operands) and all(type(v) in (int, float) for v in known):
            result = function(*known)
            if not _is_numbas(result, known, function):
                raise Unsupported(op)
            return Known(result)
        if function in (operator.mod, operator.floordiv):
            exact = self._exact_division(function, *operands)
            if exact is not None:
                return exact
        return self.numba.apply(function, *operands)

    def _exact_division(self, function: Any, left: Operand, right: Operand) -> Operand | None:
        """Return the rest or the quotient of floats where the target has code of its own for it."""
        numba = self.numba
        kind = numba.unified(numba.typed(left).type, numba.typed(right).type)
        if not isinstance(kind, numba.types.Float):
            return None
        operands: list[Operand] = [Typed(kind, numba.cast(each, kind)) for each in (left, right)]
        code = numba.faster(function, operands)
        return self.inline(code, operands) if isinstance(code, FunctionType) else None

    def condition(self, node: ast.expr) -> Known | Typed:
        """Return a boolean: known, or one bit at run time."""
        return self._truth(self._single(node))

    def join(self, ways: Sequence[tuple[Operand, Any]]) -> Operand:
        """Return the value that depends on the block from which the current one is entered.

        Args:
            ways: All values, each with the block at whose end it is there.
        """
        if len(ways) == 1:
            return ways[0][0]
        tuples = [value if isinstance(value, tuple) else (value,) for value, _ in ways]
        merged: list[Typed] = []
        for parts in zip(*tuples, strict=True):
            kinds = [self.numba.typed(part).type for part in parts]
            kind = functools.reduce(self.numba.unified, kinds)
            values: list[Any] = []
            for part, (_, block) in zip(parts, ways, strict=True):
                with self.numba.builder.goto_block(block):
                    values.append(self.numba.cast(part, kind))
            phi = self.numba.builder.phi(values[0].type)
            for value, (_, block) in zip(values, ways, strict=True):
                phi.add_incoming(value, block)
            merged.append(Typed(kind, phi))
        return tuple(merged) if isinstance(ways[0][0], tuple) else merged[0]

    def _truth(self, operand: Known | Typed) -> Known | Typed:
        if isinstance(operand, Known):
            return Known(bool(operand.value))
        boolean = self.numba.types.boolean
        return Typed(boolean, self.numba.cast(operand, boolean))

    def _single(self, node: ast.expr) -> Known | Typed:
        found = self.evaluate(node)
        if isinstance(found, tuple):
            raise Unsupported(node)
        return found

    def _name(self, name: str) -> Operand:
        found = self.load(name)
        if found is not None:
            return found
        if name in _BUILTINS:
            return Known(_BUILTINS[name])
        raise NameError(f"nothing is called {name}")

    def _call(self, node: ast.Call) -> Operand:
        function = self.evaluate(node.func)
        operands = list(map(self.evaluate, node.args))
        if not isinstance(function, Known):
            raise Unsupported(node)
        if isinstance(function.value, Returned):
            return self._returned(function.value, *operands)
        kind = self.numba.scalar_type(function.value)
        if kind is not None and len(operands) == 1:
            return Typed(kind, self.numba.cast(operands[0], kind))
        if function.value in (min, max):
            return self._extremum("<" if function.value is min else ">", *operands)
        swift = self.numba.faster(function.value, operands)
        if swift is not function.value:
            return self.numba.call(Known(swift), operands)
        python = device_code(function.value)
        if python is not None:
            result = self.inline(python, operands)
            if result is not None:
                return result
        return self.numba.call(function, operands)

    def _returned(self, declared: Returned, operand: Operand) -> Operand:
        """Return what a declared function gave as the dtype that was declared for it."""
        if isinstance(operand, tuple):
            raise DeclarationError(f"it returns {len(operand)} values, one was declared")
        kind = self.numba.scalar_type(np.dtype(declared.dtype).type)
        given, types = self.numba.typed(operand).type, self.numba.types
        if isinstance(given, types.NoneType | types.Optional):
            raise DeclarationError(
                f"a way to its end returns nothing where {declared.dtype} is declared: write return"
            )
        families = (types.Boolean, types.Integer, types.Float)
        family = next(each for each in families if isinstance(kind, each))
        wider = family is types.Float and getattr(given, "bitwidth", 0) > kind.bitwidth
        known = isinstance(operand, Known) and not isinstance(given, types.Boolean)
        if not known and (not isinstance(given, family) or wider):
            raise DeclarationError(
                f"it returns {given} where {declared.dtype} is declared: convert what it returns, "
                "or what made it so, or declare that dtype (result=)"
            )
        return Typed(kind, self.numba.cast(operand, kind))

    def _extremum(self, sign: str, left: Operand, right: Operand) -> Operand:
        """Return the one of two numbers that lies in the direction of ``sign``.

        Of floats the first one where neither does, as Python has it: for NaN, for zeros.
        """
        numba = self.numba
        if isinstance(left, Known) and isinstance(right, Known):
            return min(left, right, key=_number) if sign == "<" else max(left, right, key=_number)
        kind = numba.unified(numba.typed(left).type, numba.typed(right).type)
        if isinstance(kind, numba.types.Float):
            compare = numba.builder.fcmp_ordered
        elif isinstance(kind, numba.types.Integer):
            signed = numba.builder.icmp_signed, numba.builder.icmp_unsigned
            compare = signed[not kind.signed]
        else:
            raise TypeError(f"min and max are for integers and floats here, not {kind}")
        values = numba.cast(left, kind), numba.cast(right, kind)
        return Typed(kind, numba.builder.select(compare(sign, *values[::-1]), *values[::-1]))

    def _connect(self, op: ast.boolop, nodes: list[ast.expr]) -> Operand:
        """Write ``and`` or ``or``: the operand that decides; none after it is evaluated."""
        first = self._single(nodes[0])
        if len(nodes) == 1:
            return first
        decided, open_ = lambda: first, lambda: self._connect(op, nodes[1:])
        ways = (open_, decided) if isinstance(op, ast.And) else (decided, open_)
        return self._choose(self._truth(first), *ways)

    def _conditional(self, node: ast.IfExp) -> Operand:
        """Write ``x if test else y``; between variables without branches, which LLVM would undo."""
        decides, ways = self.condition(node.test), (node.body, node.orelse)
        if isinstance(decides, Typed) and all(isinstance(way, ast.Name) for way in ways):
            there = list(map(self.evaluate, ways))
            if not any(isinstance(value, tuple) for value in there):
                kind = self.numba.unified(*(self.numba.typed(value).type for value in there))
                values = [self.numba.cast(value, kind) for value in there]
                return Typed(kind, self.numba.builder.select(decides.value, *values))
        return self._choose(decides, *(functools.partial(self.evaluate, way) for way in ways))

    def _choose(
        self,
        decides: Known | Typed,
        chosen: Callable[[], Operand],
        otherwise: Callable[[], Operand],
    ) -> Operand:
        """Write ``chosen if decides else otherwise``: only one of the two is evaluated."""
        if isinstance(decides, Known):
            return chosen() if decides.value else otherwise()
        builder = self.numba.builder
        blocks = [builder.append_basic_block(name) for name in ("chosen", "otherwise")]
        end = builder.append_basic_block("end")
        builder.cbranch(decides.value, *blocks)
        ways: list[tuple[Operand, Any]] = []
        for block, write in zip(blocks, (chosen, otherwise), strict=True):
            builder.position_at_end(block)
            ways.append((write(), builder.block))
            builder.branch(end)
        builder.position_at_end(end)
        return self.join(ways)


def _is_numbas(result: Any, operands: Sequence[int | float], function: Callable[..., Any]) -> bool:
    """Whether Numba's arithmetic has the result that Python's integers and floats gave."""
    if isinstance(result, bool):
        return True
    if function is operator.truediv or any(isinstance(each, float) for each in operands):
        return isinstance(result, float)
    return isinstance(result, int) and -(1 << 63) <= result < 1 << 63


def _number(known: Known) -> Any:
    return known.value

"""Expressions of kernels."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

from minijit.backends.frontend.numba import Numba
from minijit.backends.frontend.values import Known, Operand, Typed, Unsupported

__all__ = ["Expressions", "operator_of"]

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
_NUMBERS = int | float
_BUILTINS = {"abs": abs, "bool": bool, "float": float, "int": int, "max": max, "min": min}


def operator_of(node: ast.AST) -> Callable[..., Any]:
    """Return the function of the module ``operator`` that an operator of the syntax stands for."""
    return _OPERATORS[type(node)]


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
            case ast.Constant():
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
                ways = (lambda: self.evaluate(node.body), lambda: self.evaluate(node.orelse))
                return self._choose(node.test, *ways)
            case ast.BoolOp():
                return self._connect(node.op, node.values)
            case ast.Tuple():
                return tuple(map(self._single, node.elts))
        raise Unsupported(node)

    def operate(self, op: ast.AST, *operands: Operand) -> Operand:
        """Return the result of an operator; that of known numbers is known."""
        function = operator_of(op)
        known = [o.value for o in operands if isinstance(o, Known)]
        if len(known) == len(operands) and all(isinstance(v, _NUMBERS) for v in known):
            return Known(function(*known))
        return self.numba.apply(function, *operands)

    def condition(self, node: ast.expr) -> Known | Typed:
        """Return a boolean: known, or one bit at run time."""
        found = self._single(node)
        if isinstance(found, Known):
            return Known(bool(found.value))
        boolean = self.numba.types.boolean
        return Typed(boolean, self.numba.cast(found, boolean))

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
        kind = self.numba.scalar_type(function.value)
        if kind is not None and len(operands) == 1:
            return Typed(kind, self.numba.cast(operands[0], kind))
        if function.value in (min, max):
            return self._extremum("<" if function.value is min else ">", *operands)
        python = getattr(function.value, "py_func", function.value)
        if isinstance(python, FunctionType) and function.type is None:
            result = self.inline(python, operands)
            if result is not None:
                return result
        return self.numba.call(function, operands)

    def _extremum(self, sign: str, left: Operand, right: Operand) -> Operand:
        """Return the one of two integers that lies in the direction of ``sign``."""
        numba = self.numba
        if isinstance(left, Known) and isinstance(right, Known):
            return min(left, right, key=_number) if sign == "<" else max(left, right, key=_number)
        kind = numba.unified(numba.typed(left).type, numba.typed(right).type)
        if not isinstance(kind, numba.types.Integer):
            raise TypeError(f"min and max are for integers, not {kind}")
        compare = numba.builder.icmp_signed if kind.signed else numba.builder.icmp_unsigned
        values = numba.cast(left, kind), numba.cast(right, kind)
        return Typed(kind, numba.builder.select(compare(sign, *values), *values))

    def _connect(self, op: ast.boolop, nodes: list[ast.expr]) -> Operand:
        """Write ``and`` or ``or``; what comes after the deciding condition is not evaluated."""
        if len(nodes) == 1:
            return self.condition(nodes[0])
        first, rest = nodes[0], lambda: self._connect(op, nodes[1:])
        if isinstance(op, ast.And):
            return self._choose(first, rest, lambda: Known(False))
        return self._choose(first, lambda: Known(True), rest)

    def _choose(
        self, test: ast.expr, chosen: Callable[[], Operand], otherwise: Callable[[], Operand]
    ) -> Operand:
        """Write ``chosen if test else otherwise``: only one of the two is evaluated."""
        decides = self.condition(test)
        if isinstance(decides, Known):
            return chosen() if decides.value else otherwise()
        builder = self.numba.builder
        ways = [builder.append_basic_block(name) for name in ("chosen", "otherwise")]
        end = builder.append_basic_block("end")
        builder.cbranch(decides.value, *ways)
        found: list[tuple[Operand, Any]] = []
        for way, write in ((ways[0], chosen), (ways[1], otherwise)):
            builder.position_at_end(way)
            found.append((write(), builder.block))
        (left, _), (right, _) = found
        pairs = zip(self._types(left), self._types(right), strict=True)
        kinds = [self.numba.unified(*pair) for pair in pairs]
        incoming: list[tuple[list[Any], Any]] = []
        for value, block in found:
            builder.position_at_end(block)
            parts = value if isinstance(value, tuple) else (value,)
            incoming.append((list(map(self.numba.cast, parts, kinds)), builder.block))
            builder.branch(end)
        builder.position_at_end(end)
        merged = tuple(
            self._merge(kind, [(values[place], block) for values, block in incoming])
            for place, kind in enumerate(kinds)
        )
        return merged if isinstance(left, tuple) else merged[0]

    def _types(self, operand: Operand) -> list[Any]:
        parts = operand if isinstance(operand, tuple) else (operand,)
        return [self.numba.typed(part).type for part in parts]

    def _merge(self, kind: Any, incoming: list[tuple[Any, Any]]) -> Typed:
        """Return the value that depends on the block from which the current one was entered."""
        merged = self.numba.builder.phi(incoming[0][0].type)
        for value, block in incoming:
            merged.add_incoming(value, block)
        return Typed(kind, merged)


def _number(known: Known) -> Any:
    return known.value

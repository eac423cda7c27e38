"""The derivative of a user's function of scalars: that of the same function on traced arrays."""

from __future__ import annotations

import ast
import copy
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from minijit.graph.definitions import definition
from minijit.graph.errors import ConcretizationTypeError
from minijit.graph.source_info import SourceLine, standing_at, user_line
from minijit.graph.trace import abstractify
from minijit.ops import binary, compare, division, power, transcendental, unary
from minijit.ops.names import Names
from minijit.ops.promote import broadcast_to, convert
from minijit.ops.select import where
from minijit.transforms.jvp import push
from minijit.transforms.replay import traced

__all__ = ["NotArithmetic", "OfFunction"]

_OTHER_NAMES = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atan2": "arctan2", "atanh": "arctanh", "pow": "power",
}  # fmt: skip


def _arrays_of() -> dict[Any, Any]:
    """Return for functions of ``math`` and Python what does the same to arrays."""
    table: dict[Any, Any] = {}
    for name, function in vars(math).items():
        wanted = _OTHER_NAMES.get(name, name)
        for module in (unary, binary, transcendental, division, power):
            if callable(function) and hasattr(module, wanted):
                table[function] = getattr(module, wanted)
    table[max] = lambda *xs: functools.reduce(binary.maximum, xs)
    table[min] = lambda *xs: functools.reduce(binary.minimum, xs)
    table[float] = unary.positive
    return table


_ARRAYS = _arrays_of()


@dataclasses.dataclass(frozen=True, slots=True)
class OfFunction:
    """A ``jvp`` rule: the function is traced on arrays, and what it does differentiated.

    Attributes:
        function: A function of scalars.
        apply: ``(*arrays)``: the declared operation, which computes the result.
    """

    function: FunctionType
    apply: Callable[..., Any]

    def __str__(self) -> str:
        """Return what reports say of the rule."""
        return "that of the function"

    def __call__(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """Return the result and its tangent.

        Raises:
            NotArithmetic: the function does something that arrays cannot.
        """
        result = self.apply(*primals)
        aval, line = abstractify(result), user_line()

        def run(arrays: list[Any]) -> list[Any]:
            with standing_at(line):
                made = _on_arrays(self.function)(*arrays)
                return [broadcast_to(convert(made, aval.dtype), aval.shape)]

        try:
            jaxpr, captures = traced(run, list(map(abstractify, primals)), self.function.__name__)
        except (ConcretizationTypeError, _NoSource) as error:
            raise NotArithmetic(
                f"{SourceLine.of_function(self.function)}: it cannot be differentiated by itself "
                f"(at {line}): its code does more than arithmetic, calls of math and "
                "`a if condition else b`. Give its declaration jvp=, one partial derivative "
                "(result, *operands) for each operand"
            ) from error
        still = [None] * len(captures)
        _, changed = push(jaxpr, [*captures, *primals], [*still, *tangents], reverse=False)
        return result, changed[0]


class NotArithmetic(TypeError):
    """The function does something that arrays cannot do."""


class _NoSource(Exception):
    """The function's code cannot be read."""


def _on_arrays(function: FunctionType) -> FunctionType:
    """Return the function with choices and calls of ``math`` as operations on arrays."""
    tree = definition(function.__code__)
    if tree is None:
        raise _NoSource
    tree = copy.deepcopy(tree)
    stored = {
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    stored |= {argument.arg for argument in tree.args.args}
    names = Names(function, stored)
    _Arrays(names).visit(tree)
    return names.function(tree)


class _Arrays(ast.NodeTransformer):
    """Rewrites what Python does with numbers and cannot do with arrays."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Call what does the same to arrays."""
        known = self._names.value(node.func)
        self.generic_visit(node)
        try:
            arrays = _ARRAYS.get(known)
        except TypeError:  # not hashable
            return node
        if arrays is not None:
            node.func = self._names.make(node.func, arrays)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """Compute both, and select."""
        self.generic_visit(node)
        return self._call(node, where, node.test, node.body, node.orelse)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """Combine truth values."""
        self.generic_visit(node)
        combine = compare.logical_and if isinstance(node.op, ast.And) else compare.logical_or
        return functools.reduce(lambda a, b: self._call(node, combine, a, b), node.values)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """Negate a truth value."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return self._call(node, compare.logical_not, node.operand)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Make ``a < b < c`` two comparisons."""
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        pairs: list[ast.expr] = [
            ast.copy_location(ast.Compare(sides[place], [op], [sides[place + 1]]), node)
            for place, op in enumerate(node.ops)
        ]
        return functools.reduce(lambda a, b: self._call(node, compare.logical_and, a, b), pairs)

    def _call(self, node: ast.expr, function: Any, *operands: ast.expr) -> ast.expr:
        made = self._names.make(node, function)
        return ast.copy_location(ast.Call(made, list(operands), []), node)

"""Numbers in the code of one element take the dtype of what they meet, as in NumPy (NEP 50).

Numba types a bare ``0.5`` as float64 and ``2`` as int64, and both make float64 of a float32. So a
function of scalars is written anew for each dtype: its numbers become constants of that dtype, and
the integers that it counts with are converted where they meet a value. What stays an integer: the
bounds of ``range``, an index, the exponent in ``x ** 2``.

Example, for float32::

    def f(x):                           def f(x):
        total = 0                           total = float32(0)
        for k in range(3):                  for k in range(3):
            total += x / (k + 0.5)              total += x / (float32(k) + float32(0.5))
        return 2 * total                    return float32(2) * total
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import enum
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np

from minijit.graph.definitions import Definition, definition
from minijit.graph.errors import DeclarationError
from minijit.graph.source_info import SourceLine
from minijit.ops.foreign import foreign
from minijit.ops.names import Names

__all__ = ["Formula", "typed_literals"]

Dtype = np.dtype[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Formula:
    """Makes the code of a function for dtypes, as ``Scalar`` and ``Monoid`` want it.

    Attributes:
        function: A function of scalars as its author wrote it.
        same: Whether its result has the dtype of its numbers, also where it returns integer
            literals alone.
    """

    function: FunctionType
    same: bool = False

    def __call__(
        self,
        dtype: Dtype,
        operands: tuple[Dtype, ...] | None = None,
        results: tuple[Dtype, ...] = (),
    ) -> FunctionType:
        """Return the function with its numbers typed; see :func:`typed_literals`.

        Numbers have ``dtype``, or if that is no float the first float among the others.
        """
        floats = (d for d in (dtype, *results, *(operands or ())) if d.kind == "f")
        numbers = next(floats, dtype)
        results = results or (numbers,) * self.same
        return typed_literals(self.function, numbers, operands, results)


class _Kind(enum.IntEnum):
    """What an expression is; where two meet in one variable it is the greater one."""

    BOOL = 0
    NUMBER = 1  # an integer literal, or computed from integer literals alone
    COUNT = 2  # an integer of the machine: a loop's variable, a length
    VALUE = 3  # of the dtype
    OTHER = 4  # not known: left as it is


def typed_literals(
    function: FunctionType,
    dtype: Dtype,
    operands: Sequence[Dtype] | None = None,
    results: Sequence[Dtype] = (),
) -> FunctionType:
    """Return ``function`` with its numbers in ``dtype``.

    Args:
        function: Takes scalars by position. Numbers among its globals and free variables are taken
            as they are now.
        dtype: Of its values: a float, an integer or bool.
        operands: Dtype of each argument; default: all have ``dtype``.
        results: Dtype of each value that it returns.

    Raises:
        DeclarationError: its source is not there, a number does not fit into ``dtype``, or it works
            with text or containers.
    """
    tree = definition(function.__code__)
    if tree is None:
        raise DeclarationError(
            f"{SourceLine.of_function(function)}: the numbers in it cannot be given a dtype: its "
            "source is not there, or it has defaults or keywords. Write a function of positional "
            "arguments in a file, or give scalar=typed(make)"
        )
    given = tuple(operands or (dtype,) * len(tree.args.args))
    return _Rewriter(function, tree, dtype, given, results).function()


class _Rewriter:
    """Rewrites one function: kinds of variables first, until they are the same in a further turn.

    Each method that takes an expression returns it rewritten, and its kind.
    """

    def __init__(
        self,
        function: FunctionType,
        tree: Definition,
        dtype: Dtype,
        operands: Sequence[Dtype],
        results: Sequence[Dtype],
    ) -> None:
        self._results = results
        self._original = function
        self._tree = tree
        self._dtype = dtype
        self._float = dtype.kind == "f"
        self._variables = {
            argument.arg: self._kind_of(operand)
            for argument, operand in zip(tree.args.args, operands, strict=True)
        }
        stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and _is_stored(n)}
        self._local = stored | set(self._variables)
        self._result = _Kind.BOOL
        self._names = Names(function, self._local)

    def _kind_of(self, dtype: Dtype) -> _Kind:
        if dtype == self._dtype or (self._float and dtype.kind == "f"):
            return _Kind.VALUE
        return {"b": _Kind.BOOL, "i": _Kind.COUNT, "u": _Kind.COUNT}.get(dtype.kind, _Kind.OTHER)

    def function(self) -> FunctionType:
        """Return the function."""
        for node, what in foreign(self._tree, self._names.value):
            raise self._error(node, f"{what}: the code of one element computes with numbers")
        while True:
            before = dict(self._variables), self._result
            self._names.clear()
            tree = copy.deepcopy(self._tree)
            if isinstance(tree, ast.Lambda):
                tree.body = self._returned(tree.body)
            else:
                tree.body = [self.statement(each) for each in tree.body]
            if (self._variables, self._result) == before:
                return self._names.function(tree)

    # Statements.

    def statement(self, node: Any) -> Any:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]):
                node.value = self._stored(name, *self.expression(node.value))
            case ast.Assign(targets=[ast.Tuple(elts=places)], value=ast.Tuple() as values) if len(
                places
            ) == len(values.elts) and all(isinstance(p, ast.Name) for p in places):
                names = [place.id for place in places if isinstance(place, ast.Name)]
                values.elts = [
                    self._stored(each, *self.expression(value))
                    for each, value in zip(names, values.elts, strict=True)
                ]
            case ast.Assign():
                for place in ast.walk(node):
                    if isinstance(place, ast.Name) and _is_stored(place):
                        self._join(place.id, _Kind.VALUE if self._float else _Kind.OTHER)
                node.value, _ = self.expression(node.value)
            case ast.AugAssign(target=ast.Name(id=name)):
                read = ast.copy_location(ast.Name(name, ast.Load()), node.target)
                whole = ast.copy_location(ast.BinOp(read, node.op, node.value), node)
                value = self._stored(name, *self.expression(whole))
                return ast.copy_location(ast.Assign([node.target], value), node)
            case ast.Return(value=ast.expr()):
                node.value = self._returned(node.value)
            case ast.For():
                kind = _Kind.COUNT
                if isinstance(node.iter, ast.List | ast.Tuple) and node.iter.elts:
                    parts, kind = self._together(node.iter.elts)
                    node.iter = ast.copy_location(ast.Tuple(parts, ast.Load()), node.iter)
                else:
                    node.iter, _ = self.expression(node.iter)
                if isinstance(node.target, ast.Name):
                    self._join(node.target.id, kind)
                self._blocks(node)
            case ast.If() | ast.While():
                node.test, _ = self.expression(node.test)
                self._blocks(node)
            case ast.Expr():
                node.value, _ = self.expression(node.value)
        return node

    def _blocks(self, node: Any) -> None:
        node.body = [self.statement(each) for each in node.body]
        node.orelse = [self.statement(each) for each in node.orelse]

    def _stored(self, name: str, node: ast.expr, kind: _Kind) -> ast.expr:
        self._join(name, kind)
        return self._as(node, kind, self._variables[name])

    def _join(self, name: str, kind: _Kind) -> None:
        self._variables[name] = max(kind, self._variables.get(name, kind))

    def _returned(self, node: Any) -> Any:
        """Return what a function returns; each value of a tuple as the dtype it is to have."""
        match node:
            case ast.IfExp(body=ast.Tuple()) | ast.IfExp(orelse=ast.Tuple()):
                node.test, _ = self.expression(node.test)
                node.body, node.orelse = self._returned(node.body), self._returned(node.orelse)
            case ast.Tuple(elts=parts) if len(parts) == len(self._results):
                wanted = (self._kind_of(dtype) for dtype in self._results)
                node.elts = [
                    self._as(*self.expression(part), want)
                    for part, want in zip(parts, wanted, strict=True)
                ]
            case ast.Tuple():
                node, _ = self.expression(node)
            case _:
                node, kind = self.expression(node)
                self._result = max(self._result, kind)
                common = self._result
                if common is _Kind.NUMBER and len(self._results) == 1:
                    common = self._kind_of(self._results[0])
                node = self._as(node, kind, common)
        return node

    # Expressions.

    def expression(self, node: Any) -> tuple[Any, _Kind]:
        match node:
            case ast.Constant():
                return self._number(node, node.value)
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.Attribute():
                value = self._names.value(node)
                return self._number(node, value) if _is_number(value) else (node, _Kind.OTHER)
            case ast.UnaryOp():
                return self._unary(node)
            case ast.BinOp():
                return self._binary(node)
            case ast.Compare():
                parts, _ = self._together([node.left, *node.comparators])
                node.left, *node.comparators = parts
                return node, _Kind.BOOL
            case ast.BoolOp():
                node.values, kind = self._together(node.values)
                return node, kind
            case ast.IfExp():
                node.test, _ = self.expression(node.test)
                (node.body, node.orelse), kind = self._together([node.body, node.orelse])
                return node, kind
            case ast.Call(keywords=[]):
                return self._call(node)
            case ast.Tuple():
                node.elts = [self.expression(each)[0] for each in node.elts]
        return node, _Kind.OTHER

    def _number(self, node: ast.expr, value: Any) -> tuple[ast.expr, _Kind]:
        """Return a number that is known: a float in the dtype, an integer for the time being."""
        if isinstance(value, bool) or not _is_number(value):
            return node, _Kind.BOOL if isinstance(value, bool) else _Kind.OTHER
        if isinstance(value, int):
            return ast.copy_location(ast.Constant(value), node), _Kind.NUMBER
        if not self._float:
            return node, _Kind.OTHER
        return self._constant(node, value), _Kind.VALUE

    def _name(self, node: ast.Name, name: str) -> tuple[ast.expr, _Kind]:
        if name in self._local:
            return node, self._variables.get(name, _Kind.BOOL)
        return self._number(node, self._names.value(node))

    def _unary(self, node: ast.UnaryOp) -> tuple[ast.expr, _Kind]:
        operand, kind = self.expression(node.operand)
        if kind is _Kind.NUMBER and isinstance(operand, ast.Constant):
            assert isinstance(operand.value, int)
            if isinstance(node.op, ast.USub):
                return ast.copy_location(ast.Constant(-operand.value), node), kind
        node.operand = operand
        return node, _Kind.BOOL if isinstance(node.op, ast.Not) else kind

    def _binary(self, node: ast.BinOp) -> tuple[ast.expr, _Kind]:
        left, first = self.expression(node.left)
        right, second = self.expression(node.right)
        kind = max(first, second)
        if isinstance(node.op, ast.Pow) and first is _Kind.VALUE and second is _Kind.NUMBER:
            node.left, node.right = left, right  # a power by multiplication
            return node, _Kind.VALUE
        if isinstance(node.op, ast.Div):
            kind = max(kind, _Kind.VALUE) if self._float else _Kind.OTHER
        node.left, node.right = self._as(left, first, kind), self._as(right, second, kind)
        return node, kind

    def _call(self, node: ast.Call) -> tuple[ast.expr, _Kind]:
        known = self._names.value(node.func)
        rewritten = [self.expression(each) for each in node.args]
        node.args = [each for each, _ in rewritten]
        kinds = [kind for _, kind in rewritten]
        if known is float and self._float:
            node.func = self._names.make(node.func, self._dtype.type)
            return node, _Kind.VALUE
        if known is int or known is len:
            return node, _Kind.COUNT
        if known is bool:
            return node, _Kind.BOOL
        if known is abs or known is min or known is max:
            kind = max(kinds, default=_Kind.OTHER)
            node.args = [self._as(each, own, kind) for each, own in rewritten]
            return node, kind
        if known is range or isinstance(known, type):
            return node, _Kind.OTHER
        if not self._float:
            return node, _Kind.OTHER
        if getattr(known, "__module__", "") == "math":
            node.args = [self._as(each, own, _Kind.VALUE) for each, own in rewritten]
            if known.__name__.startswith("is"):
                return node, _Kind.BOOL
            if known.__name__ in ("floor", "ceil", "trunc"):  # integers on one target alone
                return self._cast(node), _Kind.VALUE
        return node, _Kind.VALUE

    def _together(self, nodes: Sequence[ast.expr]) -> tuple[list[ast.expr], _Kind]:
        """Return expressions of which one is taken, or that are compared: all of one kind."""
        parts = [self.expression(each) for each in nodes]
        kind = max(kind for _, kind in parts)
        return [self._as(part, own, kind) for part, own in parts], kind

    def _as(self, node: ast.expr, kind: _Kind, wanted: _Kind) -> ast.expr:
        """Return an expression as one of another kind, where that takes anything."""
        if wanted is not _Kind.VALUE or kind >= _Kind.VALUE or self._dtype.kind == "b":
            return node
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return self._constant(node, node.value)
        return self._cast(node) if self._float else node

    def _cast(self, node: ast.expr) -> ast.expr:
        call = ast.Call(self._names.make(node, self._dtype.type), [node], [])
        return ast.copy_location(call, node)

    def _constant(self, node: ast.expr, value: float) -> ast.expr:
        try:
            with np.errstate(over="ignore"):
                number = self._dtype.type(value)
        except OverflowError:
            raise self._error(
                node,
                f"{value} does not fit into {self._dtype.name}; compute in a wider type there: "
                "np.int64(x)",
            ) from None
        return self._names.make(node, number)

    def _error(self, node: Any, message: str) -> DeclarationError:
        line = SourceLine.of_function(self._original, node.lineno)
        return DeclarationError(f"{line}: {message}")


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)

"""A function written anew: the objects that its names stand for, new names, and its code."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Container, Sequence
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from minijit.graph.definitions import Definition, keep_definition

__all__ = ["Names"]


class Names:
    """The names in a function and what they stand for, those that are made for it included."""

    def __init__(self, function: FunctionType, local: Container[str]) -> None:
        """Look up names of ``function``, in which those of ``local`` are its own."""
        self._function = function
        self._local = local
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        self._cells = cells
        self._made: dict[str, Any] = {}

    def clear(self) -> None:
        """Forget what was made."""
        self._made = {}

    def value(self, node: ast.expr) -> Any:
        """Return the object that an expression of names stands for, or None."""
        if isinstance(node, ast.Attribute):
            base = self.value(node.value)
            return getattr(base, node.attr, None) if isinstance(base, ModuleType) else None
        if not isinstance(node, ast.Name) or node.id in self._local:
            return None
        if node.id in self._cells:
            return self._cells[node.id].cell_contents
        return self._function.__globals__.get(node.id, getattr(builtins, node.id, None))

    def make(self, node: ast.expr, value: Any) -> ast.expr:
        """Return a name for ``value``, in the place of ``node``."""
        for name, known in self._made.items():
            if type(known) is type(value) and repr(known) == repr(value):
                return ast.copy_location(ast.Name(name, ast.Load()), node)
        code = self._function.__code__
        taken = {*code.co_names, *code.co_varnames, *code.co_freevars, *self._made}
        number = len(self._made)
        while (name := f"number_{number}") in taken:
            number += 1
        self._made[name] = value
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def function(self, tree: Definition) -> FunctionType:
        """Return the function that ``tree`` stands for, with the names that were made."""
        original = self._function
        code = _code(tree, (*self._cells, *self._made), original.__code__)
        keep_definition(code, tree)
        cells = tuple(
            self._cells.get(name) or CellType(self._made[name]) for name in code.co_freevars
        )
        function = FunctionType(code, original.__globals__, original.__name__, None, cells)
        function.__qualname__ = original.__qualname__
        return function


def _code(tree: Definition, free: Sequence[str], original: CodeType) -> CodeType:
    """Return the code of a tree in which the names ``free`` are variables of functions around it.

    Nothing is run: the code is a constant of that of a function around it.
    """
    module = ast.parse(f"def around({', '.join(free)}): pass")
    (around,) = module.body
    assert isinstance(around, ast.FunctionDef)
    if isinstance(tree, ast.Lambda):
        around.body = [ast.copy_location(ast.Return(tree), tree)]
    else:
        tree.decorator_list, tree.returns = [], None
        for argument in tree.args.args:
            argument.annotation = None
        around.body = [tree]
    outer = compile(
        ast.fix_missing_locations(module), original.co_filename, "exec", dont_inherit=True
    )
    return _inner(_inner(outer))


def _inner(code: CodeType) -> CodeType:
    return next(constant for constant in code.co_consts if isinstance(constant, CodeType))

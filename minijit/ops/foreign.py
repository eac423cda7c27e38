"""What the code of one element is not made of: text and containers.

Numba takes some of it and makes a wrong number of it, for it has no memory in a kernel.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from minijit.graph.definitions import Definition

__all__ = ["foreign"]

_OF_TEXT = (str, repr, format, ascii, chr, bytes)


def foreign(tree: Definition, value: Callable[[ast.expr], Any]) -> Iterator[tuple[ast.AST, str]]:
    """Yield what there is of it in a function, and why it is refused.

    Messages of errors and docstrings are none of it, nor is a list that a loop goes through.

    Args:
        tree: The function.
        value: Gives the object that an expression of names stands for, or None.
    """
    for node in [tree.body] if isinstance(tree, ast.Lambda) else tree.body:
        yield from _foreign(node, value)


def _foreign(node: ast.AST, value: Callable[[ast.expr], Any]) -> Iterator[tuple[ast.AST, str]]:
    children = list(ast.iter_child_nodes(node))
    reason = None
    match node:
        case ast.Raise() | ast.Assert() | ast.Expr(value=ast.Constant()):
            return
        case ast.For(iter=ast.List(elts=parts)):
            children = [*parts, *node.body, *node.orelse]
        case ast.JoinedStr() | ast.Constant(value=str() | bytes()):
            reason = "is text"
        case ast.Call(func=function) if any(value(function) is each for each in _OF_TEXT):
            reason = "is text"
        case ast.List() | ast.Set() | ast.Dict():
            reason = "is a container; write a tuple, or names"
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            reason = "makes a container; write a loop"
    if reason is not None:
        yield node, f"`{ast.unparse(node)}` {reason}"
    for child in children:
        yield from _foreign(child, value)

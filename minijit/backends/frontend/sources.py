"""The syntax trees of Python functions: kernels inline device functions by their source."""

from __future__ import annotations

import ast
import functools
import linecache
from types import CodeType, FunctionType
from typing import Any

from minijit.backends.frontend.values import Known

__all__ = ["Definition", "definition", "free_names"]

Definition = ast.FunctionDef | ast.Lambda

# What a device function may consist of to be inlined here; Numba compiles any other.
_SYNTAX = (
    ast.FunctionDef | ast.Lambda | ast.arguments | ast.arg | ast.Return | ast.Assign | ast.AugAssign
    | ast.For | ast.While | ast.If | ast.Expr | ast.Break | ast.Continue | ast.Pass | ast.BoolOp
    | ast.BinOp | ast.UnaryOp | ast.IfExp | ast.Compare | ast.Call | ast.Constant | ast.Attribute
    | ast.Subscript | ast.Name | ast.Tuple | ast.expr_context | ast.boolop | ast.operator
    | ast.unaryop | ast.cmpop
)  # fmt: skip


@functools.lru_cache(1024)
def definition(code: CodeType) -> Definition | None:
    """Return the tree of the function whose code this is, or None.

    None stands for: its source is not there, or it uses what kernels do not.
    """
    found = [node for node in _definitions(code.co_filename) if _is_of(node, code)]
    if len(found) != 1:
        return None
    (node,) = found
    if isinstance(node, ast.FunctionDef):
        # What decorates it is no part of what it does.
        node = ast.FunctionDef(node.name, node.args, node.body, [], None, lineno=node.lineno)
    arguments = node.args
    plain = not (
        arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg
        or arguments.defaults
    )  # fmt: skip
    return node if plain and all(isinstance(part, _SYNTAX) for part in ast.walk(node)) else None


def free_names(function: FunctionType) -> dict[str, Known]:
    """Return what the names in a function stand for that are not its own."""
    code = function.__code__
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    names = {name: Known(cell.cell_contents) for name, cell in cells}
    for name in code.co_names:
        if name not in names and name in function.__globals__:
            names[name] = Known(function.__globals__[name])
    return names


@functools.lru_cache(64)
def _definitions(filename: str) -> tuple[Definition, ...]:
    text = "".join(linecache.getlines(filename))
    nodes = ast.walk(ast.parse(text))
    return tuple(node for node in nodes if isinstance(node, ast.FunctionDef | ast.Lambda))


def _is_of(node: Definition, code: CodeType) -> bool:
    """Whether ``code`` was made of ``node``: by its line, and for lambdas by their columns."""
    if isinstance(node, ast.FunctionDef):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        return node.name == code.co_name and first == code.co_firstlineno
    if code.co_name != "<lambda>" or node.lineno != code.co_firstlineno:
        return False
    body: Any = node.body
    place = (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset)
    return place in set(code.co_positions())

"""The syntax trees of Python functions, by their code."""

from __future__ import annotations
import __future__

import ast
import functools
import linecache
import weakref
from collections.abc import Iterator
from types import CodeType
from typing import Any

__all__ = ["Definition", "definition", "keep_definition"]

_FUTURES = __future__.annotations.compiler_flag | __future__.generator_stop.compiler_flag
Definition = ast.FunctionDef | ast.Lambda
_kept: weakref.WeakKeyDictionary[CodeType, Definition] = weakref.WeakKeyDictionary()


def keep_definition(code: CodeType, tree: Definition) -> None:
    """Remember the tree of code that was made of it without a text."""
    _kept[code] = tree


@functools.lru_cache(1024)
def definition(code: CodeType) -> Definition | None:
    """Return the tree of the function whose code this is, or None.

    None stands for: its text is not there or no longer the one it was made from, or it takes
    arguments in other ways than by position.
    """
    kept = _kept.get(code)
    if kept is not None:
        return kept
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename))
    definitions, compiled = _parsed(text, code.co_flags & _FUTURES)
    found = [node for node in definitions if code in compiled and _is_of(node, code)]
    if len(found) != 1:
        return None
    (node,) = found
    arguments = node.args
    plain = not (
        arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg
        or arguments.defaults
    )  # fmt: skip
    return node if plain else None


@functools.lru_cache(64)
def _parsed(text: str, flags: int) -> tuple[tuple[Definition, ...], frozenset[CodeType]]:
    """Return the trees of all functions in a module's text, and the code of each.

    Args:
        text: The module.
        flags: Of ``from __future__ import ...`` that need not stand in it: in a notebook they hold
            for all cells that follow.
    """
    try:
        tree = ast.parse(text)
        module = compile(tree, "<text>", "exec", flags=flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return (), frozenset()
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda))
    return tuple(nodes), frozenset(_nested(module))


def _nested(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _nested(constant)


def _is_of(node: Definition, code: CodeType) -> bool:
    """Whether ``code`` was made of ``node``: by its line, and for lambdas by their columns."""
    if isinstance(node, ast.FunctionDef):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        return node.name == code.co_name and first == code.co_firstlineno
    if code.co_name != "<lambda>" or node.lineno != code.co_firstlineno:
        return False
    return not {*map(_place, _returned(node.body))}.isdisjoint(code.co_positions())


def _returned(node: Any) -> Iterator[Any]:
    """Yield the expressions of which one is the result: each ends the code in its own place."""
    if isinstance(node, ast.IfExp):
        yield from _returned(node.body)
        yield from _returned(node.orelse)
    else:
        yield node


def _place(node: Any) -> tuple[int, int, int, int]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset

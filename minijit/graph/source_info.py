"""Where in the user's code an operation was written."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, FunctionType

from minijit.graph.mode import mode

__all__ = ["SourceLine", "here", "is_users", "standing_at", "testing_statement", "user_line"]

_PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"
_KERNELS = str(Path(__file__).resolve().parents[2] / "kernels") + "/"  # in a source tree
_TOOLS = _PACKAGE + "tools/"  # users of minijit like any other
# Frames of these libraries stand between the user's call and ours when plain NumPy/CuPy code is
# traced.
_LIBRARIES = ("numpy", "cupy", "optree", "contextlib", "functools", "operator")


@dataclasses.dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's code: ``file``, ``line`` (from 1) and the function around it."""

    file: str
    line: int
    function: str

    @classmethod
    def of_function(cls, function: FunctionType, line: int | None = None) -> SourceLine:
        """Return a line of a function's code; default: the first."""
        code = function.__code__
        return cls(code.co_filename, line or code.co_firstlineno, code.co_name)

    def __str__(self) -> str:
        """Return ``file:line (function)`` with the file's base name."""
        return f"{Path(self.file).name}:{self.line} ({self.function})"


_UNKNOWN = SourceLine("<unknown>", 0, "<unknown>")


def is_users(file: str) -> bool:
    """Whether code of that file is not minijit's own."""
    ours = (_PACKAGE, _KERNELS)
    return not file.startswith(ours) or file.startswith(_TOOLS)


def user_line() -> SourceLine:
    """Return the innermost frame of the stack that is neither minijit's nor a library's.

    Where a transformation stands at a line of the program that it transforms, that is returned.
    """
    if mode.line is not None:
        return mode.line
    frame = _user_frame()
    if frame is None:
        return _UNKNOWN
    return SourceLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


@contextlib.contextmanager
def standing_at(line: SourceLine | None) -> Iterator[None]:
    """Let what is recorded in the ``with`` block come from ``line``, and errors name it.

    None: from the line on the stack, again.
    """
    before, mode.line = mode.line, line
    try:
        yield
    finally:
        mode.line = before


def _user_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            module = frame.f_globals.get("__name__") or ""
            if module.partition(".")[0] not in _LIBRARIES:
                return frame
        frame = frame.f_back
    return None


def testing_statement() -> str:
    """Return what asks at the user's line whether something is true.

    ``"if"`` or ``"while"``; ``"and"`` for ``and``, ``or``, ``not`` and ``a < b < c`` in none of
    them. Nothing is returned for anything else, and where there is no source to look at.
    """
    frame = _user_frame()
    if frame is None:
        return ""
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):  # the latter for null bytes
        return ""
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If | ast.IfExp | ast.While) and _spans(node.test, frame.f_lineno)
    ]
    if found:
        # Several on one line: the innermost one begins last.
        last = max(found, key=lambda node: (node.test.lineno, node.test.col_offset))
        return "while" if isinstance(last, ast.While) else "if"
    logical = any(_is_logical(node) and _spans(node, frame.f_lineno) for node in ast.walk(tree))
    return "and" if logical else ""


def _spans(node: ast.AST, line: int) -> bool:
    return isinstance(node, ast.expr) and node.lineno <= line <= (node.end_lineno or 0)


def _is_logical(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    return isinstance(node, ast.BoolOp) or (isinstance(node, ast.Compare) and len(node.ops) > 1)


def here() -> str:
    """Return where a message is about, ``" (at file:line)"``, or nothing outside of tracing."""
    return f" (at {user_line()})" if mode.trace is not None else ""

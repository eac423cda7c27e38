"""Why the code of a primitive cannot be compiled, in the words of who wrote it.

Generated code calls Python functions of declarations. When Numba refuses one of them, or one of
them could raise, the error is about that function: its file, its line, what is wrong there.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from minijit.backends.frontend.values import FrontendError
from minijit.graph.definitions import definition
from minijit.graph.errors import DeclarationError
from minijit.graph.source_info import is_users

__all__ = ["RAISED", "explained", "explained_kernel", "refuse_calls", "refuse_raising"]

RAISED = "minijit_raised"
"""What kernels call where Python code ends with an error; no kernel that still does is run."""

_CALLED = re.compile(r"\b[A-Za-z_]\w*(?=\()")
_CHECKED = re.compile(r"\breturned_\w+\((\w+)\)")
_LINE = re.compile(r'File "[^"\n]*", line (\d+)')
_NOISE = re.compile(r"^(Failed in|Pass )")
_END = re.compile(r"(File \"|During:|There are)")
_TYPE = re.compile(r"Cannot determine Numba type of <class 'function'>")
_INTERNAL = re.compile(r" for '\$[^']*', defined at .*")
_MEMBER = re.compile(r"Unknown attribute '(\w+)' of type Module\(<module '(\w+)'")
_NUMBAS = re.compile(r"^numba_(\w+?)f?$")
_UNTYPED = re.compile(r"Untyped global name '(\w+)'|Untyped name '(\w+)'")


def explained(error: FrontendError, names: Mapping[str, Any], text: str) -> Exception:
    """Return the error that a user understands: about a function of theirs if one was refused.

    Args:
        error: From the compiler; it begins with the number of the line that was refused.
        names: The globals of the kernel, resolved.
        text: The kernel.
    """
    message = str(error)
    number = re.match(r"line (\d+)", message)
    lines = text.splitlines()[: int(number[1])] if number is not None else []
    for name in _CALLED.findall(" ".join(_calling(lines))):
        function = _function(names.get(name))
        if function is not None and is_users(function.__code__.co_filename):
            known = isinstance(error.__cause__, DeclarationError)
            reason = str(error.__cause__) if known else _reason(message)
            return DeclarationError(f"{_place(function, message)}: {reason}")
    return error


def _calling(lines: Sequence[str]) -> Iterator[str]:
    """Yield the last line, and those that made what it checks."""
    yield from lines[-1:]
    for checked in _CHECKED.findall("".join(lines[-1:])):
        made = (line for line in reversed(lines[:-1]) if _makes(line, checked))
        yield from itertools.islice(made, 1)


def _makes(line: str, name: str) -> bool:
    places, equals, _ = line.partition(" = ")
    return bool(equals) and name in places.strip().split(", ")


def explained_kernel(function: FunctionType, message: str) -> DeclarationError:
    """Return the error for a whole kernel that Numba refused with a message."""
    return DeclarationError(f"{_place(function, message)}: {_reason(chr(10) + message)}")


def refuse_calls(kernel: str, names: Mapping[str, Any], unknown: Sequence[str]) -> Exception:
    """Return the error for a kernel that calls functions which are not there when it runs.

    Args:
        kernel: Its name.
        names: Its globals, resolved.
        unknown: The functions.
    """
    functions = ", ".join(_NUMBAS.sub(r"math.\1", name) for name in unknown)
    users = _users_functions(names)
    if not users:
        return RuntimeError(f"kernel {kernel} calls unknown functions: {functions}")
    places = ", ".join(map(_place, users))
    return DeclarationError(
        f"{places}: it calls {functions}, which has no compiled code on this target: write its "
        "formula here, or give this target code of its own (cpu=, cuda=)"
    )


def refuse_raising(kernel: str, names: Mapping[str, Any]) -> DeclarationError:
    """Return the error for a kernel that ends where Python code would raise.

    Args:
        kernel: Its name.
        names: Its globals, resolved.
    """
    users = _users_functions(names)
    risks = [risk for function in users for risk in _risks(function)]
    risks = risks or [
        f"{_place(function)} has a way to its end without a result" for function in users
    ]
    listed = "; ".join(dict.fromkeys(risks)) or "none of its functions is a user's"
    return DeclarationError(
        f"kernel {kernel} could raise, and code of one element cannot: {listed}. Return NaN, or "
        "another value that says so"
    )


def _users_functions(names: Mapping[str, Any]) -> list[FunctionType]:
    found = filter(None, map(_function, names.values()))
    return [function for function in found if is_users(function.__code__.co_filename)]


def _function(value: Any) -> FunctionType | None:
    """Return the Python function behind a global of a kernel."""
    python = getattr(value, "py_func", value)
    if not isinstance(python, FunctionType):
        return None
    if is_users(python.__code__.co_filename):
        return python
    # Combinations are wrapped by functions of ours.
    inner = inspect.getclosurevars(python).nonlocals.values()
    return next((f for f in map(_function, inner) if f is not None), python)


def _place(function: FunctionType, message: str = "") -> str:
    """Return where a function is, by the line that a message names if that is inside of it."""
    code = function.__code__
    lines = {line for _, _, line in code.co_lines() if line is not None} | {code.co_firstlineno}
    named = [int(number) for number in _LINE.findall(message) if int(number) in lines]
    line = named[0] if named else code.co_firstlineno
    return f"{Path(code.co_filename).name}:{line} ({code.co_name})"


def _reason(message: str) -> str:
    """Return what a message of Numba says, without where in Numba it was said."""
    untyped = _UNTYPED.search(message)
    if _TYPE.search(message) and untyped is not None:
        return (
            f"{untyped[1] or untyped[2]} is a Python function, which compiled code cannot call: "
            "write its formula here, or make it a device function (numba.njit)"
        )
    member = _MEMBER.search(message)
    if member is not None:
        return (
            f"{member[2]}.{member[1]} has no compiled code on this target: write its formula here, "
            "or give this target code of its own (cpu=, cuda=)"
        )
    kept: list[str] = []
    body = message.partition("\n")[2]
    for line in body.splitlines():
        if _END.match(line.strip()):
            break
        if line.strip() and not _NOISE.match(line.strip()):
            kept.append(line.strip().removeprefix(">>> "))
    return "Numba cannot compile it: " + _INTERNAL.sub("", " ".join(kept))


def _risks(function: FunctionType) -> Iterator[str]:
    """Yield what in a function can raise, as far as its text shows."""
    tree = definition(function.__code__)
    if tree is None:
        return
    file, name = Path(function.__code__.co_filename).name, function.__code__.co_name
    for node in ast.walk(tree):
        when = _when_raising(node)
        if when is not None:
            assert isinstance(node, ast.stmt | ast.expr)
            yield f"`{ast.unparse(node)}`{when} at {file}:{node.lineno} ({name})"


def _when_raising(node: ast.AST) -> str | None:
    """Return when Python's meaning of a node is an error; None where it never is."""
    match node:
        case ast.Raise() | ast.Assert():
            return ""
        case ast.BinOp(op=ast.Pow()):
            return " (of an integer zero, where the exponent is negative)"
        case ast.Subscript(slice=ast.expr() as index) if not isinstance(index, ast.Constant):
            return " (where the index is out of range; that of a NumPy array is not looked at)"
    return None

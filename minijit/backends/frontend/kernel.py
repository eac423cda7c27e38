"""A kernel as a Numba function whose body is one intrinsic."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import linecache
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from types import FunctionType
from typing import Any

from minijit.backends.frontend.numba import Numba
from minijit.backends.frontend.statements import Function
from minijit.backends.frontend.values import Known, Typed
from minijit.backends.frontend.vectors import Vectors

__all__ = ["Toolkit", "kernel_function"]


@dataclasses.dataclass(frozen=True, slots=True)
class Toolkit:
    """What a Numba target offers to those who extend it.

    Attributes:
        types: The module of its types.
        intrinsic: Its decorator.
        faster: ``(function, dtype)`` -> what to call in the place of a function or an operator of
            Python's for arguments of a float type, or the function itself.
    """

    types: Any
    intrinsic: Callable[[Any], Any]
    faster: Callable[[Any, str], Any] = lambda function, dtype: function


@dataclasses.dataclass(frozen=True, slots=True)
class _Kernel:
    """The one that is being compiled: its tree and its globals."""

    tree: ast.FunctionDef
    names: Mapping[str, Known]
    vectors: Vectors


_compiled: ContextVar[_Kernel] = ContextVar("_compiled")


@contextlib.contextmanager
def kernel_function(
    toolkit: Toolkit,
    text: str,
    names: Mapping[str, Any],
    filename: str,
    vectors: Vectors | None = None,
) -> Iterator[FunctionType]:
    """Yield what Numba is given to compile, inside the ``with`` statement, in place of a kernel.

    Args:
        toolkit: Of the target.
        text: A module: one function without defaults.
        names: The globals of the module.
        filename: What debug information calls the text.
        vectors: How innermost loops are to run.

    Raises:
        FrontendError: from inside the compiler, for text that it cannot compile.
    """
    (tree,) = ast.parse(text, filename).body
    assert isinstance(tree, ast.FunctionDef)
    listed = ", ".join(argument.arg for argument in tree.args.args)
    module = {"body": _body(toolkit, len(tree.args.args)), "__name__": __name__}
    exec(compile(f"def {tree.name}({listed}): body({listed})", filename, "exec"), module)
    kernel = _Kernel(
        tree, {name: Known(value) for name, value in names.items()}, vectors or Vectors()
    )
    token = _compiled.set(kernel)
    # Numba wants to see the lines that it makes debug information for.
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    try:
        yield module[tree.name]
    finally:
        linecache.cache.pop(filename, None)
        _compiled.reset(token)


@functools.cache
def _body(toolkit: Toolkit, arity: int) -> Any:
    """Return the intrinsic of so many arguments that writes the kernel which is being compiled.

    Numba never forgets an intrinsic: one for each kernel would be a leak.
    """

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kernel = _compiled.get()
        numba = Numba(toolkit.types, context, builder, toolkit.faster)
        function = Function(numba, kernel.names, _locator(builder), kernel.vectors)
        function.bind(kernel.tree, list(map(Typed, signature.args, values)))
        function.run(kernel.tree.body)
        return context.get_dummy_value()

    def typing(*kinds: Any) -> tuple[Any, Any]:
        return toolkit.types.void(*kinds), write

    # Numba reads the number of arguments off the signature of a function.
    listed = ", ".join(f"a{number}" for number in range(arity))
    module: dict[str, Any] = {"typing": typing, "__name__": __name__}
    exec(f"def body(typing_context, {listed}): return typing({listed})", module)
    return toolkit.intrinsic(module["body"])


def _locator(builder: Any) -> Callable[[ast.stmt], None] | None:
    """Return what gives code the line of its statement, if Numba gave the call one."""
    called = builder.debug_metadata
    if called is None:
        return None
    scope = dict(called.operands)["scope"]

    def locate(node: ast.stmt) -> None:
        place = {"line": node.lineno, "column": node.col_offset + 1, "scope": scope}
        builder.debug_metadata = builder.module.add_debug_info("DILocation", place)

    return locate
